//! Points and metrics from the rows of another tool.

use crate::older_records::CACHED_BANDWIDTH;
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};

/// Result of a parser: `None` for another format, otherwise points or an error.
pub type Parsed = Option<std::result::Result<Vec<Point>, String>>;

/// Returns a point with the data of another tool's row.
pub(super) fn point(benchmark: &str, parameters: Parameters, metrics: Vec<Metric>) -> Point {
    Point {
        benchmark: benchmark.to_owned(),
        launch: 0,
        parameters,
        metrics,
        pairs: Vec::new(),
        conduct: Conduct::default(),
        hot_ports: Vec::new(),
        warnings: Vec::new(),
    }
}

/// Returns parameters with these names.
pub(super) fn parameters<const N: usize>(named: [(&str, Value); N]) -> Parameters {
    named.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the metric of a time.
pub(super) fn time(name: &str, nanos: f64) -> Metric {
    Metric::figure(name, "ns", Better::Lower, nanos)
}

/// Returns the metric of a stream over one buffer that stays in the caches, as perftest and OSU
/// send.
pub(super) fn cached_rate(bytes_per_second: f64) -> Metric {
    Metric::figure(
        CACHED_BANDWIDTH,
        "bytes/s",
        Better::Higher,
        bytes_per_second,
    )
}

/// Returns the metric of a stream with unknown buffers.
pub(super) fn rate(bytes_per_second: f64) -> Metric {
    Metric::figure("bandwidth", "bytes/s", Better::Higher, bytes_per_second)
}

/// Returns the metric of a rate of messages.
pub(super) fn messages(a_second: f64) -> Metric {
    Metric::figure("message-rate", "1/s", Better::Higher, a_second)
}

//! Which measurements of an adapter its profile is fitted to, and which it is judged by. This was written, and committed,
//! before the model that it is for existed.
//!
//! 1. Fitted to: the six benchmarks that perftest is known for, latency and bandwidth of writes, reads and sends, and one
//!    atomic. They are what people have of an adapter before they know this suite.
//! 2. Judged by: every other benchmark of the suite that is between two processes and that the model has an answer to. None is
//!    left out for being met badly.
//! 3. Of either: what goes over reliable connections with receive queues of their own, for other transports are other code with
//!    costs of their own; polled, for sleeping is the kernel's time.
//! 4. Of several launches the best figure counts: what disturbs a program makes it slower, never faster.
//! 5. The error of a benchmark is the mean of |model / measured - 1| over its points and figures; that of the profile is the mean
//!    over the benchmarks that it is judged by. Message rates are not counted beside the bandwidth that they are a multiple
//!    of.

use verbena_measure::result::{Metric, Point, Value};

/// Benchmarks that are fitted to (1).
pub const FITTED: [&str; 7] = [
    "latency.write",
    "latency.read",
    "latency.send",
    "latency.fetch-add",
    "bandwidth.write",
    "bandwidth.read",
    "bandwidth.send",
];

/// Metrics that are held against the model (5).
const METRICS: [&str; 6] = [
    "one-way-latency",
    "completion-latency",
    "response-time",
    "scatter-time",
    "bandwidth",
    "cached-bandwidth",
];

/// Whether a benchmark is fitted to.
pub fn is_fitted(benchmark: &str) -> bool {
    FITTED.contains(&benchmark)
}

/// Whether a point is of what the model is about (3).
pub fn is_covered(point: &Point) -> bool {
    let usual = |name: &str, usual: &str| match point.parameters.get(name) {
        None => true,
        Some(Value::Word(word)) => word == usual,
        Some(Value::Number(_)) => false,
    };
    let one_pair = match point.parameters.get("pairs") {
        None => true,
        Some(pairs) => *pairs == Value::Number(1.0),
    };
    usual("transport", "rc")
        && usual("receive-queue", "own")
        && usual("wait", "poll")
        && one_pair
        && !point.conduct.search
}

/// The figures of a point that are held against the model.
pub fn figures(point: &Point) -> impl Iterator<Item = &Metric> {
    let counted = |metric: &&Metric| METRICS.contains(&metric.name.as_str());
    point.metrics.iter().filter(counted)
}

//! The rule that splits an adapter's measurements into those for fitting a profile and those for
//! judging it. It was written and committed before the model existed.
//!
//! 1. Fitting: the six benchmarks that perftest is known for, latency and bandwidth of writes,
//!    reads and sends, and one atomic. They are the measurements that users have of an adapter
//!    before they know this suite.
//! 2. Judging: every other benchmark of the suite between two processes that the model can predict.
//!    None is excluded for a large error.
//! 3. Both: only reliable connections with their own receive queues, because other transports use
//!    other code with other costs; only polling, because sleeping is time of the kernel.
//! 4. The best figure of several launches counts: disturbances make a program slower, never faster.
//! 5. The error of a benchmark is the mean of |model / measured - 1| over its points and figures;
//!    that of the profile is the mean over the judging benchmarks. Message rates do not count
//!    beside the bandwidth of which they are a multiple.

use verbena_measure::result::{Metric, Point, Value};

/// Benchmarks for fitting (1).
pub const FITTED: [&str; 7] = [
    "latency.write",
    "latency.read",
    "latency.send",
    "latency.fetch-add",
    "bandwidth.write",
    "bandwidth.read",
    "bandwidth.send",
];

/// Metrics that are compared with the model (5).
const METRICS: [&str; 6] = [
    "one-way-latency",
    "completion-latency",
    "response-time",
    "scatter-time",
    "bandwidth",
    "cached-bandwidth",
];

/// Returns whether a benchmark is used for fitting.
pub fn is_fitted(benchmark: &str) -> bool {
    FITTED.contains(&benchmark)
}

/// Returns whether a point is within the model's scope (3).
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

/// Returns the figures of a point that are compared with the model.
pub fn figures(point: &Point) -> impl Iterator<Item = &Metric> {
    let counted = |metric: &&Metric| METRICS.contains(&metric.name.as_str());
    point.metrics.iter().filter(counted)
}

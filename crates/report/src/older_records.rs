//! Converts names in older records. Since `bandwidth.*` uses alternating buffers and records their
//! reader (`conduct.reader`), the old metric `bandwidth` is named `cached-bandwidth`, and
//! `bandwidth` is another figure.

use verbena_measure::result::Point;

/// Metric of a stream over one buffer that is reused, stays in the caches, and is not read.
pub const CACHED_BANDWIDTH: &str = "cached-bandwidth";

/// Benchmarks whose `bandwidth` changed its meaning.
const CHANGED: [&str; 5] = [
    "bandwidth.write",
    "bandwidth.write-both",
    "bandwidth.write-immediate",
    "bandwidth.read",
    "bandwidth.send",
];

/// Returns a point with today's names.
pub fn with_current_names(mut point: Point) -> Point {
    let is_older = point.conduct.reader.is_none() && CHANGED.contains(&point.benchmark.as_str());
    let of_one_buffer = point
        .metrics
        .iter_mut()
        .filter(|metric| is_older && metric.name == "bandwidth");
    of_one_buffer.for_each(|metric| metric.name = CACHED_BANDWIDTH.to_owned());
    point
}

//! What the words of older records meant. Until `bandwidth.*` went over buffers in turn and said who reads them
//! (`conduct.reader`), their `bandwidth` was what is called `cached-bandwidth` since: the same word for another figure.

use verbena_measure::result::Point;

/// A stream over one buffer that is used again and again, stays in the caches, and is read by nobody.
pub const CACHED_BANDWIDTH: &str = "cached-bandwidth";

/// Benchmarks whose `bandwidth` changed its meaning.
const CHANGED: [&str; 5] = [
    "bandwidth.write",
    "bandwidth.write-both",
    "bandwidth.write-immediate",
    "bandwidth.read",
    "bandwidth.send",
];

/// A point in the words of today.
pub fn in_words_of_today(mut point: Point) -> Point {
    let is_older = point.conduct.reader.is_none() && CHANGED.contains(&point.benchmark.as_str());
    let of_one_buffer = point
        .metrics
        .iter_mut()
        .filter(|metric| is_older && metric.name == "bandwidth");
    of_one_buffer.for_each(|metric| metric.name = CACHED_BANDWIDTH.to_owned());
    point
}

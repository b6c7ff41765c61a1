//! Errors of anchors.

use super::{BENCHMARKS, LARGEST, Unit};
use verbena_model::profile::Error;

/// Why a model cannot be anchored.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// An anchor in text is malformed.
    #[error(
        "anchor {text:?}: {reason}; expected BENCHMARK:BYTES=FIGURE, such as \
         latency.write:8=1.88us or bandwidth.write:64=330MB/s, or a file"
    )]
    Text {
        /// The text.
        text: String,
        /// The mistake.
        reason: String,
    },
    /// A benchmark has no anchors.
    #[error("{0:?} cannot be an anchor; use one of {names}", names = names())]
    Benchmark(String),
    /// The unit is not the benchmark's.
    #[error("an anchor of {benchmark} is {what}", what = example(*unit))]
    Unit {
        /// The benchmark.
        benchmark: String,
        /// Its unit.
        unit: Unit,
    },
    /// The messages are too long, or a rate is of empty messages.
    #[error(
        "anchor {0}: the size must be from 1 to {LARGEST} B; longer messages measure bandwidths, \
         not the time of a message"
    )]
    Size(String),
    /// The figure is not above zero.
    #[error("anchor {0}: the figure must be above zero")]
    Figure(String),
    /// Two anchors determine the same time.
    #[error("two anchors for the same time of {operation}: {first}, and {second}; give one")]
    Twice {
        /// The operation.
        operation: &'static str,
        /// One.
        first: String,
        /// The other.
        second: String,
    },
    /// The model has no such benchmark.
    #[error("cannot anchor {system} by {benchmark}: {reason}")]
    Model {
        /// The benchmark.
        benchmark: String,
        /// The system.
        system: String,
        /// Why.
        reason: String,
    },
    /// A file cannot be used.
    #[error("anchors from {path}: {reason}")]
    File {
        /// Its path.
        path: String,
        /// Why, and the expected contents.
        reason: String,
    },
    /// A profile is invalid.
    #[error(transparent)]
    Profile(#[from] Error),
}

fn names() -> String {
    BENCHMARKS.map(|(name, ..)| name).join(", ")
}

fn example(unit: Unit) -> &'static str {
    match unit {
        Unit::Micros => "a latency, such as 1.88us",
        Unit::Megabytes => "a rate, such as 330MB/s, 2.6Gbit/s or 5.2Mmsg/s",
    }
}

//! The records of a results file. `docs/results-schema.md` defines every field.

pub mod v1;
pub use v1::*;

/// The version that is written and read.
pub const VERSION: u64 = 1;

//! The records of a results file. `docs/results-schema.md` defines every field.

pub mod v1;
pub use v1::*;

/// The schema version of this program.
pub const VERSION: u64 = 1;

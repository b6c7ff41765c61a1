//! Emulation of another adapter in real time (`verbena run --as SYSTEM`): the times that its
//! operations take ([`table`]), and the timing errors of a run ([`lateness`]).
//!
//! A timing model computes the table before the program starts. The adapter holds the effect of
//! each request until the time in the table, and records its lateness.
#![forbid(unsafe_code)]

pub mod lateness;
pub mod operation;
pub mod port;
pub mod table;

/// The variable with the directory of an emulation: the file [`TABLE`], and a report of each
/// process that used the adapter.
pub const VARIABLE: &str = "VERBENA_AS";

/// The file with the table.
pub const TABLE: &str = "table";

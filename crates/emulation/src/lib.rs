//! Emulation of another adapter in real time (`verbena run --as SYSTEM`): the times that its
//! operations take ([`table`]), and the timing errors of a run ([`lateness`]).
//!
//! Requests wait for each other by words of shared memory ([`reservation`]), on adapters that
//! process one at a time by more of them ([`serial`]).
//!
//! A timing model computes the table before the program starts. The adapter holds the effect of
//! each request until the time in the table, and records its lateness.
#![forbid(unsafe_code)]

pub mod device;
pub mod knob;
pub mod lateness;
pub mod node;
pub mod operation;
pub mod port;
pub mod reservation;
pub mod serial;
pub mod table;
pub mod tolerance;

/// The variable with the directory of an emulation: the file [`TABLE`], and a report of each
/// process that used the adapter.
pub const VARIABLE: &str = "VERBENA_AS";

/// The file with the table.
pub const TABLE: &str = "table";

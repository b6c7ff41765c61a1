//! Recorded MPI programs and schedules of messages, on modelled systems and on hosts with measured
//! costs.
#![forbid(unsafe_code)]

pub mod goal;
pub mod host;
mod job;
pub mod recorded;

pub use job::{cyclic, run_on_ranks};

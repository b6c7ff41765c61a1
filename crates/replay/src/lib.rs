//! Recorded MPI programs and schedules of messages, on modelled systems and on hosts with measured
//! costs.
//!
//! A recording becomes a [`Program`] per rank, and one player executes programs on both kinds of
//! machines ([`recorded`], [`host`]). Programs and schedules ([`goal`]) run as jobs of a modelled
//! system, whose ranks match and carry their messages. [`source`] opens the input of a replay.
#![forbid(unsafe_code)]

pub mod goal;
pub mod host;
mod job;
mod least;
mod player;
mod program;
pub mod recorded;
mod rounds;
pub mod source;

pub use job::{RanksRun, cyclic, run_on_ranks};
pub use player::{Endless, Parts};
pub use program::{Act, Program, Step};
pub use rounds::{Rounds, run_rounds};

//! Schedules of sends, receives and calculations, in GOAL's text format, as algorithms of MSCCL or
//! from Chakra's traces, run on a model.
//!
//! Each rank has operations. An operation begins after others have ended (`requires`) or begun
//! (`irequires`). A schedule is thus a program reduced to messages and durations; Schedgen converts
//! traces to schedules. Source: Hoefler, Siebert, Lumsdaine: Group Operation Assembly Language
//! (ICPP 2009); the text format is that of LogGOPSim's `txt2bin` (spcl/LogGOPSim, `txt2bin.re`).

mod chakra;
#[cfg(test)]
mod chakra_test;
mod critical;
mod joint;
mod least;
mod msccl;
#[cfg(test)]
mod msccl_test;
mod run;
mod schedule;
mod text;
mod tokens;
mod write;
mod xml;

pub use chakra::{Converted, convert};
pub use least::least;
pub use msccl::is_msccl;
pub use run::{Ends, Failure, run};
pub use schedule::{Action, Operation, Schedule};
pub use text::Fault;

//! Schedules of sends, receives and calculations in GOAL's text format, run on a model.
//!
//! Each rank has operations, and each operation others that must have ended (`requires`) or begun (`irequires`) before it begins. So a
//! schedule is a program without its computing: traces become schedules by Schedgen. Source: Hoefler, Siebert, Lumsdaine: Group
//! Operation Assembly Language (ICPP 2009); the text is what LogGOPSim's `txt2bin` reads (spcl/LogGOPSim, `txt2bin.re`).

mod run;
mod schedule;
mod text;
mod words;

pub use run::{Failure, Outcome, run};
pub use schedule::{Act, Operation, Schedule};
pub use text::Fault;

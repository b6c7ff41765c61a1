//! Converts time-independent traces of SimGrid (`smpirun -trace-ti`).
//!
//! A trace is text, one line an action of a rank. It has neither times nor communicators, and the
//! tags of `MPI_Sendrecv` are missing. Parsed lines ([`Reader`]) are executed without times, which
//! finds the message of every receive, and then written as calls. The format has no documentation;
//! this follows the traces and the replay of SimGrid 3.32.

mod action;
mod arguments;
mod collective;
mod error;
mod execution;
mod matching;
mod reader;
mod request;
mod step;
#[cfg(test)]
mod tests;
mod whole_trace;

pub use error::Error;
pub use execution::Imported;
pub use reader::Reader;

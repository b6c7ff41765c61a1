//! Recorded MPI calls of programs: the recorder's source, the files that it writes, and their
//! analysis.
//!
//! A trace is a directory with one file per rank, or a single file with all of them
//! (`docs/trace-format.md`). [`Trace::open`] reads it, [`Messages`] matches sends with receives,
//! [`Summary`] counts, [`Section`] selects a part. [`recorder`] has the C source, which the user's
//! own `mpicc` compiles; [`stopwatch`] has the duration of a program without recording. [`otf2`],
//! [`dumpi`] and [`simgrid`] import traces of other tools, [`chakra`] reads graphs of accelerators'
//! programs.
#![forbid(unsafe_code)]

mod block;
mod bundle;
pub mod chakra;
mod communicator;
pub mod dumpi;
mod epoch;
mod message;
mod number;
pub mod otf2;
mod part;
mod rank;
pub mod recorder;
mod section;
pub mod simgrid;
pub mod stopwatch;
mod summary;
mod trace;
mod writer;

pub use block::checksum;
pub use bundle::is_bundle;
pub use communicator::{Communicators, Group, Identity};
pub use message::{Imbalance, Messages};
pub use part::{Collective, Part, Synchronization};
pub use rank::{Call, End, RankTrace, Record, RecordedOn};
pub use section::Section;
pub use summary::{Calls, Summary};
pub use trace::{Error, Trace};
pub use writer::Writer;

/// An error in a rank's file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {reason}")]
pub struct Fault {
    /// Position in the file in bytes, from 0; for an error within a block, that of the block.
    pub at: usize,
    /// The problem.
    pub reason: String,
}

//! MPI calls of a program, recorded: the recorder's source, the files that it writes, and what they say.
//!
//! A trace is a directory with a file a rank, or a file with all of these (`docs/trace-format.md`). [`Trace::open`] reads it, [`Messages`]
//! follows what was sent to what received it, [`Summary`] counts, [`Section`] is a part of it. [`recorder`] has the C source, which the user's own `mpicc`
//! compiles; while it records nothing, [`stopwatch`] has what the program took.
#![forbid(unsafe_code)]

mod block;
mod bundle;
mod communicator;
mod epoch;
mod message;
mod number;
pub mod otf2;
mod part;
mod rank;
pub mod recorder;
mod section;
pub mod stopwatch;
mod summary;
mod trace;
mod writer;

pub use block::checksum;
pub use bundle::is_bundle;
pub use communicator::{Communicators, Group, Identity};
pub use message::{Imbalance, Messages};
pub use part::{Collective, Part, Synchronization};
pub use rank::{Call, End, RankTrace, Record};
pub use section::Section;
pub use summary::{Calls, Summary};
pub use trace::{Error, Trace};
pub use writer::Writer;

/// What is wrong with a rank's file, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("byte {at}: {reason}")]
pub struct Fault {
    /// The byte of the file, from 0; within a block, that of the block.
    pub at: usize,
    /// What is wrong.
    pub reason: String,
}

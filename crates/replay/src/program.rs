//! The program of a rank.

use std::sync::Arc;
use verbena_model::mpi::Round;

/// An operation that runs beside the rank's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends a message.
    Send {
        /// Destination rank.
        to: usize,
        /// Length in bytes.
        bytes: u64,
        /// Mark, unique between these two ranks in this direction.
        mark: u32,
        /// Whether the call returns only when the buffer may be reused: libraries have limits of
        /// their own for such sends.
        blocking: bool,
    },
    /// Receives a message.
    Receive {
        /// Source rank.
        from: usize,
        /// Length in bytes.
        bytes: u64,
        /// Mark of the message.
        mark: u32,
    },
    /// Executes the rounds of a collective operation.
    Rounds {
        /// This rank's action in each round.
        rounds: Arc<[Round]>,
        /// The ranks by their index in the group.
        members: Arc<[usize]>,
        /// The mark of the messages.
        mark: u32,
    },
    /// Accesses another rank's memory.
    Access {
        /// The target rank.
        peer: usize,
        /// Bytes to the target.
        out: u64,
        /// Bytes back from the target.
        back: u64,
        /// Mark, unique between these two ranks in this direction.
        mark: u32,
    },
}

/// A step of a rank's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Computes for this many nanoseconds.
    Compute(u64),
    /// Begins an operation in a slot; several active operations may share one.
    Begin {
        /// The slot.
        slot: usize,
        /// The operation.
        act: Act,
    },
    /// Waits until all operations of a slot have ended.
    Wait {
        /// The slot.
        slot: usize,
        /// Index of the waiting call in the trace.
        call: usize,
    },
    /// Marks the operations of a slot as never waited for.
    Forget {
        /// The slot.
        slot: usize,
    },
}

/// The steps of a rank.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
}

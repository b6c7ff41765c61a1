//! What a rank does.

use std::rc::Rc;
use verbena_model::mpi::Round;

/// Something that goes on while the rank does something else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Sends a message.
    Send {
        /// To this rank.
        to: usize,
        /// So long.
        bytes: u64,
        /// Marked so, as no other from here to there.
        mark: u32,
    },
    /// Receives a message.
    Receive {
        /// From this rank.
        from: usize,
        /// So long.
        bytes: u64,
        /// Marked so.
        mark: u32,
    },
    /// Goes through the rounds of a collective operation.
    Rounds {
        /// What this rank does in each.
        rounds: Rc<[Round]>,
        /// The ranks by their places in the group.
        members: Rc<[usize]>,
        /// The mark of the messages.
        mark: u32,
    },
    /// Accesses another rank's memory.
    Access {
        /// Whose.
        peer: usize,
        /// Bytes that go there.
        out: u64,
        /// Bytes that come back.
        back: u64,
        /// Marked so, as no other from here to there.
        mark: u32,
    },
}

/// A step of a rank's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Computes so many nanoseconds.
    Compute(u64),
    /// Begins something, under a number that others under way may have, too.
    Begin {
        /// The number.
        slot: usize,
        /// What.
        act: Act,
    },
    /// Waits until all of a number have ended.
    Wait {
        /// The number.
        slot: usize,
        /// The call that waits, by its place in the trace.
        call: usize,
    },
    /// Nobody will wait for those of a number.
    Forget {
        /// The number.
        slot: usize,
    },
}

/// What a rank does, step by step.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
}

//! Plays programs on a machine: a rank computes, begins operations and waits for their ends. A
//! machine gives these actions their times, as a modelled system ([`crate::recorded`]) or as a host
//! with measured costs ([`crate::host`]).

use crate::program::{Act, Program, Step};
use std::collections::HashMap;
use verbena_model::kernel::Time;

/// A rank of a machine.
pub(crate) trait Player {
    /// An operation that has begun.
    type Begun;

    /// Computes; the time is the recorded one in nanoseconds.
    async fn compute(&self, nanos: u64);

    /// Begins an operation, which then runs beside the rank.
    async fn begin(&self, act: Act) -> Self::Begun;

    /// Waits in a call, by its index in the trace, until operations have ended.
    async fn wait(&self, begun: Vec<Self::Begun>, call: usize);
}

/// Plays a rank's program.
pub(crate) async fn play<P: Player>(rank: &P, program: Program) {
    let mut slots: HashMap<usize, Vec<P::Begun>> = HashMap::new();
    for step in program.steps {
        match step {
            Step::Compute(nanos) => rank.compute(nanos).await,
            Step::Begin { slot, act } => {
                let begun = rank.begin(act).await;
                slots.entry(slot).or_default().push(begun);
            }
            Step::Wait { slot, call } => {
                let begun = slots.remove(&slot).unwrap_or_default();
                rank.wait(begun, call).await;
            }
            Step::Forget { slot } => {
                slots.remove(&slot);
            }
        }
    }
}

/// Times of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// The program's own computing.
    pub computing: Time,
    /// Processor time for messages.
    pub overhead: Time,
    /// The rest: idle time of its processor, or waiting for a processor that ranks share.
    pub waiting: Time,
    /// Time of its end.
    pub end: Time,
}

impl Parts {
    /// Splits the time of a rank that computed for `computing` and worked for `busy` altogether.
    pub(crate) fn of(computing: Time, busy: Time, end: Time) -> Parts {
        Parts {
            computing,
            overhead: busy.since(computing),
            waiting: end.since(busy),
            end,
        }
    }
}

/// Returns the time when all ranks have ended.
pub(crate) fn last(ranks: &[Parts]) -> Time {
    let ends = ranks.iter().map(|rank| rank.end);
    ends.max().unwrap_or_default()
}

/// A rank waits for an event that never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("rank {rank} never returns from its call {call} (from 0)")]
pub struct Endless {
    /// The rank.
    pub rank: usize,
    /// Index of the call in the trace.
    pub call: usize,
}

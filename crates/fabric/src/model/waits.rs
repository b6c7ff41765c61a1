//! The waits of the processes of a modelled job.

use crate::error::{Error, Result};
use std::cell::Cell;
use std::time::Duration;
use verbena_model::kernel::{Sim, Watch};

/// Kind of a wait. When no event is left, waits for data end first, so that a process whose peer
/// failed can still report that in the exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Awaited {
    /// A completion, or a change of memory.
    Data,
    /// The other processes.
    Exchange,
}

/// Number of waiting tasks, and how often their waits were ended with an error.
#[derive(Default)]
struct Waiting {
    tasks: Cell<usize>,
    ended: Cell<u64>,
}

/// The waits of all processes.
pub(super) struct Waits {
    sim: Sim,
    /// Change notifications of each process: its memory and its completion queues.
    watches: Vec<Watch>,
    exchange: Watch,
    data: Waiting,
    exchanging: Waiting,
}

impl Waits {
    pub fn new(sim: &Sim, processes: usize) -> Waits {
        Waits {
            sim: sim.clone(),
            watches: (0..processes).map(|_| Watch::new(sim)).collect(),
            exchange: Watch::new(sim),
            data: Waiting::default(),
            exchanging: Waiting::default(),
        }
    }

    /// Signals a change visible to process `rank`.
    pub fn changed(&self, rank: usize) {
        self.watches[rank].changed();
    }

    /// Signals a change in the exchange.
    pub fn exchanged(&self) {
        self.exchange.changed();
    }

    /// Waits in process `rank` until `ready` returns a value.
    ///
    /// # Errors
    ///
    /// Returns [`Error::Stalled`] if no event is left.
    pub async fn until<T>(
        &self,
        (rank, awaited): (usize, Awaited),
        what: &'static str,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let (watch, waiting) = match awaited {
            Awaited::Data => (&self.watches[rank], &self.data),
            Awaited::Exchange => (&self.exchange, &self.exchanging),
        };
        let (since, ended) = (self.sim.now(), waiting.ended.get());
        let mut value = None;
        waiting.tasks.set(waiting.tasks.get() + 1);
        watch
            .until(|| {
                value = ready();
                value.is_some() || waiting.ended.get() != ended
            })
            .await;
        waiting.tasks.set(waiting.tasks.get() - 1);
        value.ok_or_else(|| {
            Error::stalled(
                what,
                Duration::from_nanos((self.sim.now() - since).0 / 1000),
            )
        })
    }

    /// Ends waits with an error when no event is left; returns false if there are none.
    pub fn stalled(&self) -> bool {
        if self.data.tasks.get() > 0 {
            self.data.ended.set(self.data.ended.get() + 1);
            self.watches.iter().for_each(Watch::changed);
        } else if self.exchanging.tasks.get() > 0 {
            self.exchanging.ended.set(self.exchanging.ended.get() + 1);
            self.exchange.changed();
        } else {
            return false;
        }
        true
    }
}

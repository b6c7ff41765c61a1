//! The state shared by all processes of a modelled job, and their waits.

use super::completions::Queue;
use super::job::Job;
use super::machine::{Processor, Running};
use super::pair::PairState;
use super::receive::Receives;
use crate::error::{Error, Result};
use crate::in_process::Registered;
use crate::operation::Remote;
use crate::region::Location;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verbena_model::adapter::{MemoryHome, MemoryLocation};
use verbena_model::kernel::{Time, Watch};

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

pub(super) struct World {
    pub running: Running,
    /// The node of each rank.
    pub nodes: Vec<usize>,
    /// Stop request.
    pub stop: Arc<AtomicBool>,
    pub registered: RefCell<Registered>,
    pub pairs: RefCell<HashMap<u32, Rc<PairState>>>,
    pub shared: RefCell<HashMap<u32, Rc<Receives>>>,
    pub gathers: RefCell<HashMap<u64, Vec<Option<Vec<u8>>>>>,
    pub barriers: RefCell<HashMap<Vec<usize>, u64>>,
    /// Completion queues of each rank, to compute their memory use.
    pub queues: RefCell<Vec<(usize, Weak<Queue>)>>,
    numbers: Cell<u32>,
    /// Number of queue pairs created on each node.
    had: Vec<Cell<u64>>,
    /// Change notifications of each process: its memory and its completion queues.
    watches: Vec<Watch>,
    exchange: Watch,
    data: Waiting,
    exchanging: Waiting,
    /// Times of the last two clock readings by process 0.
    looks: Cell<(Time, Time)>,
}

impl World {
    pub fn new(running: Running, job: &Job) -> Rc<World> {
        let (sim, nodes) = (running.sim().clone(), job.nodes.clone());
        let size = running.size();
        Rc::new(World {
            watches: nodes.iter().map(|_| Watch::new(&sim)).collect(),
            exchange: Watch::new(&sim),
            running,
            nodes,
            stop: job.stop.clone(),
            registered: RefCell::default(),
            pairs: RefCell::default(),
            shared: RefCell::default(),
            gathers: RefCell::default(),
            barriers: RefCell::default(),
            queues: RefCell::default(),
            numbers: Cell::new(1),
            had: (0..size).map(|_| Cell::new(0)).collect(),
            data: Waiting::default(),
            exchanging: Waiting::default(),
            looks: Cell::default(),
        })
    }

    pub fn now(&self) -> Time {
        self.running.sim().now()
    }

    /// Returns an unused number for a shared receive queue.
    pub fn fresh(&self) -> u32 {
        self.numbers.replace(self.numbers.get() + 1)
    }

    /// Returns the core of a rank: its node's cores are used in turn.
    pub fn processor(&self, rank: usize) -> Processor {
        let node = self.nodes[rank];
        let before = self.nodes[..rank].iter().filter(|&&n| n == node).count();
        self.running.process_on(node, before)
    }

    /// Returns the port of a node's next queue pair: ports are used in turn.
    pub fn port(&self, node: usize) -> usize {
        let had = self.had[node].replace(self.had[node].get() + 1);
        (had % self.running.ports()) as usize
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
        let (since, ended) = (self.now(), waiting.ended.get());
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
            Error::stalled(what, Duration::from_nanos((self.now() - since).0 / 1000))
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

    /// Records a clock reading by process 0.
    pub fn look(&self) {
        let (_, last) = self.looks.get();
        self.looks.set((last, self.now()));
    }

    /// Returns the times of its last two readings: the last timed operation.
    pub fn last_operation(&self) -> (Time, Time) {
        self.looks.get()
    }

    /// Returns the model's location of local memory.
    pub fn local_place(&self, key: u32, offset: usize) -> MemoryLocation {
        let registered = self.registered.borrow();
        MemoryLocation {
            region: u64::from(key),
            address: offset as u64,
            home: match registered.region(key).map(|region| region.location) {
                Some(Location::Device) => MemoryHome::Adapter,
                _ => MemoryHome::Host,
            },
        }
    }

    /// Returns the model's location of remote memory; unregistered memory is rejected when the
    /// request takes effect.
    pub fn remote_place(&self, at: Remote) -> MemoryLocation {
        let registered = self.registered.borrow();
        match registered.region(at.key) {
            None => MemoryLocation::default(),
            Some(region) => {
                let offset = at.address.saturating_sub(region.address);
                drop(registered);
                self.local_place(at.key, offset as usize)
            }
        }
    }
}

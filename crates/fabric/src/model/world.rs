//! The state shared by all processes of a modelled job.

use super::completion_queue_state::Queue;
use super::machine::{Processor, Running};
use super::pair_state::PairState;
use super::receive_queue::Receives;
use super::waits::Waits;
use crate::in_process::Registered;
use crate::operation::Remote;
use crate::region::Location;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use verbena_model::adapter::{MemoryHome, MemoryLocation};
use verbena_model::kernel::Time;

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
    pub waits: Waits,
    /// Times of the last two clock readings by process 0.
    looks: Cell<(Time, Time)>,
}

impl World {
    pub fn new(running: Running, nodes: Vec<usize>, stop: Arc<AtomicBool>) -> Rc<World> {
        let size = running.size();
        Rc::new(World {
            waits: Waits::new(running.sim(), nodes.len()),
            running,
            nodes,
            stop,
            registered: RefCell::default(),
            pairs: RefCell::default(),
            shared: RefCell::default(),
            gathers: RefCell::default(),
            barriers: RefCell::default(),
            queues: RefCell::default(),
            numbers: Cell::new(1),
            had: (0..size).map(|_| Cell::new(0)).collect(),
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

//! PCI-X.
//!
//! One server for both directions. Data move in bursts with a fixed bus time around each. A read is
//! a request phase, the bridge's latency during which the bus is free, and its data; the bridge
//! executes few reads at a time. Sources: the PCI-X addendum's split transactions, Myricom's
//! published DMA rates.

use super::load::{Flow, Load};
use super::memory::MemoryModel;
use super::transfer::{Reading, Written};
use crate::kernel::{Semaphore, Server, Sim, Space, Time};
use crate::profile::{Pcix, Rate};
use std::rc::Rc;
use std::sync::Arc;

/// The bus between a host's bridge and its adapter.
pub struct PcixModel {
    sim: Sim,
    profile: Arc<Pcix>,
    memory: Rc<MemoryModel>,
    bus: Server,
    slots: Semaphore,
    /// Processor writes in flight: the bridge holds one burst, and a core that writes more stalls.
    posted: Space,
}

impl PcixModel {
    /// Creates it from its profile.
    pub fn new(sim: &Sim, profile: &Arc<Pcix>, memory: Rc<MemoryModel>) -> PcixModel {
        PcixModel {
            sim: sim.clone(),
            memory,
            bus: Server::new(),
            slots: Semaphore::new(sim, profile.read_slots.0 as usize),
            posted: Space::new(profile.burst.0),
            profile: profile.clone(),
        }
    }

    fn data(&self, bytes: u64) -> Time {
        let bursts = bytes.div_ceil(self.profile.burst.0).max(1);
        self.profile.rate.time(bytes) + self.profile.burst_overhead * bursts
    }

    /// The same for a batch: each packet has its own bursts.
    fn train(&self, load: Load) -> Time {
        self.data(load.first) * (load.packets - 1) + self.data(load.last())
    }

    /// Performs a processor's write of `bytes` to the adapter; see
    /// [`super::PcieModel::programmed`].
    pub async fn programmed(&self, bytes: u64) -> Time {
        self.posted.take(&self.sim, bytes).await;
        let turn = self.bus.reserve(self.sim.now(), self.data(bytes));
        self.posted.give_back(&self.sim, turn.end, bytes);
        turn.end + self.profile.bridge
    }

    pub(super) fn rate(&self) -> Rate {
        self.profile.rate
    }

    /// Returns the one bus.
    pub fn servers(&self) -> Vec<(&'static str, &Server)> {
        vec![("bus", &self.bus)]
    }

    /// Writes a load from the adapter to memory; see [`super::PcieModel::write`].
    pub fn write(&self, load: Load, flow: Flow) -> Written {
        let turn = self.bus.reserve_train(
            flow.head,
            self.train(load),
            flow.tail,
            self.data(load.last()),
        );
        let memory = self.memory.carry(flow.head, load.bytes);
        let settled = self.profile.bridge;
        let gone = turn.end.max(memory);
        Written {
            gone,
            visible: Flow {
                head: turn.start + self.data(load.first) + settled,
                tail: gone + settled,
            },
        }
    }

    /// Starts a read of the adapter from memory.
    pub fn fetch(self: &Rc<Self>, load: Load) -> Reading {
        let reading = Reading::new(&self.sim);
        let (own, part) = (self.clone(), reading.begin());
        self.sim
            .start(async move { part.end(own.read(load).await) });
        reading
    }

    async fn read(&self, load: Load) -> Flow {
        let p = &self.profile;
        let mut left = load.bytes;
        if load.packets > 1 {
            // A message is one read whose requests follow one another, `read_slots` at a time.
            let slot = self.slots.acquire().await;
            let asked = self.bus.reserve(self.sim.now(), p.burst_overhead);
            self.sim.sleep_until(asked.end + p.read_latency).await;
            let requests = load.packets * load.first.div_ceil(p.read_request.0);
            let one = p.read_request.0.min(load.first);
            let turn = p.burst_overhead + p.read_latency + self.data(one);
            let paced = Time(turn.0 * (requests - 1) / p.read_slots.0);
            let now = self.sim.now();
            let last = self.data(load.last().min(one));
            let span = self.train(load) + p.burst_overhead * (requests - 1);
            let turn = self.bus.reserve_train(now, span, now + paced, last);
            let head = turn.start + self.data(load.first);
            self.sim.sleep_until(head).await;
            drop(slot);
            return Flow {
                head,
                tail: turn.end,
            };
        }
        loop {
            let bytes = left.min(p.read_request.0);
            let slot = self.slots.acquire().await;
            let asked = self.bus.reserve(self.sim.now(), p.burst_overhead);
            let memory = self.memory.carry(asked.end, bytes);
            self.sim.sleep_until(asked.end + p.read_latency).await;
            let answer = self.bus.reserve(self.sim.now(), self.data(bytes));
            self.sim.sleep_until(answer.end.max(memory)).await;
            drop(slot);
            left -= bytes;
            if left == 0 {
                return Flow::at(self.sim.now());
            }
        }
    }
}

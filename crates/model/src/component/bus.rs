//! The bus of a node, whichever it is.

use super::{Flow, Load, MemoryModel, PcieModel, PcixModel};
use crate::kernel::{Latch, Mailbox, Semaphore, Server, Sim, Space, Time};
use crate::profile::{Bus, Host, Rate};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// PCI Express or PCI-X.
pub enum BusModel {
    /// PCI Express.
    Pcie(Rc<PcieModel>),
    /// PCI-X.
    Pcix(Rc<PcixModel>),
}

impl BusModel {
    /// From its host's profile.
    pub fn new(sim: &Sim, host: &Host, memory: Rc<MemoryModel>) -> BusModel {
        let numa = host.numa.as_ref();
        match &host.bus {
            Bus::Pcie(pcie) => BusModel::Pcie(Rc::new(PcieModel::new(sim, (pcie, numa), memory))),
            Bus::Pcix(pcix) => BusModel::Pcix(Rc::new(PcixModel::new(sim, pcix, memory))),
        }
    }

    /// A processor's write of `bytes` to the adapter; the future completes when it is on its way, with the time when it
    /// has arrived.
    pub async fn programmed(&self, bytes: u64) -> Time {
        match self {
            BusModel::Pcie(pcie) => pcie.programmed(bytes).await,
            BusModel::Pcix(pcix) => pcix.programmed(bytes).await,
        }
    }

    /// The adapter writes to memory.
    pub fn write(&self, load: Load, flow: Flow) -> Written {
        match self {
            BusModel::Pcie(pcie) => pcie.write(load, flow),
            BusModel::Pcix(pcix) => pcix.write(load, flow),
        }
    }

    /// Everything that serves one after the other here, for accounts of what it has carried.
    pub fn servers(&self) -> Vec<(&'static str, &Server)> {
        match self {
            BusModel::Pcie(pcie) => pcie.servers(),
            BusModel::Pcix(pcix) => pcix.servers(),
        }
    }

    /// What it carries one way, headers included, or what is between it and memory, if that carries less.
    pub fn rate(&self) -> Rate {
        match self {
            BusModel::Pcie(pcie) => Rate(pcie.slowest()),
            BusModel::Pcix(pcix) => pcix.rate(),
        }
    }

    /// The adapter begins to read from memory; the future completes when all requests have been issued. `window`
    /// limits the reads of one message, `total` those of the adapter.
    pub async fn issue(&self, load: Load, window: &Window, total: &Rc<Space>) -> Reading {
        match self {
            BusModel::Pcie(pcie) => pcie.issue(load, window, total).await,
            BusModel::Pcix(pcix) => pcix.fetch(load),
        }
    }

    /// The adapter reads a small structure; returns when it is there.
    pub async fn fetch(&self, bytes: u64, total: &Rc<Space>) {
        match self {
            BusModel::Pcie(pcie) => pcie.fetch(bytes, total).await,
            BusModel::Pcix(pcix) => {
                pcix.fetch(Load::single(bytes)).done().await;
            }
        }
    }
}

/// What becomes of a write to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bus and memory have taken the last byte: the adapter may forget it.
    pub gone: Time,
    /// When a processor sees its packets.
    pub visible: Flow,
}

/// The reads that one message may have in flight.
pub struct Window {
    sim: Sim,
    reads: usize,
    permits: OnceCell<Semaphore>,
    stream: OnceCell<Rc<Server>>,
}

impl Window {
    /// So many.
    pub fn new(sim: &Sim, reads: usize) -> Window {
        Window {
            sim: sim.clone(),
            reads,
            permits: OnceCell::new(),
            stream: OnceCell::new(),
        }
    }

    /// How many.
    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// A permit for each, where reads are followed one by one.
    pub(super) fn permits(&self) -> &Semaphore {
        let made = || Semaphore::new(&self.sim, self.reads);
        self.permits.get_or_init(made)
    }

    /// Trains of packets get their share of time one after the other instead.
    pub(super) fn stream(&self) -> Rc<Server> {
        self.stream.get_or_init(Rc::default).clone()
    }
}

/// Reads of one load that have been issued.
pub struct Reading {
    parts: Rc<Parts>,
    issued: Option<Mailbox<Time>>,
}

/// Its requests.
struct Parts {
    latch: Latch,
    flow: Cell<Flow>,
}

/// One of them.
pub(super) struct Part(Rc<Parts>);

impl Part {
    /// Its data are there.
    pub(super) fn end(self, data: Flow) {
        let flow = self.0.flow.get();
        self.0.flow.set(Flow {
            head: flow.head.max(data.head),
            tail: flow.tail.max(data.tail),
        });
        self.0.latch.end();
    }
}

impl Reading {
    /// Of no requests yet.
    pub(super) fn new(sim: &Sim) -> Reading {
        Reading {
            parts: Rc::new(Parts {
                latch: Latch::new(sim),
                flow: Cell::new(Flow::at(Time::ZERO)),
            }),
            issued: None,
        }
    }

    /// The same; `issued` will be told when the last request is on its way.
    pub(super) fn telling(self, issued: Mailbox<Time>) -> Reading {
        Reading {
            issued: Some(issued),
            ..self
        }
    }

    /// Another request is under way.
    pub(super) fn begin(&self) -> Part {
        self.parts.latch.begin();
        Part(self.parts.clone())
    }

    /// Where it will be told when the last request is on its way, if that is not so already.
    pub fn issued(&mut self) -> Option<Mailbox<Time>> {
        self.issued.take()
    }

    /// Waits for the load's head.
    pub async fn done(self) -> Flow {
        self.parts.latch.wait().await;
        self.parts.flow.get()
    }
}

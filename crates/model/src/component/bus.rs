//! The bus of a node, PCI Express or PCI-X.

use super::{Flow, Load, MemoryModel, PcieModel, PcixModel};
use crate::kernel::{Latch, Mailbox, Semaphore, Server, Sim, Space, Time};
use crate::profile::{Bus, Host, Rate};
use std::cell::{Cell, OnceCell};
use std::rc::Rc;

/// The bus between a host and its adapter.
pub enum BusModel {
    /// PCI Express.
    Pcie(Rc<PcieModel>),
    /// PCI-X.
    Pcix(Rc<PcixModel>),
}

impl BusModel {
    /// Creates the bus of the host's profile.
    pub fn new(sim: &Sim, host: &Host, memory: Rc<MemoryModel>) -> BusModel {
        let numa = host.numa.as_ref();
        match &host.bus {
            Bus::Pcie(pcie) => BusModel::Pcie(Rc::new(PcieModel::new(sim, (pcie, numa), memory))),
            Bus::Pcix(pcix) => BusModel::Pcix(Rc::new(PcixModel::new(sim, pcix, memory))),
        }
    }

    /// Performs a processor's write of `bytes` to the adapter. The future completes when the write
    /// is in flight and returns its arrival time.
    pub async fn programmed(&self, bytes: u64) -> Time {
        match self {
            BusModel::Pcie(pcie) => pcie.programmed(bytes).await,
            BusModel::Pcix(pcix) => pcix.programmed(bytes).await,
        }
    }

    /// Performs a write of the adapter to memory.
    pub fn write(&self, load: Load, flow: Flow) -> Written {
        match self {
            BusModel::Pcie(pcie) => pcie.write(load, flow),
            BusModel::Pcix(pcix) => pcix.write(load, flow),
        }
    }

    /// Returns the first-come-first-served servers of this bus, for audits.
    pub fn servers(&self) -> Vec<(&'static str, &Server)> {
        match self {
            BusModel::Pcie(pcie) => pcie.servers(),
            BusModel::Pcix(pcix) => pcix.servers(),
        }
    }

    /// Returns the rate of one direction, headers included, or that of the socket interconnect
    /// before memory, if lower.
    pub fn rate(&self) -> Rate {
        match self {
            BusModel::Pcie(pcie) => Rate(pcie.slowest()),
            BusModel::Pcix(pcix) => pcix.rate(),
        }
    }

    /// Starts a read of the adapter from memory; the future completes when all requests have been
    /// issued. `window` limits the reads of one message, `total` those of the adapter.
    pub async fn issue(&self, load: Load, window: &Window, total: &Rc<Space>) -> Reading {
        match self {
            BusModel::Pcie(pcie) => pcie.issue(load, window, total).await,
            BusModel::Pcix(pcix) => pcix.fetch(load),
        }
    }

    /// Reads a small structure for the adapter; returns when it has arrived.
    pub async fn fetch(&self, bytes: u64, total: &Rc<Space>) {
        match self {
            BusModel::Pcie(pcie) => pcie.fetch(bytes, total).await,
            BusModel::Pcix(pcix) => {
                pcix.fetch(Load::single(bytes)).done().await;
            }
        }
    }
}

/// Result of a write to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bus and memory have taken the last byte: the adapter may free its buffer.
    pub gone: Time,
    /// Time at which a processor sees its packets.
    pub visible: Flow,
}

/// Limit of the reads that one message may have in flight.
pub struct Window {
    sim: Sim,
    reads: usize,
    permits: OnceCell<Semaphore>,
    stream: OnceCell<Rc<Server>>,
}

impl Window {
    /// Creates a window of `reads` reads.
    pub fn new(sim: &Sim, reads: usize) -> Window {
        Window {
            sim: sim.clone(),
            reads,
            permits: OnceCell::new(),
            stream: OnceCell::new(),
        }
    }

    pub(super) fn reads(&self) -> usize {
        self.reads
    }

    /// Returns the permits, for reads that are simulated one by one.
    pub(super) fn permits(&self) -> &Semaphore {
        let made = || Semaphore::new(&self.sim, self.reads);
        self.permits.get_or_init(made)
    }

    /// Returns the server that batches of packets share, one after another, instead of permits.
    pub(super) fn stream(&self) -> Rc<Server> {
        self.stream.get_or_init(Rc::default).clone()
    }
}

/// The issued reads of one load.
pub struct Reading {
    parts: Rc<Parts>,
    issued: Option<Mailbox<Time>>,
}

/// The requests of a load.
struct Parts {
    latch: Latch,
    flow: Cell<Flow>,
}

/// One request.
pub(super) struct Part(Rc<Parts>);

impl Part {
    /// Ends the request: its data have arrived.
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
    /// Creates a reading without requests.
    pub(super) fn new(sim: &Sim) -> Reading {
        Reading {
            parts: Rc::new(Parts {
                latch: Latch::new(sim),
                flow: Cell::new(Flow::at(Time::ZERO)),
            }),
            issued: None,
        }
    }

    /// Adds a mailbox that receives the time when the last request is in flight.
    pub(super) fn telling(self, issued: Mailbox<Time>) -> Reading {
        Reading {
            issued: Some(issued),
            ..self
        }
    }

    /// Adds a request in flight.
    pub(super) fn begin(&self) -> Part {
        self.parts.latch.begin();
        Part(self.parts.clone())
    }

    /// Takes the mailbox for the time when the last request is in flight, unless that has already
    /// happened.
    pub fn issued(&mut self) -> Option<Mailbox<Time>> {
        self.issued.take()
    }

    /// Waits until the head of the load has arrived.
    pub async fn done(self) -> Flow {
        self.parts.latch.wait().await;
        self.parts.flow.get()
    }
}

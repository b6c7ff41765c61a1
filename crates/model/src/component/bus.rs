//! The bus of a node, whichever it is.

use super::{Flow, Load, MemoryModel, PcieModel, PcixModel};
use crate::kernel::{JoinHandle, Mailbox, Semaphore, Server, Sim, Time};
use crate::profile::Bus;
use std::rc::Rc;

/// PCI Express or PCI-X.
pub enum BusModel {
    /// PCI Express.
    Pcie(Rc<PcieModel>),
    /// PCI-X.
    Pcix(Rc<PcixModel>),
}

impl BusModel {
    /// From its profile.
    pub fn new(sim: &Sim, profile: &Bus, memory: Rc<MemoryModel>) -> BusModel {
        match profile {
            Bus::Pcie(pcie) => BusModel::Pcie(Rc::new(PcieModel::new(sim, pcie, memory))),
            Bus::Pcix(pcix) => BusModel::Pcix(Rc::new(PcixModel::new(sim, pcix, memory))),
        }
    }

    /// A processor's write of `bytes` to the adapter, issued now; returns when it has arrived.
    pub fn programmed(&self, bytes: u64) -> Time {
        match self {
            BusModel::Pcie(pcie) => pcie.programmed(bytes),
            BusModel::Pcix(pcix) => pcix.programmed(bytes),
        }
    }

    /// The adapter writes to memory; returns when a processor sees it.
    pub fn write(&self, load: Load, flow: Flow) -> Flow {
        match self {
            BusModel::Pcie(pcie) => pcie.write(load, flow),
            BusModel::Pcix(pcix) => pcix.write(load, flow),
        }
    }

    /// The adapter begins to read from memory; the future completes when all requests have been issued. `window`
    /// limits the reads of one message, `total` those of the adapter.
    pub async fn issue(&self, load: Load, window: &Window, total: &Semaphore) -> Reading {
        match self {
            BusModel::Pcie(pcie) => {
                let (parts, issued) = pcie.issue(load, window, total).await;
                Reading { parts, issued }
            }
            BusModel::Pcix(pcix) => {
                let own = pcix.clone();
                Reading {
                    parts: vec![self.sim().spawn(async move { own.read(load).await })],
                    issued: None,
                }
            }
        }
    }

    /// The adapter reads a small structure; returns when it is there.
    pub async fn fetch(&self, bytes: u64, total: &Semaphore) {
        let window = Window::new(self.sim(), usize::MAX);
        self.issue(Load::single(bytes), &window, total)
            .await
            .done()
            .await;
    }

    fn sim(&self) -> &Sim {
        match self {
            BusModel::Pcie(pcie) => pcie.sim(),
            BusModel::Pcix(pcix) => pcix.sim(),
        }
    }
}

/// The reads that one message may have in flight.
pub struct Window {
    /// A permit for each, where reads are followed one by one.
    pub(super) permits: Semaphore,
    /// Trains of packets get their share of time one after the other instead.
    pub(super) stream: Rc<Server>,
}

impl Window {
    /// So many.
    pub fn new(sim: &Sim, reads: usize) -> Window {
        Window {
            permits: Semaphore::new(sim, reads),
            stream: Rc::default(),
        }
    }
}

/// Reads that have been issued.
pub struct Reading {
    parts: Vec<JoinHandle<Flow>>,
    issued: Option<Mailbox<Time>>,
}

impl Reading {
    /// Where it will be told when the last request is on its way, if that is not so already.
    pub fn issued(&mut self) -> Option<Mailbox<Time>> {
        self.issued.take()
    }

    /// Waits for the load's head.
    pub async fn done(self) -> Flow {
        let mut flow = Flow::at(Time::ZERO);
        for part in self.parts {
            let part = part.await;
            flow = Flow {
                head: flow.head.max(part.head),
                tail: flow.tail.max(part.tail),
            };
        }
        flow
    }
}

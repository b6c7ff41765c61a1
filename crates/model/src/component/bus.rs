//! The bus of a node, PCI Express or PCI-X.

use super::load::{Flow, Load};
use super::memory::MemoryModel;
use super::pcie::PcieModel;
use super::pcie_reads::ReadRecords;
use super::pcix::PcixModel;
use super::transfer::{Reading, Window, Written};
use crate::kernel::{Server, Sim, Space, Time};
use crate::profile::{Bus, Host, Rate};
use std::rc::Rc;

/// The bus between a host and its adapter.
pub enum BusModel {
    /// PCI Express.
    Pcie(Rc<PcieModel>),
    /// PCI-X.
    Pcix(Rc<PcixModel>),
}

impl BusModel {
    /// Creates the bus of the host's profile. Its reads are tasks without `records`.
    pub fn new(
        sim: &Sim,
        host: &Host,
        memory: Rc<MemoryModel>,
        records: Option<Rc<ReadRecords>>,
    ) -> BusModel {
        let numa = host.numa.as_ref();
        match &host.bus {
            Bus::Pcie(pcie) => {
                let pcie = PcieModel::new(sim, (pcie, numa), memory, records);
                BusModel::Pcie(Rc::new(pcie))
            }
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
            BusModel::Pcie(pcie) => match pcie.begin(load, window, total) {
                Some(reading) => reading,
                // Boxed: keeps the many messages small that fit in their windows.
                None => Box::pin(pcie.issue(load, window, total)).await,
            },
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

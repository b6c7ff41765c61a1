//! The parts between processor and wire, except the adapter: buses, memory, links, switches.
//!
//! All traffic is a [`Load`]: a number of bytes in a number of packets. At packet fidelity a load
//! is one packet; at message fidelity it is a whole message whose first packet runs ahead: a stage
//! begins when the first packet has arrived and ends no earlier than the last. The same code serves
//! both.

mod bus;
mod fabric;
mod interconnect;
mod load;
mod memory;
mod network;
mod pcie;
mod pcie_reads;
mod pcix;
mod port;
mod topology;
mod transfer;

pub use bus::BusModel;
pub use fabric::{check_joins, fabric};
pub use load::{Flow, Load};
pub use memory::MemoryModel;
pub use network::{Arrival, Network, PacketInFlight, Sent, Slot};
pub(crate) use network::{Passage, Returned};
pub use pcie::PcieModel;
pub use pcie_reads::ReadRecords;
pub use pcix::PcixModel;
pub use port::Port;
pub use transfer::{Reading, Window, Written};

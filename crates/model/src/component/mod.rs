//! The parts between a processor and the wire that are not the adapter: buses, memory, links, switches.
//!
//! Everything that moves is a [`Load`]: a number of bytes in a number of pieces. At packet fidelity a load is one
//! packet; at message fidelity it is a whole message, of which the first packet runs ahead: a stage begins when the
//! first packet has arrived and ends no earlier than the last has. One code serves both.

mod bus;
mod interconnect;
mod memory;
mod network;
mod pcie;
mod pcix;
mod topology;

pub use bus::{BusModel, Reading, Window, Written};
pub use memory::MemoryModel;
pub use network::{Arrival, Network, Passage, Sent, Slot};
pub use pcie::PcieModel;
pub use pcix::PcixModel;
pub use topology::Port;

use crate::kernel::Time;

/// Bytes on their way, in one packet or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Bytes in all.
    pub bytes: u64,
    /// Bytes of the first packet, and of all others but the last.
    pub first: u64,
    /// Packets.
    pub packets: u64,
}

impl Load {
    /// A single packet, or a piece of memory.
    pub fn single(bytes: u64) -> Load {
        Load {
            bytes,
            first: bytes,
            packets: 1,
        }
    }

    /// A whole message of packets of `mtu` bytes.
    pub fn message(bytes: u64, mtu: u64) -> Load {
        Load {
            bytes,
            first: bytes.min(mtu),
            packets: bytes.div_ceil(mtu).max(1),
        }
    }

    /// Bytes of the last packet.
    pub fn last(self) -> u64 {
        self.bytes - self.first * (self.packets - 1)
    }
}

/// When a load's first and last packets have passed a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The first packet is complete.
    pub head: Time,
    /// The last packet is complete.
    pub tail: Time,
}

impl Flow {
    /// Both at once.
    pub fn at(time: Time) -> Flow {
        Flow {
            head: time,
            tail: time,
        }
    }

    /// The same later.
    pub fn later(self, span: Time) -> Flow {
        Flow {
            head: self.head + span,
            tail: self.tail + span,
        }
    }
}

//! Bytes in transit, and the times at which they pass a stage.

use crate::kernel::Time;

/// Bytes in transit, in one packet or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Total bytes.
    pub bytes: u64,
    /// Bytes of each packet except the last.
    pub first: u64,
    /// Number of packets.
    pub packets: u64,
}

impl Load {
    /// Returns a load of a single packet, or of a block of memory.
    pub fn single(bytes: u64) -> Load {
        Load {
            bytes,
            first: bytes,
            packets: 1,
        }
    }

    /// Returns the load of a whole message in packets of `mtu` bytes.
    pub fn message(bytes: u64, mtu: u64) -> Load {
        Load {
            bytes,
            first: bytes.min(mtu),
            packets: bytes.div_ceil(mtu).max(1),
        }
    }

    /// Returns the bytes of the last packet.
    pub fn last(self) -> u64 {
        self.bytes - self.first * (self.packets - 1)
    }
}

/// Times at which a load's first and last packets have passed a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// The first packet is complete.
    pub head: Time,
    /// The last packet is complete.
    pub tail: Time,
}

impl Flow {
    /// Returns a flow whose first and last packets pass at `time`.
    pub fn at(time: Time) -> Flow {
        Flow {
            head: time,
            tail: time,
        }
    }

    /// Returns the flow delayed by `span`.
    pub fn later(self, span: Time) -> Flow {
        Flow {
            head: self.head + span,
            tail: self.tail + span,
        }
    }
}

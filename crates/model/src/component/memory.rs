//! Host memory: a bandwidth that processors and buses share. Latencies belong to who asks (chipset, core).

use crate::kernel::{Server, Time};
use crate::profile::{Memory, Rate};
use std::cell::Cell;

/// A host's memory.
pub struct MemoryModel {
    bandwidth: Rate,
    server: Server,
    carried: Cell<u64>,
}

impl MemoryModel {
    /// From its profile.
    pub fn new(profile: &Memory) -> MemoryModel {
        MemoryModel {
            bandwidth: profile.bandwidth,
            server: Server::new(),
            carried: Cell::default(),
        }
    }

    /// Moves `bytes` from or to memory from `now` on; returns when the memory is done with them.
    pub fn carry(&self, now: Time, bytes: u64) -> Time {
        self.carried.set(self.carried.get() + bytes);
        self.server.reserve(now, self.bandwidth.time(bytes)).end
    }

    /// Bytes that it has moved, or is about to.
    pub fn carried(&self) -> u64 {
        self.carried.get()
    }
}

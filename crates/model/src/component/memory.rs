//! Host memory: a bandwidth that processors and buses share. Latencies belong to the requesters
//! (chipset, core).

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
    /// Creates it from its profile.
    pub fn new(profile: &Memory) -> MemoryModel {
        MemoryModel {
            bandwidth: profile.bandwidth,
            server: Server::new(),
            carried: Cell::default(),
        }
    }

    /// Transfers `bytes` from or to memory from `now` on; returns the time when memory has
    /// finished.
    pub fn carry(&self, now: Time, bytes: u64) -> Time {
        self.carried.set(self.carried.get() + bytes);
        self.server.reserve(now, self.bandwidth.time(bytes)).end
    }

    /// Returns the server of its bandwidth, for audits.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Returns the bytes transferred or reserved so far.
    pub fn carried(&self) -> u64 {
        self.carried.get()
    }
}

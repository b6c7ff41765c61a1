//! Host memory: a bandwidth that processors and buses share. Latencies belong to who asks (chipset, core).

use crate::kernel::{Server, Time};
use crate::profile::{Memory, Rate};

/// A host's memory.
pub struct MemoryModel {
    bandwidth: Rate,
    server: Server,
}

impl MemoryModel {
    /// From its profile.
    pub fn new(profile: &Memory) -> MemoryModel {
        MemoryModel {
            bandwidth: profile.bandwidth,
            server: Server::new(),
        }
    }

    /// Moves `bytes` from or to memory from `now` on; returns when the memory is done with them.
    pub fn carry(&self, now: Time, bytes: u64) -> Time {
        self.server.reserve(now, self.bandwidth.time(bytes)).end
    }
}

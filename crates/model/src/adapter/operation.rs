//! Operations of work requests, and the memory that they name.

/// Transport service of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Acknowledged.
    Reliable,
    /// Connected, not acknowledged.
    Unreliable,
    /// Unconnected, one packet per message.
    Datagram,
}

/// Operation of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// RDMA write.
    Write,
    /// RDMA write that takes a receive request.
    WriteNotify,
    /// Send.
    Send,
    /// RDMA read.
    Read,
    /// Eight-byte atomic.
    Atomic,
}

impl Kind {
    /// Returns whether it takes a receive request at the peer.
    pub fn is_received(self) -> bool {
        matches!(self, Kind::Send | Kind::WriteNotify)
    }

    /// Returns whether it has a response with data.
    pub fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Atomic)
    }
}

/// Location of the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// Memory, read by DMA.
    Reference,
    /// Inside the work request.
    Inline,
}

/// Kind of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryHome {
    /// Host memory.
    #[default]
    Host,
    /// Adapter memory.
    Adapter,
}

/// A location in registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryLocation {
    /// Region number, the key of its translations.
    pub region: u64,
    /// Address in the region.
    pub address: u64,
    /// Kind of memory.
    pub home: MemoryHome,
}

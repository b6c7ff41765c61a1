//! Work requests of the model: sizes, memory locations and callbacks.

use super::Pair;
use std::rc::Rc;

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

/// A callback.
pub type Action = Box<dyn FnOnce()>;

/// A work request.
pub struct Request {
    /// Operation.
    pub kind: Kind,
    /// Bytes moved.
    pub bytes: u64,
    /// Location of the payload.
    pub placement: Placement,
    /// Local memory.
    pub local: MemoryLocation,
    /// Remote memory; for a send the receive buffer.
    pub remote: MemoryLocation,
    /// Receiver of a datagram.
    pub to: Option<Rc<Pair>>,
    /// Called when the last byte is visible at the target, including the receive completion if
    /// there is one.
    pub placed: Option<Action>,
    /// Called when the requester's completion is visible.
    pub completed: Option<Action>,
}

impl Request {
    /// Creates a request without callbacks.
    pub fn new(kind: Kind, bytes: u64, placement: Placement) -> Request {
        Request {
            kind,
            bytes,
            placement,
            local: MemoryLocation::default(),
            remote: MemoryLocation::default(),
            to: None,
            placed: None,
            completed: None,
        }
    }

    /// Returns the bytes of the work queue entry: control or next segment 16, address 16 or 48,
    /// data segment 16 or an inline header and the data.
    pub fn entry_bytes(&self, transport: Transport) -> u64 {
        let address = match (self.kind, transport) {
            (_, Transport::Datagram) => 48,
            (Kind::Send, _) => 0,
            (Kind::Atomic, _) => 32,
            _ => 16,
        };
        let data = match self.placement {
            Placement::Reference => 16,
            Placement::Inline => (4 + self.bytes).next_multiple_of(16),
        };
        16 + address + data
    }
}

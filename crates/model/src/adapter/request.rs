//! Work requests as the model sees them: sizes, places and what to do when something has happened.

use super::Pair;
use std::rc::Rc;

/// Service of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Acknowledged.
    Reliable,
    /// Connected, not acknowledged.
    Unreliable,
    /// Not connected, one packet a message.
    Datagram,
}

/// What a request does.
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
    /// Whether it takes a receive request at the other side.
    pub fn is_received(self) -> bool {
        matches!(self, Kind::Send | Kind::WriteNotify)
    }

    /// Whether data come back.
    pub fn is_answered(self) -> bool {
        matches!(self, Kind::Read | Kind::Atomic)
    }
}

/// How the adapter gets the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// By DMA.
    Reference,
    /// Inside the work request.
    Inline,
}

/// Which memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MemoryHome {
    /// The host's.
    #[default]
    Host,
    /// The adapter's.
    Adapter,
}

/// A place in registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place {
    /// Which region: what its translations are kept under.
    pub region: u64,
    /// Address in it.
    pub address: u64,
    /// Which memory.
    pub home: MemoryHome,
}

/// What to do when something has happened.
pub type Action = Box<dyn FnOnce()>;

/// A work request.
pub struct Request {
    /// What it does.
    pub kind: Kind,
    /// Bytes moved.
    pub bytes: u64,
    /// Inline or by reference.
    pub placement: Placement,
    /// Local memory.
    pub local: Place,
    /// Remote memory (of a send: the receive buffer's).
    pub remote: Place,
    /// Receiver of a datagram.
    pub to: Option<Rc<Pair>>,
    /// When the last byte is visible at the target, with the receive completion if there is one.
    pub placed: Option<Action>,
    /// When the requester's completion is visible.
    pub completed: Option<Action>,
}

impl Request {
    /// A request without actions.
    pub fn new(kind: Kind, bytes: u64, placement: Placement) -> Request {
        Request {
            kind,
            bytes,
            placement,
            local: Place::default(),
            remote: Place::default(),
            to: None,
            placed: None,
            completed: None,
        }
    }

    /// Bytes of the work queue entry: control or next segment 16, address 16 or 48, data segment 16 or an inline header
    /// and the data.
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

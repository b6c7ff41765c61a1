//! Work requests of a send queue.

use verbena_wire::feth::Feth;
use verbena_wire::immediate::Immediate;
use verbena_wire::{QKey, Qpn, RKey, SrqNumber};

use crate::access::AtomicOperation;

/// The maximum message length (specification 9.3.3): 2^31 bytes.
pub const MOST_LENGTH: u32 = 1 << 31;

/// The adapter's id of a work request, returned in its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// A remote address and its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    /// The address of the first byte.
    pub address: u64,
    /// The remote key.
    pub key: RKey,
}

/// Data that accompanies the bytes of a SEND.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendTail {
    /// None.
    Nothing,
    /// Immediate data.
    Immediate(Immediate),
    /// A key of the responder to invalidate.
    Invalidate(RKey),
}

/// The operation of a send request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // The names are the specification's.
pub enum Operation {
    Send(SendTail),
    Write {
        remote: Remote,
        immediate: Option<Immediate>,
    },
    Read {
        remote: Remote,
    },
    Atomic {
        remote: Remote,
        operation: AtomicOperation,
    },
    /// Writes eight bytes, gathered like a payload.
    AtomicWrite {
        remote: Remote,
    },
    Flush {
        remote: Remote,
        feth: Feth,
    },
}

/// How the responder answers an operation. An operation answered by data is done only when its
/// response has arrived (specification 9.4, "read and atomic"). FLUSH and ATOMIC WRITE are among
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Any later acknowledgement completes it.
    Acknowledgement,
    /// Only its own response completes it.
    Response,
}

impl Operation {
    /// Returns how the responder answers the operation.
    pub const fn answer(&self) -> Answer {
        match self {
            Self::Send(_) | Self::Write { .. } => Answer::Acknowledgement,
            Self::Read { .. }
            | Self::Atomic { .. }
            | Self::AtomicWrite { .. }
            | Self::Flush { .. } => Answer::Response,
        }
    }
}

/// Whether a request waits for earlier reads and atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fence {
    /// It does not.
    Off,
    /// It does (IBV_SEND_FENCE).
    On,
}

/// The destination of a request, as far as the queue pair does not determine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addressee {
    /// The connected queue pair.
    Connected,
    /// A shared receive queue behind the connected queue pair (XRC).
    SharedReceiveQueue(SrqNumber),
    /// Any datagram queue pair. The adapter knows the route.
    Datagram {
        /// The destination queue pair.
        queue_pair: Qpn,
        /// Its Q_Key.
        queue_key: QKey,
    },
}

/// A work request of a send queue. The adapter finds the request's memory by the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// The adapter's id.
    pub id: WorkId,
    /// The operation.
    pub operation: Operation,
    /// Bytes to send or to read: 8 for atomics and ATOMIC WRITE; for a FLUSH the length of the
    /// responder's memory.
    pub length: u32,
    /// The destination.
    pub addressee: Addressee,
    /// Whether it waits for earlier reads and atomics.
    pub fence: Fence,
    /// Whether the receiver's completion raises a solicited event.
    pub solicited: bool,
}

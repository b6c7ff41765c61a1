//! What a consumer asks a requester to do.

use verbena_wire::feth::Feth;
use verbena_wire::immediate::Immediate;
use verbena_wire::{QKey, Qpn, RKey, SrqNumber};

use crate::access::AtomicOperation;

/// The longest message (specification 9.3.3): 2^31 bytes.
pub const MOST_LENGTH: u32 = 1 << 31;

/// A work request's name: the adapter's own number, given back in its completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkId(pub u64);

/// A place in the responder's memory, and the right to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Remote {
    /// The first byte.
    pub address: u64,
    /// The right.
    pub key: RKey,
}

/// What comes with a SEND beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SendTail {
    /// Nothing.
    Nothing,
    /// Immediate data.
    Immediate(Immediate),
    /// A key of the responder to invalidate.
    Invalidate(RKey),
}

/// What to do.
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
    /// Of eight bytes, gathered like a payload.
    AtomicWrite {
        remote: Remote,
    },
    Flush {
        remote: Remote,
        feth: Feth,
    },
}

/// Whether an operation is answered by data, and so is done only when its response is here (specification 9.4, "read
/// and atomic"). FLUSH and ATOMIC WRITE count among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Any later acknowledgement will do.
    Acknowledgement,
    /// The responder's own response to it.
    Response,
}

impl Operation {
    /// By what it is answered.
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

/// Whether a request waits for the reads and atomics before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fence {
    /// It does not.
    Off,
    /// It does (IBV_SEND_FENCE).
    On,
}

/// To whom a request goes, as far as the queue pair does not say it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Addressee {
    /// The connected queue pair.
    Connected,
    /// A shared receive queue behind the connected queue pair: XRC.
    SharedReceiveQueue(SrqNumber),
    /// Any datagram queue pair. The route to it is the adapter's.
    Datagram {
        /// Which.
        queue_pair: Qpn,
        /// Its key.
        queue_key: QKey,
    },
}

/// A work request of a send queue. Where its bytes are is the adapter's to know, by the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// Its name.
    pub id: WorkId,
    /// What to do.
    pub operation: Operation,
    /// Bytes to send or to read: 8 for atomics and ATOMIC WRITE; of a FLUSH the bytes of the responder's memory.
    pub length: u32,
    /// To whom.
    pub addressee: Addressee,
    /// Whether it waits for reads and atomics.
    pub fence: Fence,
    /// Whether the receiver's completion shall raise a solicited event.
    pub solicited: bool,
}

//! Work requests of a send queue.

use verbena_wire::feth::Feth;
use verbena_wire::immediate::Immediate;
use verbena_wire::opcode::Kind;
use verbena_wire::{Psn, QKey, Qpn, RKey, SrqNumber};

use crate::access::AtomicOperation;
use crate::completion::Status;
use crate::state;

/// The maximum message length (specification 9.3.3): 2^31 bytes.
pub const MOST_LENGTH: u32 = 1 << 31;

/// The adapter's id of a receive work request, returned in its completion.
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

impl Answer {
    /// Returns how the responder answers requests of this kind.
    #[inline]
    pub const fn to(kind: Kind) -> Self {
        match kind {
            Kind::Read | Kind::Atomic | Kind::AtomicWrite | Kind::Flush => Self::Response,
            _ => Self::Acknowledgement,
        }
    }
}

impl Operation {
    /// Returns the kind of the operation's request packets.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Send(_) => Kind::Send,
            Self::Write { .. } => Kind::Write,
            Self::Read { .. } => Kind::Read,
            Self::Atomic { .. } => Kind::Atomic,
            Self::AtomicWrite { .. } => Kind::AtomicWrite,
            Self::Flush { .. } => Kind::Flush,
        }
    }

    /// Returns how the responder answers the operation.
    pub const fn answer(&self) -> Answer {
        Answer::to(self.kind())
    }

    /// Returns whether a queue pair of this type has the operation. Only reliable services have
    /// SEND with invalidate.
    pub const fn is_of(&self, queue_pair: state::Kind) -> bool {
        let invalidates = matches!(self, Self::Send(SendTail::Invalidate(_)));
        offers(queue_pair, self.kind()) && (queue_pair.is_reliable() || !invalidates)
    }
}

/// Returns whether a queue pair of this type sends requests of this kind (specification 9.2.1,
/// table of opcodes).
#[inline]
pub const fn offers(queue_pair: state::Kind, kind: Kind) -> bool {
    use state::Kind::{Rc, Uc, Ud, XrcInitiator, XrcTarget};
    match (kind, queue_pair) {
        (_, XrcTarget) => false,
        (Kind::Send, Rc | Uc | Ud | XrcInitiator) => true,
        (Kind::Write, Rc | Uc | XrcInitiator) => true,
        (Kind::Read | Kind::Atomic | Kind::AtomicWrite | Kind::Flush, Rc | XrcInitiator) => true,
        _ => false,
    }
}

/// Returns the number of PSNs that a request uses: that of its packets, or of the packets of its
/// response. `length` is the message's, `mtu` the path's, both in bytes.
#[inline]
pub const fn packets(kind: Kind, length: u64, mtu: u32) -> u32 {
    match kind {
        Kind::Send | Kind::Write | Kind::Read if length > mtu as u64 => {
            length.div_ceil(mtu as u64) as u32
        }
        _ => 1,
    }
}

/// Checks the length of a message, of at most `most` bytes.
///
/// # Errors
///
/// [`Status::LocalLength`]: the request is not sent.
#[inline]
pub const fn check_message(length: u64, most: u32) -> Result<(), Status> {
    match length <= most as u64 {
        true => Ok(()),
        false => Err(Status::LocalLength),
    }
}

/// Checks the length of the buffers of an atomic or an ATOMIC WRITE.
///
/// # Errors
///
/// [`Status::LocalLength`]: the request is not sent.
#[inline]
pub const fn check_word(length: u64) -> Result<(), Status> {
    match length >= 8 {
        true => Ok(()),
        false => Err(Status::LocalLength),
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

/// A work request of a send queue, as its requester executes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SendRequest {
    /// The operation.
    pub operation: Operation,
    /// Bytes to send or to read: 8 for atomics and ATOMIC WRITE; for a FLUSH the length of the
    /// responder's memory.
    pub length: u32,
    /// The destination.
    pub addressee: Addressee,
    /// Whether the receiver's completion raises a solicited event.
    pub solicited: bool,
}

/// The packets of a request on a reliable queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sequence {
    /// PSN of the first packet.
    pub first: Psn,
    /// Number of PSNs ([`packets`]).
    pub packets: u32,
    /// How the responder answers.
    pub answer: Answer,
}

impl Sequence {
    /// Returns the PSN after the last packet.
    #[inline]
    pub const fn end(self) -> Psn {
        self.first.plus(self.packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_of_a_request_follow_its_packets() {
        let table = [
            (Kind::Send, 0, 1),
            (Kind::Send, 1024, 1),
            (Kind::Write, 1025, 2),
            (Kind::Read, 1 << 31, 1 << 21),
            (Kind::Atomic, 5000, 1),
            (Kind::Flush, 1 << 20, 1),
        ];
        for (kind, length, count) in table {
            assert_eq!(packets(kind, length, 1024), count, "{kind:?} {length}");
        }
    }

    /// A queue pair sends the requests for which its service has opcodes.
    #[test]
    fn queue_pairs_offer_the_operations_of_their_service() {
        use verbena_wire::opcode::{Opcode, Operation, Service};
        let services = [
            (state::Kind::Rc, Service::Rc),
            (state::Kind::Uc, Service::Uc),
            (state::Kind::Ud, Service::Ud),
            (state::Kind::XrcInitiator, Service::Xrc),
        ];
        for (queue_pair, service) in services {
            for operation in Operation::all().filter(|operation| operation.is_request()) {
                let kind = operation.kind();
                let exists = Operation::all()
                    .filter(|one| one.kind() == kind)
                    .any(|one| Opcode::new(service, one).is_some());
                assert_eq!(offers(queue_pair, kind), exists, "{queue_pair:?} {kind:?}");
                assert!(!offers(state::Kind::XrcTarget, kind));
            }
        }
    }
}

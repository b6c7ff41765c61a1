//! Loads in flight, and the buffer space that they hold.

use crate::component::{Flow, Load, PacketInFlight, Port, Slot};
use crate::kernel::Time;

/// Bytes of a completion queue entry.
pub(super) const COMPLETION: u64 = 32;

/// Bytes of a send queue entry that identify the request and the location of the next.
pub(super) const FIRST_OF_ENTRY: u64 = 64;

/// Reason for requesting the sending side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// A work request waits in its queue.
    Queued,
    /// An event that cannot wait: an acknowledgement, whose link buffer is needed, or a doorbell.
    Arrived,
}

/// A packet in flight, or at message fidelity a batch of packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunk {
    pub load: Load,
    /// Offset in the message.
    pub offset: u64,
    pub first: bool,
    pub last: bool,
}

/// Buffer space of payload between memory and port.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outgoing {
    pub port: Port,
    pub lane: u64,
    pub bytes: u64,
}

/// A load in flight to another adapter or within one.
pub(super) enum Left {
    /// Within one adapter: it stays in the sending buffer until it is placed.
    Within(Flow, Outgoing),
    /// On a link.
    Over(PacketInFlight),
}

impl Left {
    /// Returns when its last byte has left.
    pub(super) fn end(&self) -> Time {
        match self {
            Left::Within(flow, _) => flow.tail,
            Left::Over(in_flight) => in_flight.left(),
        }
    }

    /// Returns the buffer space that it holds once it has arrived.
    pub(super) fn held(&self) -> Held {
        match self {
            Left::Within(_, outgoing) => Held::Sending(*outgoing),
            Left::Over(in_flight) => Held::Slot(in_flight.slot()),
        }
    }
}

/// Buffer space of an arrived load until it has been processed.
#[must_use = "a guard that is not released is lost"]
#[derive(Debug, Clone, Copy)]
pub(super) enum Held {
    /// In the port's receive buffer.
    Slot(Slot),
    /// In a port's sending buffer, for a load within one adapter.
    Sending(Outgoing),
}

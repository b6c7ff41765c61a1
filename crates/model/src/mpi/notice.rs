//! Notices of arrived messages to the ranks that they arrive at, as plain data: a message may come
//! from another thread of the simulation.

use crate::kernel::Time;

/// A notice, due when a message's last byte is visible at its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The sending rank.
    pub(super) from: u32,
    /// The rank that it arrives at.
    pub(super) to: u32,
    /// When the message was posted.
    pub(super) sent: Time,
    /// Buffers that the sender has emptied: credits of the receiver.
    pub(super) emptied: u32,
    pub(super) content: Content,
}

/// Content of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Nothing but emptied buffers.
    Nothing,
    /// An eager message; further pieces are events of `rest`.
    Eager {
        bytes: u64,
        tag: u32,
        rest: Option<Exchange>,
    },
    /// The request of a rendezvous.
    Rendezvous {
        bytes: u64,
        tag: u32,
        exchange: Exchange,
    },
    /// An event of an exchange.
    Event(Event),
    /// The first piece of a one-sided access over sockets: `out` bytes come, and `back` bytes are
    /// to be sent back.
    Access {
        exchange: Exchange,
        out: u64,
        back: u64,
    },
}

/// A conversation of two ranks in several messages, named by the rank that opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Exchange {
    pub(super) opener: u32,
    pub(super) number: u32,
}

/// An event of an exchange, which one of its two ranks waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) exchange: Exchange,
    pub(super) kind: EventKind,
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum EventKind {
    /// To the opener: the other rank is ready, a buffer is, its answer has come, or it has read the
    /// data.
    Answer,
    /// To the other rank: data that the opener wrote have arrived.
    Done,
    /// To the other rank: a piece to be copied has arrived.
    Piece,
}

impl Exchange {
    /// Returns an event of this exchange.
    pub(super) fn event(self, kind: EventKind) -> Event {
        Event {
            exchange: self,
            kind,
        }
    }
}

//! Message-passing libraries.

use super::collectives::Collectives;
use crate::kernel::Time;
use crate::profile::error::Error;
use crate::profile::quantity::{Bytes, Count};
use crate::profile::reader::{Field, Section};
use std::sync::Arc;

/// How a library delivers eager messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// RDMA write into the peer's buffers, detected by polling memory.
    Write,
    /// Send to a (shared) receive queue, detected in the completion queue.
    Send,
    /// Write to a TCP socket of the kernel; the adapter has no other use.
    Socket,
}

impl Field for Channel {
    fn take(section: &Section<'_>, key: &str) -> Result<Channel, Error> {
        section.choice(
            key,
            &[
                ("write", Channel::Write),
                ("send", Channel::Send),
                ("socket", Channel::Socket),
            ],
        )
    }
}

/// Transfer of a zero-copy message once both sides have agreed on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendezvous {
    /// The sender writes after the receiver has announced its buffer.
    #[default]
    Write,
    /// The receiver reads from the buffer that the sender has announced, and notifies the sender at
    /// the end.
    Read,
    /// The sender writes fragment by fragment and registers each while earlier ones are in flight
    /// ([`Pipeline`]).
    Pipeline,
}

impl Field for Option<Rendezvous> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Rendezvous>, Error> {
        section.choice_if_there(
            key,
            &[
                ("write", Rendezvous::Write),
                ("read", Rendezvous::Read),
                ("pipeline", Rendezvous::Pipeline),
            ],
        )
    }
}

section! {
    /// A rendezvous in fragments.
    Pipeline {
        /// Size of a zero-copy fragment; each is registered separately on both sides.
        fragment: Bytes,
        /// Number of fragments in flight.
        depth: Count,
        /// Bytes at the start of a message that are copied through preregistered buffers while the
        /// rest is being registered; a message that is no longer is copied whole. If absent,
        /// nothing is copied.
        copied: Option<Bytes>,
        /// Size of such a buffer; if absent, that of the longest eager message.
        buffer: Option<Bytes>,
    }
}

impl Field for Option<Pipeline> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Pipeline>, Error> {
        match section.section(key)? {
            Some(section) => Pipeline::read(&section).map(Some),
            None => Ok(None),
        }
    }
}

/// Handling of a message that arrives before its receive is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unexpected {
    /// It stays in the buffer that it arrived in.
    #[default]
    Kept,
    /// It is copied to a temporary buffer when the receiver next enters the library, and copied
    /// again when its receive is posted.
    Copied,
}

impl Field for Option<Unexpected> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Unexpected>, Error> {
        section.choice_if_there(
            key,
            &[("kept", Unexpected::Kept), ("copied", Unexpected::Copied)],
        )
    }
}

/// Shortest piece that a profile may demand: a message has a bounded number of pieces.
const LEAST_PIECE: Bytes = Bytes(256);

section! {
    /// A message-passing library.
    Mpi {
        /// Description.
        about: String,
        /// Delivery of eager messages.
        channel: Channel,
        /// Largest message posted inline; if absent, none is.
        inline: Option<Bytes>,
        /// Processor time per message on each side in addition to posting and noticing: matching,
        /// bookkeeping. A stream of messages is no faster.
        overhead: Time,
        /// Additional time of a message that a rank waits for, until the rank processes it. A
        /// stream does not show it: the next message is there when the rank has processed one. If
        /// absent, none.
        wakeup: Option<Time>,
        /// Largest message that is sent without a rendezvous.
        eager: Bytes,
        /// Smallest eager message that the adapter reads from the sender's buffer, which remains
        /// in use until the completion; smaller ones are copied. If absent, all are.
        zero_copy: Option<Bytes>,
        /// `eager` of blocking sends, if it differs.
        blocking_eager: Option<Bytes>,
        /// `zero_copy` of blocking sends, if it differs.
        blocking_zero_copy: Option<Bytes>,
        /// Largest piece of an eager message; a longer message is sent in several. If absent, each
        /// is sent whole.
        piece: Option<Bytes>,
        /// Processor time on each side for a piece that is copied, beyond the first of an eager
        /// message; if absent, none.
        piece_overhead: Option<Time>,
        /// Transfer of larger messages; if absent, the sender writes.
        rendezvous: Option<Rendezvous>,
        /// Parameters of a transfer in fragments.
        pipeline: Option<Pipeline>,
        /// Time to register and deregister a buffer for such a transfer, independent of its size;
        /// zero if absent.
        registration: Option<Time>,
        /// The same, per page.
        registration_page: Option<Time>,
        /// Buffers of a process that stay registered (registration cache); if absent, every
        /// transfer registers anew.
        registration_cache: Option<Count>,
        /// Buffers of each receiver that a sender may fill before the receiver has emptied them;
        /// unlimited if absent.
        credits: Option<Count>,
        /// Number of emptied buffers that a receiver reports in a dedicated message; fewer are
        /// reported with its next message to the sender. If absent, half of the credits.
        credits_returned: Option<Count>,
        /// Handling of messages that arrive before their receive; if absent, they stay in their
        /// buffers.
        unexpected: Option<Unexpected>,
        /// Time per message passed while searching for the one that matches a receive; if absent,
        /// the search is part of the overhead.
        unexpected_search: Option<Time>,
        /// Header before an eager message.
        header: Bytes,
        /// Size from which a message is striped across several ports.
        stripe: Bytes,
        /// Largest message reduced to all by recursive doubling, which sends the whole message in
        /// each step; larger ones are reduced in parts, which are then gathered. If absent, all use
        /// doubling.
        all_reduce_doubling: Option<Bytes>,
        /// Largest result gathered in parts of doubling length; larger ones pass around a ring in
        /// parts of constant length. If absent, none uses the ring.
        all_gather_doubling: Option<Bytes>,
        /// Largest all-to-all message that is forwarded through other ranks (Bruck), in fewer and
        /// longer messages; larger ones go directly to their receivers, pair by pair. If absent,
        /// all go directly.
        all_to_all_forwarding: Option<Bytes>,
        /// Largest message broadcast whole down a tree; larger ones are scattered and then gathered
        /// by all. If absent, all are sent whole.
        broadcast_whole: Option<Bytes>,
        /// Cost of an intra-node message on each side, copies excluded.
        intranode: Time,
        /// Largest intra-node message that passes through a buffer in the cache.
        intranode_buffer: Bytes,
        /// Pieces in which such a message is copied: the receiver copies one while the sender
        /// copies the next. Whole if absent.
        intranode_piece: Option<Bytes>,
        /// Algorithms of the collective operations.
        collectives: Arc<Collectives>,
    }
}

impl Mpi {
    /// Checks values that depend on one another.
    pub(crate) fn check(&self, root: &Section<'_>) -> Result<(), Error> {
        let wrong = |key: &str, reason: &str| Err(root.about(key, reason.to_owned()));
        if self.rendezvous == Some(Rendezvous::Pipeline) && self.pipeline.is_none() {
            return wrong("rendezvous", "\"pipeline\" needs a section pipeline");
        }
        if self.piece.is_some_and(|piece| piece < LEAST_PIECE) {
            return wrong("piece", "must be at least 256 B");
        }
        if self.piece.is_some() && self.unexpected == Some(Unexpected::Copied) {
            return wrong("piece", "needs unexpected = \"kept\"");
        }
        let Some(credits) = self.credits else {
            return match self.credits_returned {
                Some(_) => wrong("credits_returned", "needs credits"),
                None => Ok(()),
            };
        };
        if self.unexpected != Some(Unexpected::Copied) {
            let reason = "need unexpected = \"copied\": otherwise kept messages would use up the \
                          buffers";
            return wrong("credits", reason);
        }
        match self.credits_returned {
            Some(returned) if returned > credits => {
                wrong("credits_returned", "must be no more than credits")
            }
            _ => Ok(()),
        }
    }
}

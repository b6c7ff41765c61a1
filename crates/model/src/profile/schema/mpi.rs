//! Message-passing libraries.

use super::{Bytes, Collectives, Count, Error, Field, Section, Time};
use std::sync::Arc;

/// How a library delivers eager messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// RDMA write into the peer's buffers, found by polling memory.
    Write,
    /// Send to a (shared) receive queue, found in the completion queue.
    Send,
}

impl Field for Channel {
    fn take(section: &Section<'_>, key: &str) -> Result<Channel, Error> {
        section.choice(key, &[("write", Channel::Write), ("send", Channel::Send)])
    }
}

/// Who moves the data of a message that goes without copies, once both sides have agreed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rendezvous {
    /// The sender writes, when the receiver has told where.
    #[default]
    Write,
    /// The receiver reads, from where the sender has told, and tells the sender in the end.
    Read,
    /// The sender writes fragment by fragment, each registered while the ones before it are under way ([`Pipeline`]).
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
        /// What goes at a time without copies, registered at both ends for itself.
        fragment: Bytes,
        /// Fragments under way at the same time.
        depth: Count,
        /// How much of a message's beginning is copied through preregistered buffers, while the rest is being registered; all of it, if
        /// the message is no longer. Without it nothing is.
        copied: Option<Bytes>,
        /// Such a buffer; without it as long as the longest eager message.
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

/// What becomes of a message that comes before its receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unexpected {
    /// It stays in the buffer that it came in.
    #[default]
    Kept,
    /// It is copied aside when the receiver next is in the library, and from there once more when it is asked for.
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

section! {
    /// A message-passing library.
    Mpi {
        /// In words.
        about: String,
        /// How eager messages are delivered.
        channel: Channel,
        /// Largest message posted inline; without it none is.
        inline: Option<Bytes>,
        /// What a message costs the processor at each side beyond posting and noticing: matching, bookkeeping.
        overhead: Time,
        /// Largest message that is copied through preregistered buffers.
        eager: Bytes,
        /// Who moves the data of larger ones; without it the sender.
        rendezvous: Option<Rendezvous>,
        /// How, if it goes in fragments.
        pipeline: Option<Pipeline>,
        /// Registering a buffer for such a transfer, and undoing it, whatever its size; without it that takes no time.
        registration: Option<Time>,
        /// The same for each page.
        registration_page: Option<Time>,
        /// Buffers of a process that stay registered: a registration cache; without it every transfer registers anew.
        registration_cache: Option<Count>,
        /// Buffers of each receiver that a sender may fill before the receiver has emptied them; without it there is no end of them.
        credits: Option<Count>,
        /// Emptied buffers that a receiver tells of by a message of its own; fewer go with the next message that it has for the sender
        /// anyway. Without it half of the credits.
        credits_returned: Option<Count>,
        /// What becomes of messages that come before their receive; without it they are kept.
        unexpected: Option<Unexpected>,
        /// Passing one message in the search for the one that a receive takes; without it searching is part of the overhead.
        unexpected_search: Option<Time>,
        /// Header before an eager message.
        header: Bytes,
        /// Messages from which on several ports share the work.
        stripe: Bytes,
        /// Largest message that is combined by recursive doubling, which sends all of it each time; larger ones are combined in
        /// parts that are then gathered. Without it all are by doubling.
        all_reduce_doubling: Option<Bytes>,
        /// Largest result that is gathered in ever longer parts; larger ones go round a ring, in parts as they are. Without it none
        /// does.
        all_gather_doubling: Option<Bytes>,
        /// Largest message of each to each that goes by way of others (Bruck), in few and longer messages; without it all go to their
        /// receivers, pair by pair.
        all_to_all_forwarding: Option<Bytes>,
        /// Largest message that is broadcast whole, down a tree; larger ones are scattered and then gathered by all. Without it all
        /// are whole.
        broadcast_whole: Option<Bytes>,
        /// What a message inside a node costs each side, beside the copies.
        intranode: Time,
        /// Largest message inside a node that passes through a buffer in the cache.
        intranode_buffer: Bytes,
        /// Which algorithm it takes for what is collective.
        collectives: Arc<Collectives>,
    }
}

impl Mpi {
    /// What one value says must go with the others.
    pub(in crate::profile) fn check(&self, root: &Section<'_>) -> Result<(), Error> {
        let wrong = |key: &str, reason: &str| Err(root.about(key, reason.to_owned()));
        if self.rendezvous == Some(Rendezvous::Pipeline) && self.pipeline.is_none() {
            return wrong("rendezvous", "\"pipeline\" needs a section pipeline");
        }
        let Some(credits) = self.credits else {
            return match self.credits_returned {
                Some(_) => wrong("credits_returned", "needs credits"),
                None => Ok(()),
            };
        };
        if self.unexpected != Some(Unexpected::Copied) {
            let reason = "need unexpected = \"copied\": messages that are kept in their buffers would leave none";
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

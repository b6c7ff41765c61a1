//! Message-passing libraries.

use super::{Bytes, Count, Error, Field, Section, Time};

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
}

impl Field for Option<Rendezvous> {
    fn take(section: &Section<'_>, key: &str) -> Result<Option<Rendezvous>, Error> {
        section.choice_if_there(
            key,
            &[("write", Rendezvous::Write), ("read", Rendezvous::Read)],
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
        /// Registering a buffer for such a transfer, and undoing it, whatever its size; without it that takes no time.
        registration: Option<Time>,
        /// The same for each page.
        registration_page: Option<Time>,
        /// Buffers of a process that stay registered: a registration cache; without it every transfer registers anew.
        registration_cache: Option<Count>,
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
    }
}

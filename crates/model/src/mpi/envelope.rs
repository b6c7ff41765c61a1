//! Messages on their way from rank to rank, and the state that both sides share.

use super::cause::Cause;
use super::notice::Exchange;
use crate::kernel::{Mailbox, Sim};
use std::cell::Cell;
use std::rc::Rc;

/// A message in a rank's inbox.
pub(super) enum Envelope {
    /// An eager message.
    Eager {
        bytes: u64,
        sent: Cause,
        early: Option<Early>,
        /// Reports the pieces after the first, if there are any.
        rest: Option<Exchange>,
    },
    /// Start of a rendezvous; the rest of the protocol are events of an exchange.
    Rendezvous {
        bytes: u64,
        sent: Cause,
        early: Option<Early>,
        exchange: Exchange,
    },
    /// An intra-node message.
    Local(Local),
}

impl Envelope {
    /// Returns its sender and the time of sending.
    pub(super) fn sent(&self) -> Cause {
        match self {
            Envelope::Eager { sent, .. } | Envelope::Rendezvous { sent, .. } => *sent,
            Envelope::Local(local) => local.sent,
        }
    }

    /// Returns the bytes to copy of a message that is still in its buffer, for a library that
    /// copies such messages to a temporary buffer.
    pub(super) fn in_its_buffer(&self) -> Option<(u64, Early)> {
        let (bytes, early) = match self {
            Envelope::Eager { bytes, early, .. } => (*bytes, early),
            Envelope::Rendezvous { early, .. } => (0, early),
            Envelope::Local(_) => return None,
        };
        let early = early.as_ref().filter(|early| early.is_in_its_buffer())?;
        Some((bytes, early.clone()))
    }
}

/// An intra-node message: its size, and the mailboxes for its pieces after the first and for its
/// receipt.
pub(super) struct Local {
    pub(super) bytes: u64,
    pub(super) sent: Cause,
    pub(super) rest: Mailbox<Cause>,
    pub(super) taken: Mailbox<Cause>,
}

/// Where the data of an unexpected message are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageLocation {
    Buffer,
    OnItsWay,
    Aside,
}

/// Location of an unexpected message.
#[derive(Clone)]
pub(super) struct Early(Rc<(Cell<MessageLocation>, Mailbox<Cause>)>);

impl Early {
    pub fn new(sim: &Sim) -> Early {
        Early(Rc::new((
            Cell::new(MessageLocation::Buffer),
            Mailbox::new(sim),
        )))
    }

    pub fn location(&self) -> MessageLocation {
        self.0.0.get()
    }

    pub fn moves_to(&self, location: MessageLocation) {
        self.0.0.set(location);
    }

    /// Returns the mailbox that reports that it has been copied aside.
    pub fn aside(&self) -> &Mailbox<Cause> {
        &self.0.1
    }

    /// Returns whether it is still in the buffer that it arrived in.
    pub fn is_in_its_buffer(&self) -> bool {
        self.location() == MessageLocation::Buffer
    }
}

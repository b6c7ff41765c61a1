//! Packets that continue in a part of the simulation that another thread runs.

use super::load::Chunk;
use super::operation::{Kind, MemoryLocation};
use super::pair::{Message, Pair};
use crate::component::PacketInFlight;
use crate::kernel::Time;
use crate::mpi::Notice;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Role of a packet in the exchange of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of the request.
    Request,
    /// The acknowledgement.
    Acknowledgement,
    /// Part of the response to a read.
    Response,
}

/// A packet that arrives in a partition of another thread, as plain data.
pub struct CrossingPacket {
    /// The partition that it comes from, the one where it arrives, and when it arrives there.
    pub(crate) from: u32,
    pub(crate) place: u32,
    pub(crate) due: Time,
    /// The queue pair that has sent it.
    pub(super) pair: u64,
    pub(super) role: Role,
    pub(super) message: MessageHead,
    pub(super) chunk: Chunk,
    pub(super) number: u64,
    pub(super) in_flight: PacketInFlight,
}

/// The data of a message that other threads need.
pub(super) struct MessageHead {
    number: u64,
    kind: Kind,
    bytes: u64,
    remote: MemoryLocation,
    visible: Option<Time>,
    notice: Option<Notice>,
}

impl MessageHead {
    /// Returns the head of the message of a packet of this role that leaves. `requester` is its
    /// queue pair, if that is of this thread: it keeps the message until its last packet returns.
    ///
    /// # Panics
    ///
    /// If the message has a callback at its target: only notices may come from another thread.
    pub fn leaves(
        message: &Rc<Message>,
        (role, last): (Role, bool),
        requester: Option<&Pair>,
    ) -> MessageHead {
        assert!(
            message.kind.is_answered() || message.placed.borrow().is_none(),
            "a callback of a message cannot be called by another thread"
        );
        if let Some(requester) = requester.filter(|_| last) {
            requester.under_way.borrow_mut().push(message.clone());
        }
        // The notice stays at the target: its acknowledgement may leave before the notice is due.
        let tells = role == Role::Request && last;
        MessageHead {
            number: message.number,
            kind: message.kind,
            bytes: message.bytes,
            remote: message.remote,
            visible: message.visible.get(),
            notice: if tells { message.notice.take() } else { None },
        }
    }

    /// Returns the message of a packet that arrives. `requester` is its queue pair, if that is of
    /// this thread.
    pub fn arrives(self, last: bool, requester: Option<&Pair>) -> Rc<Message> {
        let kept = requester.filter(|_| last).and_then(|requester| {
            let mut under_way = requester.under_way.borrow_mut();
            let place = under_way.iter().position(|one| one.number == self.number)?;
            Some(under_way.remove(place))
        });
        match kept {
            Some(message) => {
                message.visible.set(self.visible.or(message.visible.get()));
                if self.notice.is_some() {
                    message.notice.set(self.notice);
                }
                message
            }
            None => Rc::new(Message {
                number: self.number,
                kind: self.kind,
                bytes: self.bytes,
                remote: self.remote,
                visible: Cell::new(self.visible),
                dropped: Cell::new(false),
                notice: Cell::new(self.notice),
                placed: RefCell::default(),
                completed: RefCell::default(),
            }),
        }
    }
}

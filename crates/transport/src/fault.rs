//! Responder faults and their consequences (specification 9.9.3, "Responder Side Behavior": faults
//! of class A to J).
//!
//! | class | answer | current receive | queue pair |
//! |---|---|---|---|
//! | A | NAK, remote operational error | ends in error | error state |
//! | B | NAK, PSN sequence error or RNR; the requester retries | untouched | unchanged |
//! | C | NAK, invalid request or remote access error | ends in error, or an event | error state |
//! | D | none, packet dropped | untouched | unchanged |
//! | D1 | none, message dropped, this packet may begin another | kept for that | unchanged |
//! | E | none, message dropped | of a shared queue: ends in error | unchanged |
//! | G | none | - | error state |
//! | J | none | ends in error | error state |
//!
//! F, H and I concern reliable datagrams, which are not implemented.

use verbena_wire::aeth::NakCode;

use crate::completion::Status;
use crate::state;

/// A fault that a responder found in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A packet before this one is missing.
    SequenceGap,
    /// The receive queue is empty.
    ReceiverNotReady,
    /// The service does not have this operation, or the queue pair does not permit it.
    UnsupportedOpcode,
    /// A packet continues a message that was not begun.
    MissingFirst,
    /// A message begins while another is unfinished.
    MissingLast,
    /// The packet's length does not fit its position in the message.
    PacketLength,
    /// The message's length differs from its RETH, or exceeds 2^31 bytes.
    MessageLength,
    /// The message does not fit the receive.
    ReceiveTooSmall,
    /// The memory of the receive may not be written.
    ReceiveProtection,
    /// The remote key does not permit the access.
    RemoteAccess,
    /// The address of an atomic operation is not a multiple of eight.
    MisalignedAtomic,
    /// More reads and atomics are outstanding than there are responder resources.
    TooManyReads,
    /// The memory does not support the operation.
    Operation,
    /// The key that the requester wants to invalidate may not be invalidated.
    Invalidate,
    /// The XRC domain has no such shared receive queue.
    NoSharedReceiveQueue,
    /// The completion queue is full.
    CompletionOverflow,
}

/// The class of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // See the module's table.
pub enum Class {
    A,
    B,
    C,
    D,
    D1,
    E,
    G,
    J,
}

/// The kind of responder that found the fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Responder {
    /// RC or XRC.
    Reliable,
    /// UC with its own receive queue.
    UnreliableConnected,
    /// UC with a shared receive queue.
    UnreliableConnectedShared,
    /// UD.
    Datagram,
}

impl Responder {
    /// Returns the responder of a queue pair of this type, with its own receive queue or a shared
    /// one.
    pub const fn of(queue_pair: state::Kind, shares_receives: bool) -> Self {
        match (queue_pair, shares_receives) {
            (state::Kind::Uc, false) => Self::UnreliableConnected,
            (state::Kind::Uc, true) => Self::UnreliableConnectedShared,
            (state::Kind::Ud, _) => Self::Datagram,
            _ => Self::Reliable,
        }
    }
}

/// The answer to the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// None.
    Silence,
    /// RNR NAK: retry after the queue pair's `min_rnr_timer`.
    RnrNak,
    /// A NAK.
    Nak(NakCode),
}

/// The consequence for the receive that the message has taken, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReceiveFate {
    /// It is untouched.
    Untouched,
    /// It is kept for the next message.
    Kept,
    /// It completes with this status.
    Completed(Status),
}

/// An affiliated asynchronous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// IBV_EVENT_QP_REQ_ERR.
    InvalidRequest,
    /// IBV_EVENT_QP_ACCESS_ERR.
    AccessViolation,
    /// IBV_EVENT_QP_FATAL.
    Fatal,
}

/// The consequence for the queue pair's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// Unchanged.
    SameState,
    /// Error state.
    ErrorState,
}

/// The consequences of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consequence {
    /// The fault.
    pub fault: Fault,
    /// Its class.
    pub class: Class,
    /// The answer to the requester.
    pub answer: Answer,
    /// The consequence for the current receive.
    pub receive: ReceiveFate,
    /// The event for the consumer if no receive completion can report the fault.
    pub event: Option<Event>,
    /// The consequence for the queue pair's state.
    pub next: Next,
}

impl Consequence {
    /// Returns the status of the requester's work request; `None` if it is retransmitted, or if the
    /// requester gets no answer and fails by its own timeout.
    pub const fn requester_status(&self) -> Option<Status> {
        match self.answer {
            Answer::Nak(code) => Status::of_refusal(code),
            Answer::Silence | Answer::RnrNak => None,
        }
    }
}

impl Fault {
    /// Returns the class of the fault for this kind of responder.
    pub const fn class(self, responder: Responder) -> Class {
        use Responder::{Datagram, Reliable, UnreliableConnected, UnreliableConnectedShared};
        match (self, responder) {
            (Self::ReceiveProtection, _) => Class::A,
            (Self::Operation, Reliable) => Class::A,
            (Self::SequenceGap | Self::ReceiverNotReady, Reliable) => Class::B,
            (Self::Invalidate, Reliable) => Class::J,
            (Self::CompletionOverflow, _) => Class::G,
            (
                Self::UnsupportedOpcode
                | Self::MissingFirst
                | Self::MissingLast
                | Self::PacketLength
                | Self::MessageLength
                | Self::ReceiveTooSmall
                | Self::RemoteAccess
                | Self::MisalignedAtomic
                | Self::TooManyReads
                | Self::NoSharedReceiveQueue,
                Reliable,
            ) => Class::C,
            // A packet that begins a message may be valid regardless of the previous message.
            (Self::MissingLast, UnreliableConnected) => Class::D1,
            // A receive taken from a shared queue cannot be returned.
            (
                Self::MissingLast
                | Self::MessageLength
                | Self::ReceiveTooSmall
                | Self::RemoteAccess
                | Self::Operation,
                UnreliableConnectedShared,
            ) => Class::E,
            (_, UnreliableConnected | UnreliableConnectedShared | Datagram) => Class::D,
        }
    }

    const fn nak(self) -> NakCode {
        match self {
            Self::SequenceGap => NakCode::PsnSequenceError,
            Self::RemoteAccess => NakCode::RemoteAccessError,
            Self::ReceiveProtection | Self::Operation => NakCode::RemoteOperationalError,
            _ => NakCode::InvalidRequest,
        }
    }

    const fn status(self) -> Status {
        match self {
            Self::ReceiveTooSmall => Status::LocalLength,
            Self::ReceiveProtection => Status::LocalProtection,
            Self::RemoteAccess => Status::LocalAccess,
            Self::Operation => Status::LocalQpOperation,
            _ => Status::RemoteInvalidRequest,
        }
    }

    const fn event(self) -> Event {
        match self {
            Self::RemoteAccess => Event::AccessViolation,
            Self::ReceiveProtection | Self::Operation | Self::CompletionOverflow => Event::Fatal,
            _ => Event::InvalidRequest,
        }
    }

    /// Returns the consequences for this kind of responder.
    pub const fn consequence(self, responder: Responder) -> Consequence {
        let class = self.class(responder);
        let reliable = matches!(responder, Responder::Reliable);
        let completed = ReceiveFate::Completed(self.status());
        let (answer, receive, next) = match class {
            Class::A if reliable => (Answer::Nak(self.nak()), completed, Next::ErrorState),
            Class::A => (Answer::Silence, completed, Next::ErrorState),
            Class::B if matches!(self, Self::ReceiverNotReady) => {
                (Answer::RnrNak, ReceiveFate::Untouched, Next::SameState)
            }
            Class::B => (
                Answer::Nak(self.nak()),
                ReceiveFate::Untouched,
                Next::SameState,
            ),
            Class::C => (Answer::Nak(self.nak()), completed, Next::ErrorState),
            Class::D | Class::D1 => (Answer::Silence, ReceiveFate::Kept, Next::SameState),
            Class::E => (Answer::Silence, completed, Next::SameState),
            Class::G => (Answer::Silence, ReceiveFate::Untouched, Next::ErrorState),
            Class::J => (Answer::Silence, completed, Next::ErrorState),
        };
        let event = match next {
            Next::ErrorState => Some(self.event()),
            Next::SameState => None,
        };
        Consequence {
            fault: self,
            class,
            answer,
            receive,
            event,
            next,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Responder::{Datagram, Reliable, UnreliableConnected, UnreliableConnectedShared};

    /// The rows for reliable services of the specification's table "Responder Error Behavior
    /// Summary", as in Linux' rxe.
    #[test]
    fn a_reliable_responder_answers_by_the_error_table() {
        use Answer::{Nak, RnrNak, Silence};
        let table = [
            (
                Fault::ReceiveProtection,
                Class::A,
                Nak(NakCode::RemoteOperationalError),
            ),
            (
                Fault::Operation,
                Class::A,
                Nak(NakCode::RemoteOperationalError),
            ),
            (Fault::SequenceGap, Class::B, Nak(NakCode::PsnSequenceError)),
            (Fault::ReceiverNotReady, Class::B, RnrNak),
            (
                Fault::UnsupportedOpcode,
                Class::C,
                Nak(NakCode::InvalidRequest),
            ),
            (Fault::MissingFirst, Class::C, Nak(NakCode::InvalidRequest)),
            (Fault::MissingLast, Class::C, Nak(NakCode::InvalidRequest)),
            (Fault::PacketLength, Class::C, Nak(NakCode::InvalidRequest)),
            (Fault::MessageLength, Class::C, Nak(NakCode::InvalidRequest)),
            (
                Fault::ReceiveTooSmall,
                Class::C,
                Nak(NakCode::InvalidRequest),
            ),
            (
                Fault::MisalignedAtomic,
                Class::C,
                Nak(NakCode::InvalidRequest),
            ),
            (Fault::TooManyReads, Class::C, Nak(NakCode::InvalidRequest)),
            (
                Fault::NoSharedReceiveQueue,
                Class::C,
                Nak(NakCode::InvalidRequest),
            ),
            (
                Fault::RemoteAccess,
                Class::C,
                Nak(NakCode::RemoteAccessError),
            ),
            (Fault::CompletionOverflow, Class::G, Silence),
            (Fault::Invalidate, Class::J, Silence),
        ];
        for (fault, class, answer) in table {
            let consequence = fault.consequence(Reliable);
            assert_eq!(
                (consequence.class, consequence.answer),
                (class, answer),
                "{fault:?}"
            );
            let lives = matches!(class, Class::B | Class::D);
            assert_eq!(consequence.next == Next::SameState, lives, "{fault:?}");
            assert_eq!(consequence.event.is_none(), lives, "{fault:?}");
        }
    }

    #[test]
    fn an_unreliable_responder_is_silent() {
        let table = [
            (
                Fault::ReceiverNotReady,
                UnreliableConnected,
                Class::D,
                ReceiveFate::Kept,
            ),
            (
                Fault::ReceiveTooSmall,
                UnreliableConnected,
                Class::D,
                ReceiveFate::Kept,
            ),
            (
                Fault::ReceiveTooSmall,
                Datagram,
                Class::D,
                ReceiveFate::Kept,
            ),
            (
                Fault::MissingLast,
                UnreliableConnected,
                Class::D1,
                ReceiveFate::Kept,
            ),
            (
                Fault::MissingLast,
                UnreliableConnectedShared,
                Class::E,
                ReceiveFate::Completed(Status::RemoteInvalidRequest),
            ),
            (
                Fault::RemoteAccess,
                UnreliableConnected,
                Class::D,
                ReceiveFate::Kept,
            ),
        ];
        for (fault, responder, class, receive) in table {
            let consequence = fault.consequence(responder);
            assert_eq!(
                (consequence.class, consequence.receive),
                (class, receive),
                "{fault:?}"
            );
            assert_eq!(consequence.answer, Answer::Silence);
            assert_eq!(consequence.next, Next::SameState);
        }
        assert_eq!(
            Fault::ReceiveProtection.consequence(Datagram).answer,
            Answer::Silence
        );
    }
}

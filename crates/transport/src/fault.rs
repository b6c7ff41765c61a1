//! What a responder may find wrong with a request, and what follows (specification 9.9.3, "Responder Side Behavior":
//! faults by class A to J).
//!
//! | class | answer | receive in hand | queue pair |
//! |---|---|---|---|
//! | A | NAK, remote operational error | ends in error | error state |
//! | B | NAK, PSN sequence error or RNR; the requester tries again | untouched | as before |
//! | C | NAK, invalid request or remote access error | ends in error, or else an event | error state |
//! | D | none, packet dropped | untouched | as before |
//! | D1 | none, message dropped, this packet may begin another | kept for that | as before |
//! | E | none, message dropped | of a shared queue: ends in error | as before |
//! | G | none | - | error state |
//! | J | none | ends in error | error state |
//!
//! F, H and I concern reliable datagrams, which nobody implements.

use verbena_wire::aeth::NakCode;

use crate::completion::Status;

/// What a responder found wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A packet is missing before this one.
    SequenceGap,
    /// There is no receive.
    ReceiverNotReady,
    /// The service has not, or the queue pair was not given, this operation.
    UnsupportedOpcode,
    /// A message goes on that was not begun.
    MissingFirst,
    /// A message begins while another is unfinished.
    MissingLast,
    /// A packet is not as long as its place demands.
    PacketLength,
    /// A message is not as long as its RETH says, or longer than 2^31 bytes.
    MessageLength,
    /// The message does not fit the receive.
    ReceiveTooSmall,
    /// The memory that the receive names may not be written.
    ReceiveProtection,
    /// The key does not give the right.
    RemoteAccess,
    /// The address of an atomic operation is not a multiple of eight.
    MisalignedAtomic,
    /// More reads and atomics are unanswered than there are resources.
    TooManyReads,
    /// The memory cannot do the operation.
    Operation,
    /// The key that the requester wants invalidated cannot be.
    Invalidate,
    /// There is no such shared receive queue in the XRC domain.
    NoSharedReceiveQueue,
    /// The completion queue has no room.
    CompletionOverflow,
}

/// The class of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // Told in the module's table.
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

/// For whom the fault is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Responder {
    /// RC or XRC.
    Reliable,
    /// UC with receives of its own.
    UnreliableConnected,
    /// UC with a shared receive queue.
    UnreliableConnectedShared,
    /// UD.
    Datagram,
}

/// The answer to the requester.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// None.
    Silence,
    /// Not ready: try again after the queue pair's time.
    RnrNak,
    /// A NAK.
    Nak(NakCode),
}

/// What becomes of the receive that was taken for the message, if one was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReceiveFate {
    /// It stays where it is.
    Untouched,
    /// It serves the next message.
    Kept,
    /// It ends so.
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

/// Whether the queue pair lives on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Next {
    /// It does.
    SameState,
    /// It goes to the error state.
    ErrorState,
}

/// What follows from a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Consequence {
    /// The fault.
    pub fault: Fault,
    /// Its class.
    pub class: Class,
    /// What the requester is told.
    pub answer: Answer,
    /// What becomes of the receive in hand.
    pub receive: ReceiveFate,
    /// What the consumer is told if there is no receive whose completion could.
    pub event: Option<Event>,
    /// What becomes of the queue pair.
    pub next: Next,
}

impl Consequence {
    /// How the requester's work request ends; nothing if it is sent again, or if the requester is told nothing and so
    /// finds out by its own timeout.
    pub const fn requester_status(&self) -> Option<Status> {
        match self.answer {
            Answer::Nak(code) => Status::of_refusal(code),
            Answer::Silence | Answer::RnrNak => None,
        }
    }
}

impl Fault {
    /// Its class for this kind of responder.
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
            // A packet that begins a message may be right, whatever became of the last one.
            (Self::MissingLast, UnreliableConnected) => Class::D1,
            // What was taken from a shared queue cannot be given back.
            (
                Self::MissingLast
                | Self::MessageLength
                | Self::ReceiveTooSmall
                | Self::RemoteAccess,
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

    /// What follows for this kind of responder.
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

    /// The reliable rows of the specification's table "Responder Error Behavior Summary", as Linux's rxe has them.
    #[test]
    fn a_reliable_responder_answers_as_the_table_says() {
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

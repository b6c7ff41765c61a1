//! Reliable connections and XRC (specification 9.7): every request takes effect exactly once and in order, or its
//! requester learns that it did not.
//!
//! A packet that was lost is sent again, alone to a peer that keeps what came behind it, as ours do, and with all of that
//! (go-back-N) to one that does not, as Linux' rxe. What the peer does is seen by its acknowledgements.

pub mod requester;
pub mod responder;

pub use requester::Requester;
pub use responder::Responder;

use verbena_wire::opcode::{Opcode, Operation, Service};

/// The service of a reliable queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reliable {
    /// Reliable connection.
    Rc,
    /// Extended reliable connection.
    Xrc,
}

impl Reliable {
    /// As opcodes have it.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Xrc => Service::Xrc,
        }
    }

    /// The opcode of an operation. Both services have every operation but congestion notification, which has no
    /// service.
    pub fn opcode(self, operation: Operation) -> Opcode {
        Opcode::new(self.service(), operation).unwrap_or(Opcode::CNP)
    }
}

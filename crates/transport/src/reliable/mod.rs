//! Reliable connections and XRC (specification 9.7): every request takes effect exactly once and in order, or its
//! requester learns that it did not.
//!
//! Lost packets are sent again from the first that is missing (go-back-N): the recovery that every adapter and Linux'
//! rxe understand.

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

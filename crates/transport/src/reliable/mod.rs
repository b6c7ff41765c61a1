//! Reliable connections and XRC (specification 9.7): every request executes exactly once and in
//! order, or its requester learns that it did not.
//!
//! A lost packet is retransmitted: alone if the peer keeps the packets behind a gap, as Verbena
//! does, or together with all packets behind it (go-back-N) if the peer drops them, as Linux' rxe
//! does. The peer's acknowledgements show its behaviour.

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
    /// Returns the service as encoded in opcodes.
    pub const fn service(self) -> Service {
        match self {
            Self::Rc => Service::Rc,
            Self::Xrc => Service::Xrc,
        }
    }

    /// Returns the opcode of an operation. Both services have every operation except congestion
    /// notification, which belongs to no service.
    pub fn opcode(self, operation: Operation) -> Opcode {
        Opcode::new(self.service(), operation).unwrap_or(Opcode::CNP)
    }
}

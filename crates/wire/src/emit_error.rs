//! Errors of writing packets.

use thiserror::Error;

use crate::opcode::{Header, Opcode};

/// Why a packet cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EmitError {
    /// The buffer is too short. Nothing was written.
    #[error("the packet takes {needed} bytes, the buffer has {found}")]
    Room {
        /// Required length.
        needed: usize,
        /// Length of the buffer.
        found: usize,
    },
    /// The packet lacks a header that the opcode requires.
    #[error("{opcode} needs a {header}, but none was given")]
    Missing {
        /// The opcode.
        opcode: Opcode,
        /// The header.
        header: Header,
    },
    /// The packet has a header that the opcode does not permit.
    #[error("{opcode} has no {header}, but one was given")]
    Extra {
        /// The opcode.
        opcode: Opcode,
        /// The header.
        header: Header,
    },
    /// The payload length does not fit the opcode.
    #[error("{opcode} carries {expected}, but {found} bytes were given")]
    Payload {
        /// The opcode.
        opcode: Opcode,
        /// The expected payload, in words.
        expected: &'static str,
        /// The given length.
        found: usize,
    },
    /// The packet is too long for a length field.
    #[error("{found} bytes exceed the maximum of {field} ({most})")]
    Long {
        /// The field.
        field: &'static str,
        /// Its maximum.
        most: usize,
        /// The given length.
        found: usize,
    },
}

//! What was wrong with bytes that arrived, and with a packet that was to be sent.

use thiserror::Error;

use crate::opcode::{Header, Opcode};

/// Why bytes are no packet. Offsets count from the first byte given to the `parse` that was called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes end inside something.
    #[error("{what} at byte {at} needs {needed} bytes, found {found}")]
    Truncated {
        /// The header or field.
        what: &'static str,
        /// Where it begins.
        at: usize,
        /// How long it is.
        needed: usize,
        /// How many bytes are there.
        found: usize,
    },
    /// Bytes are left over.
    #[error("{what} ends at byte {at}, found {extra} bytes more")]
    Trailing {
        /// What should have been the last thing.
        what: &'static str,
        /// Where it ends.
        at: usize,
        /// How many bytes follow.
        extra: usize,
    },
    /// A field holds a value that it cannot have.
    #[error("{field} at byte {at} is {found:#x}, expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// Where it is.
        at: usize,
        /// What it holds.
        found: u64,
        /// What it may hold, in words.
        expected: &'static str,
    },
    /// The invariant CRC does not match: the packet was damaged on its way.
    #[error("ICRC is {found:#010x}, computed {expected:#010x}")]
    Icrc {
        /// As computed over the packet.
        expected: u32,
        /// As the packet says.
        found: u32,
    },
}

impl Error {
    /// The same error, seen from bytes that begin `offset` bytes earlier.
    pub(crate) fn shifted(self, offset: usize) -> Self {
        match self {
            Self::Truncated {
                what,
                at,
                needed,
                found,
            } => Self::Truncated {
                what,
                at: at + offset,
                needed,
                found,
            },
            Self::Trailing { what, at, extra } => Self::Trailing {
                what,
                at: at + offset,
                extra,
            },
            Self::Value {
                field,
                at,
                found,
                expected,
            } => Self::Value {
                field,
                at: at + offset,
                found,
                expected,
            },
            Self::Icrc { expected, found } => Self::Icrc { expected, found },
        }
    }
}

/// Why a packet cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EmitError {
    /// The buffer is too short. Nothing was written.
    #[error("the packet takes {needed} bytes, the buffer has {found}")]
    Room {
        /// What it takes.
        needed: usize,
        /// What there is.
        found: usize,
    },
    /// The opcode demands a header that the packet does not have.
    #[error("{opcode} has a {header}, and none was given")]
    Missing {
        /// The opcode.
        opcode: Opcode,
        /// The header.
        header: Header,
    },
    /// The packet has a header that the opcode does not have.
    #[error("{opcode} has no {header}, and one was given")]
    Extra {
        /// The opcode.
        opcode: Opcode,
        /// The header.
        header: Header,
    },
    /// The opcode carries no payload, or one of another length.
    #[error("{opcode} carries {expected}, and {found} bytes were given")]
    Payload {
        /// The opcode.
        opcode: Opcode,
        /// What it carries, in words.
        expected: &'static str,
        /// What was given.
        found: usize,
    },
    /// Longer than a length field can say.
    #[error("{found} bytes are more than {field} can say ({most})")]
    Long {
        /// The field.
        field: &'static str,
        /// The most it can say.
        most: usize,
        /// What was given.
        found: usize,
    },
}

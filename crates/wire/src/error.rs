//! Errors of parsing received bytes.

use thiserror::Error;

/// Why bytes are not a valid packet. Offsets count from the first byte passed to `parse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Error {
    /// The bytes end inside a header or field.
    #[error("{what} at byte {at} needs {needed} bytes, found {found}")]
    Truncated {
        /// The header or field.
        what: &'static str,
        /// Its offset.
        at: usize,
        /// Its length.
        needed: usize,
        /// The number of bytes available.
        found: usize,
    },
    /// Bytes remain after the end.
    #[error("{what} ends at byte {at}, found {extra} extra bytes")]
    Trailing {
        /// The last part of the packet.
        what: &'static str,
        /// Its end.
        at: usize,
        /// The number of bytes after it.
        extra: usize,
    },
    /// A field has an invalid value.
    #[error("{field} at byte {at} is {found:#x}, expected {expected}")]
    Value {
        /// The field.
        field: &'static str,
        /// Its offset.
        at: usize,
        /// Its value.
        found: u64,
        /// The valid values, in words.
        expected: &'static str,
    },
    /// The invariant CRC does not match: the packet is damaged.
    #[error("ICRC is {found:#010x}, computed {expected:#010x}")]
    Icrc {
        /// Computed over the packet.
        expected: u32,
        /// Stored in the packet.
        found: u32,
    },
}

impl Error {
    /// Returns the same error with offsets that count from `offset` bytes earlier.
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

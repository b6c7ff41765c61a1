//! The frame: a fixed header, a body, an optional tag, and an optional payload.
//!
//! ```text
//!  0      2      4       8         12         20
//!  | magic| kind |  body | payload |  id      |  body bytes | tag (0 or 16) | payload bytes
//! ```
//!
//! The magic differs from every TLS record type, so the first byte tells a server which one it is.
//! The kind of a reply is the request's operation with the top bit set. A frame whose header fails
//! [`Header::parse`] ends the connection, because the next frame's boundary is unknown.

use thiserror::Error;

/// First two bytes of every frame: "RF".
pub const MAGIC: u16 = 0x5246;

/// Bytes of a header.
pub const HEADER: usize = 20;

/// Largest body, in bytes. A vector of 65,536 ranges and a directory page both fit.
pub const MOST_BODY: usize = 2 << 20;

/// Largest payload of any peer, in bytes; a session's own limit, which the handshake states, is
/// usually lower.
pub const MOST_PAYLOAD: usize = 64 << 20;

/// Bytes of the tag after the body, in sessions authenticated by a shared secret without TLS.
pub const TAG: usize = 16;

/// Largest body before authentication, in bytes: little more than the claims of the longest ticket.
pub const MOST_BODY_UNAUTHENTICATED: usize = 8 << 10;

/// The kind of a frame: request or reply, and the operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Kind(pub u16);

impl Kind {
    const REPLY: u16 = 0x8000;

    /// Returns the kind of an operation's request.
    pub fn request(operation: u16) -> Self {
        Self(operation & !Self::REPLY)
    }

    /// Returns the kind of an operation's reply.
    pub fn reply(operation: u16) -> Self {
        Self(operation | Self::REPLY)
    }

    /// Returns whether this is a reply.
    pub fn is_reply(self) -> bool {
        self.0 & Self::REPLY != 0
    }

    /// Returns the operation.
    pub fn operation(self) -> u16 {
        self.0 & !Self::REPLY
    }
}

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Request or reply, and the operation.
    pub kind: Kind,
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of raw data after the body.
    pub payload: u32,
    /// Chosen by the client, echoed by the server.
    pub id: u64,
}

/// Why a header was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadHeader {
    /// The peer uses another protocol.
    #[error("frame begins with {found:#06x} instead of {MAGIC:#06x}: the peer does not use RFIO 2")]
    Magic {
        /// The value found.
        found: u16,
    },
    /// The body is too long.
    #[error("frame announces a body of {found} bytes, more than the limit of {limit}")]
    Body {
        /// Announced bytes.
        found: u32,
        /// The limit in this state of the session.
        limit: usize,
    },
    /// The payload is too long.
    #[error("frame announces a payload of {found} bytes, more than the limit of {limit}")]
    Payload {
        /// Announced bytes.
        found: u32,
        /// The limit in this state of the session.
        limit: usize,
    },
}

/// The current limits of a session, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest body.
    pub body: usize,
    /// Largest payload.
    pub payload: usize,
}

impl Limits {
    /// Before authentication: small handshake messages, no payload.
    pub const STRANGER: Limits = Limits {
        body: MOST_BODY_UNAUTHENTICATED,
        payload: 0,
    };
}

impl Header {
    /// Parses a header and compares it with the session's limits.
    ///
    /// # Errors
    /// [`BadHeader`] for another protocol, or for a body or payload above the limit.
    pub fn parse(bytes: &[u8; HEADER], limits: Limits) -> Result<Self, BadHeader> {
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        if half(0) != MAGIC {
            return Err(BadHeader::Magic { found: half(0) });
        }
        let (body, payload) = (word(4), word(8));
        if body as usize > limits.body.min(MOST_BODY) {
            return Err(BadHeader::Body {
                found: body,
                limit: limits.body.min(MOST_BODY),
            });
        }
        if payload as usize > limits.payload.min(MOST_PAYLOAD) {
            return Err(BadHeader::Payload {
                found: payload,
                limit: limits.payload.min(MOST_PAYLOAD),
            });
        }
        let id = (u64::from(word(12)) << 32) | u64::from(word(16));
        Ok(Self {
            kind: Kind(half(2)),
            body,
            payload,
            id,
        })
    }

    /// Returns the header's bytes.
    pub fn emit(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..2].copy_from_slice(&MAGIC.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.kind.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.body.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.payload.to_be_bytes());
        bytes[12..20].copy_from_slice(&self.id.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPEN: Limits = Limits {
        body: MOST_BODY,
        payload: MOST_PAYLOAD,
    };

    #[test]
    fn headers_match_golden_bytes() {
        let header = Header {
            kind: Kind::reply(12),
            body: 0x10,
            payload: 0x0010_0000,
            id: 0x0102_0304_0506_0708,
        };
        let bytes = [
            0x52, 0x46, 0x80, 12, 0, 0, 0, 0x10, 0, 0x10, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        assert_eq!(header.emit(), bytes);
        assert_eq!(Header::parse(&bytes, OPEN), Ok(header));
    }

    #[test]
    fn unauthenticated_peers_may_not_send_payload() {
        let header = Header {
            kind: Kind::request(1),
            body: 8,
            payload: 1,
            id: 0,
        };
        let error = Header::parse(&header.emit(), Limits::STRANGER).unwrap_err();
        assert_eq!(error, BadHeader::Payload { found: 1, limit: 0 });
    }

    #[test]
    fn the_magic_differs_from_tls_record_types() {
        // Record types of TLS are 20 to 24.
        assert!(!(20..=24).contains(&MAGIC.to_be_bytes()[0]));
    }

    proptest! {
        #[test]
        fn parse_inverts_emit(
            kind: u16, body in 0..=MOST_BODY as u32, payload in 0..=MOST_PAYLOAD as u32, id: u64) {
            let header = Header { kind: Kind(kind), body, payload, id };
            prop_assert_eq!(Header::parse(&header.emit(), OPEN), Ok(header));
        }

        #[test]
        fn accepted_headers_are_within_the_limits(
            bytes: [u8; HEADER], body in 0..4096usize, payload in 0..4096usize) {
            let mut bytes = bytes;
            bytes[0..2].copy_from_slice(&MAGIC.to_be_bytes());
            if let Ok(header) = Header::parse(&bytes, Limits { body, payload }) {
                prop_assert!(header.body as usize <= body && header.payload as usize <= payload);
                prop_assert_eq!(header.emit(), bytes);
            }
        }
    }
}

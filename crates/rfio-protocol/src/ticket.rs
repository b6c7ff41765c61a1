//! Tickets: an issuer's permission for a user to open a file, with its access mode and expiry.
//!
//! An issuer (an XRootD server, for example) authorizes users; the RFIO server shares a secret with
//! it and knows no users. A ticket consists of claims and a key, the HMAC-SHA-256 of [`signed`]
//! under the shared secret. The client receives both. It sends the claims and proves the key like
//! any secret, so the key itself is never sent to the server.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::message;
use crate::request::OpenFlags;
use crate::types::{Path, Text};

/// Longest validity of a ticket, in nanoseconds: a server remembers each redeemed ticket as long.
pub const LONGEST_LIFE: i64 = 300_000_000_000;

message! {
    /// The claims of a ticket.
    Claims {
        /// The issuer.
        issuer: Text,
        /// The user, as the issuer names users; empty for anonymous.
        user: Text,
        /// The only file that may be opened.
        path: Path,
        /// The access mode: bits [`OpenFlags::READ`] and [`OpenFlags::WRITE`].
        access: u32,
        /// Time of issue, nanoseconds since 1970 by the issuer's clock.
        issued: i64,
        /// Time until which it may be redeemed. An opened session continues beyond it.
        expires: i64,
        /// Random bytes, unique to this ticket.
        nonce: [u8; 16],
    }
}

impl Claims {
    /// Encodes the claims.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.put(&mut writer);
        writer.into_bytes()
    }

    /// Decodes the claims.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are not exactly one encoding.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let claims = Self::take(&mut reader)?;
        reader.finish()?;
        Ok(claims)
    }

    /// Returns whether the access mode is valid.
    pub fn has_an_access(&self) -> bool {
        self.access != 0 && self.access & !(OpenFlags::READ | OpenFlags::WRITE) == 0
    }
}

/// Returns the bytes whose keyed hash is the ticket's key.
pub fn signed(claims: &Claims) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(b"RFIO 2 ticket\0");
    claims.put(&mut writer);
    writer.into_bytes()
}

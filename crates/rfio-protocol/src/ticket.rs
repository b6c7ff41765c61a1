//! Tickets: whom somebody else has let in, to open which file, how, and until when.
//!
//! An issuer (a server of XRootD, say) decides who may open what; the server of the bytes shares a secret with it and knows no
//! users. A ticket is what it claims and a key, which is HMAC-SHA-256 under the shared secret over [`signed`]. The client is
//! told both. It sends the claims and proves with the key, as with any secret, so the key itself never travels to the server.

use crate::codec::{Field, Malformed, Reader, Writer};
use crate::message::message;
use crate::request::OpenFlags;
use crate::types::{Path, Text};

/// The longest that a ticket may be good for, in nanoseconds: a server remembers every ticket for as long.
pub const LONGEST_LIFE: i64 = 300_000_000_000;

message! {
    /// What a ticket says.
    Claims {
        /// Who issued it.
        issuer: Text,
        /// For whom, as the issuer names users; empty is nobody in particular.
        user: Text,
        /// The only file that may be opened.
        path: Path,
        /// How: bits of [`OpenFlags::READ`] and [`OpenFlags::WRITE`].
        access: u32,
        /// When it was issued, nanoseconds since 1970 by the issuer's clock.
        issued: i64,
        /// Until when it may be redeemed. A session that it has opened goes on.
        expires: i64,
        /// Random bytes, which no other ticket has.
        nonce: [u8; 16],
    }
}

impl Claims {
    /// The bytes of a body.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.put(&mut writer);
        writer.into_bytes()
    }

    /// Claims from exactly these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let claims = Self::take(&mut reader)?;
        reader.finish()?;
        Ok(claims)
    }

    /// Whether the access is one that there is.
    pub fn has_an_access(&self) -> bool {
        self.access != 0 && self.access & !(OpenFlags::READ | OpenFlags::WRITE) == 0
    }
}

/// The bytes that a ticket's key is the keyed hash of.
pub fn signed(claims: &Claims) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(b"RFIO 2 ticket\0");
    claims.put(&mut writer);
    writer.into_bytes()
}

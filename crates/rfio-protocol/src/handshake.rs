//! Authentication: the methods, and the bytes that the shared-secret proofs cover.
//!
//! Both sides prove that they know the named user's secret, over both nonces, which prevents replay
//! and reflection; under TLS the channel's exported key is covered as well, so that a proof is
//! valid on one channel only. This module only lays out the bytes; the caller computes the keyed
//! hash (HMAC-SHA-256, RFC 2104).

use crate::codec::{Field, Writer};
use crate::request::Hello;

/// Authentication methods, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Methods(pub u32);

impl Methods {
    /// The kernel attests the peer's user ID (Unix sockets).
    pub const PEER: u32 = 1;
    /// HMAC-SHA-256 with the user's secret.
    pub const SECRET: u32 = 2;
    /// Anonymous; only if the administrator allows it.
    pub const ANONYMOUS: u32 = 4;
    /// A ticket of an issuer that the server trusts: [`crate::ticket`].
    pub const TICKET: u32 = 8;
    /// The client's TLS certificate, which the server maps to a user. No further proof is needed,
    /// as its key was used for this channel.
    pub const CERTIFICATE: u32 = 16;
    /// A JSON Web Token of an issuer that the server trusts, only on an encrypted channel: the
    /// client sends [`crate::request::Present`] instead of a proof.
    pub const TOKEN: u32 = 32;

    /// Returns whether a method is included.
    pub fn has(self, method: u32) -> bool {
        self.0 & method != 0
    }
}

/// The purpose of a keyed hash; each purpose hashes different bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The client's proof.
    Client,
    /// The server's proof.
    Server,
    /// The key of tags on frames from the client.
    ClientFrames,
    /// The key of tags on frames from the server.
    ServerFrames,
}

impl Purpose {
    fn label(self) -> &'static [u8] {
        match self {
            Self::Client => b"RFIO 2 client proof\0",
            Self::Server => b"RFIO 2 server proof\0",
            Self::ClientFrames => b"RFIO 2 client frames\0",
            Self::ServerFrames => b"RFIO 2 server frames\0",
        }
    }
}

/// Returns the bytes that the hash for a purpose covers.
///
/// `channel` is the key that TLS exports for the label `EXPORTER-RFIO-2`, empty without TLS.
pub fn transcript(
    purpose: Purpose,
    hello: &Hello,
    server_nonce: &[u8; 32],
    version: u16,
    channel: &[u8],
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put(purpose.label());
    hello.put(&mut writer);
    server_nonce.put(&mut writer);
    version.put(&mut writer);
    writer.put_count(channel.len());
    writer.put(channel);
    writer.into_bytes()
}

/// Returns the bytes that a frame's tag covers before the body: the frame's number in its
/// direction, and its header.
pub fn tagged_prefix(sequence: u64, header: &[u8; crate::frame::HEADER]) -> [u8; 28] {
    let mut prefix = [0; 28];
    prefix[..8].copy_from_slice(&sequence.to_be_bytes());
    prefix[8..].copy_from_slice(header);
    prefix
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Text;

    fn hello() -> Hello {
        Hello {
            lowest: 2,
            highest: 2,
            methods: 2,
            user: Text::new("ann"),
            nonce: [1; 32],
        }
    }

    #[test]
    fn every_purpose_and_input_changes_the_transcript() {
        let base = transcript(Purpose::Client, &hello(), &[2; 32], 2, b"");
        let mut other_user = hello();
        other_user.user = Text::new("bob");
        for different in [
            transcript(Purpose::Server, &hello(), &[2; 32], 2, b""),
            transcript(Purpose::ClientFrames, &hello(), &[2; 32], 2, b""),
            transcript(Purpose::Client, &other_user, &[2; 32], 2, b""),
            transcript(Purpose::Client, &hello(), &[3; 32], 2, b""),
            transcript(Purpose::Client, &hello(), &[2; 32], 3, b""),
            transcript(Purpose::Client, &hello(), &[2; 32], 2, b"k"),
        ] {
            assert_ne!(base, different);
        }
    }
}

//! HMAC-SHA-256 over the handshake's transcript (RFC 2104, RFC 6234).

use ring::hmac::{self, HMAC_SHA256, Key};
use verbena_rfio_protocol::handshake::{Purpose, transcript};
use verbena_rfio_protocol::request::Hello;

use super::tags::Tagger;

/// A handshake, as known to both sides, under one secret.
#[derive(Debug)]
pub struct Handshake<'a> {
    /// The secret.
    pub secret: &'a [u8],
    /// The client's hello.
    pub hello: &'a Hello,
    /// The server's random bytes.
    pub server_nonce: &'a [u8; 32],
    /// The negotiated version.
    pub version: u16,
    /// The keying material exported by TLS; empty without TLS.
    pub channel: &'a [u8],
}

impl Handshake<'_> {
    fn bytes(&self, purpose: Purpose) -> Vec<u8> {
        transcript(
            purpose,
            self.hello,
            self.server_nonce,
            self.version,
            self.channel,
        )
    }

    fn key(&self) -> Key {
        Key::new(HMAC_SHA256, self.secret)
    }

    /// Returns the proof for a purpose.
    pub fn proof(&self, purpose: Purpose) -> [u8; 32] {
        let mut proof = [0; 32];
        proof.copy_from_slice(hmac::sign(&self.key(), &self.bytes(purpose)).as_ref());
        proof
    }

    /// Returns whether the peer's proof is correct, in constant time.
    pub fn verify(&self, purpose: Purpose, proof: &[u8; 32]) -> bool {
        hmac::verify(&self.key(), &self.bytes(purpose), proof).is_ok()
    }

    /// Returns the tagger of one direction's frames.
    pub fn tagger(&self, purpose: Purpose) -> Tagger {
        Tagger::new(&self.proof(purpose))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_rfio_protocol::types::Text;

    #[test]
    fn only_the_same_secret_and_transcript_verify() {
        let hello = Hello {
            lowest: 2,
            highest: 2,
            methods: 2,
            user: Text::new("ann"),
            nonce: [1; 32],
        };
        let mine = Handshake {
            secret: b"right",
            hello: &hello,
            server_nonce: &[2; 32],
            version: 2,
            channel: b"",
        };
        let proof = mine.proof(Purpose::Client);
        assert!(mine.verify(Purpose::Client, &proof));
        assert!(
            !mine.verify(Purpose::Server, &proof),
            "a reflected proof is worth nothing"
        );
        assert!(
            !Handshake {
                secret: b"wrong",
                ..mine
            }
            .verify(Purpose::Client, &proof)
        );
        assert!(
            !Handshake {
                server_nonce: &[3; 32],
                ..mine
            }
            .verify(Purpose::Client, &proof),
            "nor a replayed one"
        );
        assert!(
            !Handshake {
                channel: b"other",
                ..mine
            }
            .verify(Purpose::Client, &proof)
        );
    }
}

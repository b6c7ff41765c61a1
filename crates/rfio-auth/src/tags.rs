//! Authentication tags on frames: in a session authenticated by a shared secret without TLS, each
//! header and body carries 16 bytes of HMAC-SHA-256 over the frame's number in its direction, the
//! header and the body. A modified, dropped, repeated or inserted frame ends the session. Payloads
//! are not covered, as documented.

use ring::hmac::{Context, HMAC_SHA256, Key};
use verbena_rfio_protocol::frame::{HEADER, TAG};
use verbena_rfio_protocol::handshake::tagged_prefix;

use super::compare::are_equal;

/// Creates and verifies the tags of one direction.
#[derive(Debug)]
pub struct Tagger {
    key: Key,
    sequence: u64,
}

impl Tagger {
    /// Creates a tagger for the first frame.
    pub fn new(key: &[u8]) -> Self {
        Self {
            key: Key::new(HMAC_SHA256, key),
            sequence: 0,
        }
    }

    /// Returns the next frame's tag.
    pub fn tag(&mut self, header: &[u8; HEADER], body: &[u8]) -> [u8; TAG] {
        let mut context = Context::with_key(&self.key);
        context.update(&tagged_prefix(self.sequence, header));
        context.update(body);
        self.sequence += 1;
        let mut tag = [0; TAG];
        tag.copy_from_slice(&context.sign().as_ref()[..TAG]);
        tag
    }

    /// Returns whether the next frame's tag is correct.
    pub fn verify(&mut self, header: &[u8; HEADER], body: &[u8], tag: &[u8]) -> bool {
        are_equal(&self.tag(header, body), tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_repeated_and_dropped_frames_are_detected() {
        let mut sender = Tagger::new(b"key");
        let first = sender.tag(&[1; HEADER], b"one");
        let second = sender.tag(&[1; HEADER], b"two");
        let receiver = || Tagger::new(b"key");
        assert!(receiver().verify(&[1; HEADER], b"one", &first));
        assert!(
            !receiver().verify(&[1; HEADER], b"onf", &first),
            "changed body"
        );
        assert!(
            !receiver().verify(&[2; HEADER], b"one", &first),
            "changed header"
        );
        assert!(
            !receiver().verify(&[1; HEADER], b"two", &second),
            "dropped first frame"
        );
        let mut repeated = receiver();
        assert!(repeated.verify(&[1; HEADER], b"one", &first));
        assert!(
            !repeated.verify(&[1; HEADER], b"one", &first),
            "repeated frame"
        );
        assert!(
            !receiver().verify(&[1; HEADER], b"one", &first[..8]),
            "short tag"
        );
    }
}

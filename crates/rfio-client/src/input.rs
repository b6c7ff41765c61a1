//! Incremental parsing of replies: consumes available bytes and never blocks.

use verbena_rfio_auth::tags::Tagger;
use verbena_rfio_protocol::Header;
use verbena_rfio_protocol::frame::{HEADER, Limits, MOST_BODY, MOST_PAYLOAD, TAG};

use super::error::Error;
use super::stream::Stream;

/// Maximum lengths that a client accepts from any server.
const REPLIES: Limits = Limits {
    body: MOST_BODY,
    payload: MOST_PAYLOAD,
};

/// A frame received up to its payload.
#[derive(Debug)]
pub struct FrameHead {
    /// Its header.
    pub header: Header,
    /// Its body, whose tag has been verified.
    pub body: Vec<u8>,
}

/// The beginning of the frame being received.
#[derive(Debug, Default)]
pub struct Input {
    /// Header, body and tag, as far as received.
    bytes: Vec<u8>,
    header: Option<Header>,
}

impl Input {
    /// Returns the next frame up to its payload, once that has been received.
    ///
    /// # Errors
    /// The header or tag is invalid, or the connection failed.
    pub fn frame_head(
        &mut self,
        stream: &mut Stream,
        tagger: &mut Option<Tagger>,
    ) -> Result<Option<FrameHead>, Error> {
        let header = match self.header {
            Some(header) => header,
            None => {
                if !self.fill(stream, HEADER)? {
                    return Ok(None);
                }
                let header = Header::parse(&self.raw(), REPLIES)
                    .map_err(|bad| Error::Protocol(bad.to_string()))?;
                *self.header.insert(header)
            }
        };
        let behind_body = HEADER + header.body as usize;
        let tag = if tagger.is_some() { TAG } else { 0 };
        if !self.fill(stream, behind_body + tag)? {
            return Ok(None);
        }
        let raw = self.raw();
        let mut body = std::mem::take(&mut self.bytes);
        self.header = None;
        let tag = body.split_off(behind_body);
        body.drain(..HEADER);
        if let Some(tagger) = tagger
            && !tagger.verify(&raw, &body, &tag)
        {
            return Err(Error::Protocol(
                "a frame has an invalid tag: it was changed in transit".into(),
            ));
        }
        Ok(Some(FrameHead { header, body }))
    }

    fn raw(&self) -> [u8; HEADER] {
        let mut raw = [0; HEADER];
        raw.copy_from_slice(&self.bytes[..HEADER]);
        raw
    }

    /// Receives until `length` bytes are present; returns whether they are.
    fn fill(&mut self, stream: &mut Stream, length: usize) -> Result<bool, Error> {
        while self.bytes.len() < length {
            let before = self.bytes.len();
            self.bytes.resize(length, 0);
            let received = stream.receive_some(&mut self.bytes[before..]);
            let more = received.as_ref().map_or(0, |more| more.unwrap_or(0));
            self.bytes.truncate(before + more);
            if received?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

//! Assembles received bytes into frames.
//!
//! Headers and bodies pass through one staging buffer. A payload is received directly into its own
//! buffer, which is allocated only for an authenticated peer, within the limit of its session, and
//! within the budget of the service.

use std::io;

use verbena_rfio_auth::tags::Tagger;
use verbena_rfio_protocol::frame::{BadHeader, HEADER, Header, Limits, TAG};

use super::channel::Channel;
use crate::budget::{Account, MemoryGrant};

const STAGING: usize = 16 << 10;

/// A complete frame.
#[derive(Debug)]
pub struct Frame {
    /// Its header.
    pub header: Header,
    /// Its body.
    pub body: Vec<u8>,
    /// Its payload.
    pub payload: Vec<u8>,
    /// Budget held for the payload.
    pub grant: Option<MemoryGrant>,
    /// Budget held for a long body and its decoded form.
    pub body_grant: Option<MemoryGrant>,
}

/// Length of a body that is accepted without budget, in bytes: enough for a session without any
/// other memory to send a request.
const FREE_BODY: usize = 512;

/// Why there is no frame.
#[derive(Debug)]
pub enum NoFrame {
    /// No more data have arrived yet.
    Later,
    /// The service has no memory for the payload at the moment.
    Starved,
    /// The peer closed the connection.
    End,
    /// The connection failed.
    Broken(io::Error),
    /// The peer violated the protocol.
    Violation(String),
}

impl From<BadHeader> for NoFrame {
    fn from(bad: BadHeader) -> Self {
        Self::Violation(bad.to_string())
    }
}

#[derive(Debug)]
enum BodyProgress {
    Header,
    Body {
        raw: [u8; HEADER],
        header: Header,
        grant: Option<MemoryGrant>,
    },
    Payload(Frame),
}

/// The receiving side of a session.
#[derive(Debug)]
pub struct Input {
    staging: Box<[u8]>,
    from: usize,
    to: usize,
    progress: BodyProgress,
    body: Vec<u8>,
}

impl Default for Input {
    fn default() -> Self {
        let staging = vec![0; STAGING].into_boxed_slice();
        Self {
            staging,
            from: 0,
            to: 0,
            progress: BodyProgress::Header,
            body: Vec::new(),
        }
    }
}

impl Input {
    /// Returns the next frame, if the rest of it is available.
    ///
    /// # Errors
    /// Why there is none.
    pub fn next(
        &mut self,
        channel: &mut Channel,
        limits: Limits,
        tagger: &mut Option<Tagger>,
        account: &Account,
    ) -> Result<Frame, NoFrame> {
        loop {
            match std::mem::replace(&mut self.progress, BodyProgress::Header) {
                BodyProgress::Header => {
                    let mut raw = [0; HEADER];
                    if self.staged() < HEADER {
                        self.stage(channel)?;
                        continue;
                    }
                    raw.copy_from_slice(self.take(HEADER));
                    let header = Header::parse(&raw, limits)?;
                    self.body.clear();
                    self.progress = BodyProgress::Body {
                        raw,
                        header,
                        grant: None,
                    };
                }
                BodyProgress::Body {
                    raw,
                    header,
                    mut grant,
                } => {
                    let length = header.body as usize;
                    if length > FREE_BODY && grant.is_none() {
                        // The bytes, and about as much again for their decoded form.
                        grant = account.take(2 * length);
                        if grant.is_none() {
                            self.progress = BodyProgress::Body { raw, header, grant };
                            return Err(NoFrame::Starved);
                        }
                    }
                    let needed = header.body as usize + if tagger.is_some() { TAG } else { 0 };
                    let missing = needed - self.body.len();
                    let staged = self.staged().min(missing);
                    let range = self.from..self.from + staged;
                    self.from += staged;
                    self.body.extend_from_slice(&self.staging[range]);
                    if staged < missing {
                        self.progress = BodyProgress::Body { raw, header, grant };
                        self.stage(channel)?;
                        continue;
                    }
                    self.progress =
                        BodyProgress::Payload(self.finish_body(&raw, header, tagger, grant)?);
                }
                BodyProgress::Payload(mut frame) => {
                    let length = frame.header.payload as usize;
                    if length > 0 && frame.grant.is_none() {
                        frame.grant = account.take(length);
                        if frame.grant.is_none() {
                            self.progress = BodyProgress::Payload(frame);
                            return Err(NoFrame::Starved);
                        }
                        frame.payload.reserve_exact(length);
                    }
                    if let Err(why) = self.fill_payload(channel, &mut frame) {
                        self.progress = BodyProgress::Payload(frame);
                        return Err(why);
                    }
                    return Ok(frame);
                }
            }
        }
    }

    /// Returns whether part of the next frame has arrived.
    pub fn has_begun(&self) -> bool {
        self.staged() > 0
    }

    /// Returns the length of an incomplete frame that the client has begun to send, in bytes. A
    /// frame that waits for the service's memory does not count.
    pub fn owed(&self) -> Option<usize> {
        match &self.progress {
            BodyProgress::Header => (self.staged() > 0).then_some(HEADER),
            BodyProgress::Body { header, grant, .. } => {
                let waits = header.body as usize > FREE_BODY && grant.is_none();
                (!waits).then_some(header.body as usize)
            }
            BodyProgress::Payload(frame) => {
                let waits = frame.header.payload > 0 && frame.grant.is_none();
                (!waits).then_some(frame.header.payload as usize)
            }
        }
    }

    fn finish_body(
        &mut self,
        raw: &[u8; HEADER],
        header: Header,
        tagger: &mut Option<Tagger>,
        body_grant: Option<MemoryGrant>,
    ) -> Result<Frame, NoFrame> {
        let mut body = std::mem::take(&mut self.body);
        if let Some(tagger) = tagger {
            let tag = body.split_off(header.body as usize);
            if !tagger.verify(raw, &body, &tag) {
                return Err(NoFrame::Violation(
                    "a frame has an invalid tag: it was changed in transit".into(),
                ));
            }
        }
        Ok(Frame {
            header,
            body,
            payload: Vec::new(),
            grant: None,
            body_grant,
        })
    }

    fn fill_payload(&mut self, channel: &mut Channel, frame: &mut Frame) -> Result<(), NoFrame> {
        let length = frame.header.payload as usize;
        while frame.payload.len() < length {
            let missing = length - frame.payload.len();
            if self.staged() > 0 {
                let staged = self.staged().min(missing);
                let range = self.from..self.from + staged;
                self.from += staged;
                frame.payload.extend_from_slice(&self.staging[range]);
                continue;
            }
            if received(channel.receive_more(&mut frame.payload, missing))? == 0 {
                return Err(NoFrame::End);
            }
        }
        Ok(())
    }

    fn staged(&self) -> usize {
        self.to - self.from
    }

    fn take(&mut self, count: usize) -> &[u8] {
        let taken = &self.staging[self.from..self.from + count];
        self.from += count;
        taken
    }

    fn stage(&mut self, channel: &mut Channel) -> Result<(), NoFrame> {
        self.staging.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        match received(channel.receive(&mut self.staging[self.to..]))? {
            0 => Err(NoFrame::End),
            more => {
                self.to += more;
                Ok(())
            }
        }
    }
}

fn received(result: io::Result<usize>) -> Result<usize, NoFrame> {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => NoFrame::Later,
        _ => NoFrame::Broken(error),
    })
}

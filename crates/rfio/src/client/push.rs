//! Writes ahead: several requests under way.

use std::collections::VecDeque;

use verbena_rfio_protocol::types::Handle;

use super::data::PARTS;
use super::error::Error;
use super::pull::AHEAD_BY_STREAM;
use super::session::Session;
use super::transfer::{WriteTicket, send_write, take_written};

/// Writes of one file under way on one session. Nobody else uses the session before [`Writes::finish`].
#[derive(Debug)]
pub struct Writes {
    handle: Handle,
    due: VecDeque<WriteTicket>,
    most: usize,
    /// The part of the offering area that the next write takes.
    part: usize,
}

impl Writes {
    /// Writes to `handle`, with what the session allows.
    pub fn new(session: &Session, handle: Handle) -> Self {
        Self {
            handle,
            due: VecDeque::new(),
            most: (session.terms().most_payload as usize / PARTS).max(1),
            part: 0,
        }
    }

    /// Starts to write everything at an offset; waits for earlier writes first if too many are under way.
    pub fn start(&mut self, session: &mut Session, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (index, chunk) in bytes.chunks(self.most).enumerate() {
            let ahead = match session.uses_fabric() {
                // As many as the memory that the server reads from has parts.
                true => PARTS,
                false => AHEAD_BY_STREAM,
            };
            while self.due.len() >= ahead.min(session.terms().most_requests as usize) {
                self.take(session)?;
            }
            let part = self.part;
            self.part = (part + 1) % PARTS;
            let at = offset + (index * self.most) as u64;
            let ticket = send_write(session, self.handle, at, chunk, part)?;
            self.due.push_back(ticket);
        }
        Ok(())
    }

    /// Waits for all of them; the first error, if any.
    pub fn finish(&mut self, session: &mut Session) -> Result<(), Error> {
        let mut first = None;
        while !self.due.is_empty() {
            if let Err(error) = self.take(session) {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn take(&mut self, session: &mut Session) -> Result<(), Error> {
        match self.due.pop_front() {
            Some(ticket) => take_written(session, ticket),
            None => Ok(()),
        }
    }
}

/// The same, for somebody who has the session to itself.
#[derive(Debug)]
pub struct Push<'a> {
    session: &'a mut Session,
    writes: Writes,
}

impl<'a> Push<'a> {
    /// Writes to `handle`.
    pub fn new(session: &'a mut Session, handle: Handle) -> Self {
        let writes = Writes::new(session, handle);
        Self { session, writes }
    }

    /// Largest single write, in bytes.
    pub fn most(&self) -> u32 {
        self.writes.most as u32
    }

    /// Starts a write; waits for an earlier one first if too many are under way.
    pub fn start(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.writes.start(self.session, offset, bytes)
    }

    /// Waits for all of them; the first error, if any.
    pub fn finish(mut self) -> Result<(), Error> {
        self.writes.finish(self.session)
    }
}

/// Writes everything at an offset.
pub fn write_fully(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Error> {
    let mut writes = Writes::new(session, handle);
    let started = writes.start(session, offset, bytes);
    // What is under way is taken in any case, so that the session stays in step.
    let finished = writes.finish(session);
    started.and(finished)
}

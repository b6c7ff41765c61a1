//! Writes ahead: several requests under way.

use std::collections::VecDeque;

use verbena_rfio_protocol::types::Handle;

use super::data::PARTS;
use super::error::Error;
use super::session::Session;
use super::transfer::{WriteTicket, send_write, take_written};

/// Writes of one file under way on one session.
#[derive(Debug)]
pub struct Push<'a> {
    session: &'a mut Session,
    handle: Handle,
    due: VecDeque<WriteTicket>,
    most: u32,
    /// The part of the offering area that the next write takes.
    part: usize,
}

impl<'a> Push<'a> {
    /// Writes to `handle`.
    pub fn new(session: &'a mut Session, handle: Handle) -> Self {
        let most = (session.terms().most_payload / PARTS as u32).max(1);
        Self {
            session,
            handle,
            due: VecDeque::new(),
            most,
            part: 0,
        }
    }

    /// Largest single write.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Starts a write; waits for an earlier one first if too many are under way.
    pub fn start(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        while self.due.len() >= PARTS.min(self.session.terms().most_requests as usize) {
            self.take()?;
        }
        let part = self.part;
        self.part = (part + 1) % PARTS;
        let ticket = send_write(self.session, self.handle, offset, bytes, part)?;
        self.due.push_back(ticket);
        Ok(())
    }

    /// Waits for all of them; the first error, if any.
    pub fn finish(mut self) -> Result<(), Error> {
        let mut first = None;
        while !self.due.is_empty() {
            if let Err(error) = self.take() {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }

    fn take(&mut self) -> Result<(), Error> {
        match self.due.pop_front() {
            Some(ticket) => take_written(self.session, ticket),
            None => Ok(()),
        }
    }
}

/// Writes everything at an offset.
pub fn write_fully(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    bytes: &[u8],
) -> Result<(), Error> {
    let mut push = Push::new(session, handle);
    let most = push.most() as usize;
    for (index, chunk) in bytes.chunks(most).enumerate() {
        if let Err(error) = push.start(offset + (index * most) as u64, chunk) {
            // What is under way is taken, so that the session stays in step.
            let _ = push.finish();
            return Err(error);
        }
    }
    push.finish()
}

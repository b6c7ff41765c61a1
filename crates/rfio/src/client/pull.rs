//! Reads ahead: several requests under way, data in order. What a copy, a pipe and a large read are made of.

use std::collections::VecDeque;

use verbena_rfio_protocol::reply::ReadDone;
use verbena_rfio_protocol::types::Handle;

use super::bounds::Wait;
use super::data::PARTS;
use super::error::Error;
use super::session::Session;
use super::transfer::{Place, Ticket, content, send_read, settle, take_read};

/// Reads under way by RDMA: one comes while the one before is looked at. More would only spread what lands over more
/// memory than the processor's caches hold, when many readers share a host.
const AHEAD_BY_RDMA: usize = 2;

/// Reads or writes under way in the connection: with the server's usual limits 16 MiB, which fill a way of 20 ms there and back
/// at 6 Gbit/s. The server takes no more of them at a time than it has memory for.
pub(super) const AHEAD_BY_STREAM: usize = 16;

/// A range that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulled {
    /// Where in the file.
    pub offset: u64,
    /// Bytes; fewer than were asked for only where the file ends.
    pub length: usize,
    /// Whether the file ends after them.
    pub end: bool,
}

/// Reads of one file under way on one session.
#[derive(Debug)]
pub struct Pull<'a> {
    session: &'a mut Session,
    handle: Handle,
    version: Option<u64>,
    due: VecDeque<Ticket>,
    most: u32,
    /// The part of the landing area that the next read takes.
    part: usize,
}

impl<'a> Pull<'a> {
    /// Reads of `handle`. With a `version`, data of any other version of the file are an error.
    pub fn new(session: &'a mut Session, handle: Handle, version: Option<u64>) -> Self {
        let most = (session.terms().most_payload / PARTS as u32).max(1);
        Self {
            session,
            handle,
            version,
            due: VecDeque::new(),
            most,
            part: 0,
        }
    }

    /// Largest single read.
    pub fn most(&self) -> u32 {
        self.most
    }

    /// Whether one more may be started.
    pub fn has_room(&self) -> bool {
        self.due.len()
            < self
                .ahead()
                .min(self.session.terms().most_requests as usize)
    }

    /// Reads that may be under way, and parts of the landing area that they take in turn.
    fn ahead(&self) -> usize {
        match self.session.uses_fabric() {
            true => AHEAD_BY_RDMA,
            false => AHEAD_BY_STREAM,
        }
    }

    /// Bytes of the oldest that is under way.
    pub fn oldest(&self) -> Option<u32> {
        self.due.front().map(|ticket| ticket.length)
    }

    /// Starts one.
    pub fn start(&mut self, offset: u64, length: u32) -> Result<(), Error> {
        debug_assert!(self.has_room() && length <= self.most);
        let ticket = send_read(self.session, self.handle, offset, length, self.part)?;
        self.part = (self.part + 1) % self.ahead();
        self.due.push_back(ticket);
        Ok(())
    }

    /// Waits for the oldest, its data to the front of `into`; `None` when none is under way.
    ///
    /// What a busy server left out is asked for again at once, before anything that was started later, so the data stay
    /// in order.
    pub fn finish_oldest(&mut self, into: &mut [u8]) -> Result<Option<Pulled>, Error> {
        let Some(ticket) = self.due.pop_front() else {
            return Ok(None);
        };
        let (done, place) = self.take(ticket, into)?;
        settle(self.session, ticket.offset, &done, place, into)?;
        self.complete(ticket, &done, into).map(Some)
    }

    /// The same, with the data where they came: in the landing area, or in `aside`.
    pub fn finish_in_place<'b>(
        &'b mut self,
        aside: &'b mut [u8],
    ) -> Result<Option<(Pulled, &'b [u8])>, Error> {
        let Some(ticket) = self.due.pop_front() else {
            return Ok(None);
        };
        let (done, place) = self.take(ticket, aside)?;
        if done.length < ticket.length && !done.end {
            settle(self.session, ticket.offset, &done, place, aside)?;
            let pulled = self.complete(ticket, &done, aside)?;
            return Ok(Some((pulled, &aside[..pulled.length])));
        }
        let pulled = Pulled {
            offset: ticket.offset,
            length: done.length as usize,
            end: done.end,
        };
        let data = content(self.session, ticket.offset, &done, place, aside)?;
        Ok(Some((pulled, data)))
    }

    /// Asks for what a short answer left out, until it is there.
    fn complete(
        &mut self,
        ticket: Ticket,
        done: &ReadDone,
        into: &mut [u8],
    ) -> Result<Pulled, Error> {
        let (offset, length) = (ticket.offset, ticket.length);
        let (mut filled, mut end) = (done.length as usize, done.end);
        // Many short answers may take no longer than one long one.
        let mut wait = Wait::new(self.session.patience());
        while filled < length as usize && !end {
            if wait.is_over() {
                return Err(Error::TimedOut);
            }
            let later: Vec<Ticket> = self.due.drain(..).collect();
            for &ticket in &later {
                let mut aside = vec![0; ticket.length as usize];
                let _ = take_read(self.session, ticket, &mut aside)?;
            }
            self.start(offset + filled as u64, length - filled as u32)?;
            if let Some(ticket) = self.due.pop_front() {
                let rest = &mut into[filled..];
                let (done, place) = self.take(ticket, rest)?;
                settle(self.session, ticket.offset, &done, place, rest)?;
                filled += done.length as usize;
                wait.count(done.length as usize);
                end = done.end;
            }
            for ticket in later {
                self.start(ticket.offset, ticket.length)?;
            }
        }
        Ok(Pulled {
            offset,
            length: filled,
            end,
        })
    }

    fn take(&mut self, ticket: Ticket, into: &mut [u8]) -> Result<(ReadDone, Place), Error> {
        let (done, place) = take_read(self.session, ticket, into)?;
        match self.version {
            Some(version) if version != done.version => Err(Error::Changed),
            _ => Ok((done, place)),
        }
    }
}

/// Fills a buffer from a file, from an offset on, until it is full or the file ends.
pub fn read_fully(
    session: &mut Session,
    handle: Handle,
    offset: u64,
    bytes: &mut [u8],
) -> Result<usize, Error> {
    let mut pull = Pull::new(session, handle, None);
    let (mut started, mut filled, mut ended) = (0, 0, false);
    loop {
        while !ended && started < bytes.len() && pull.has_room() {
            let length = (bytes.len() - started).min(pull.most() as usize);
            pull.start(offset + started as u64, length as u32)?;
            started += length;
        }
        // Reads beyond the end are under way when it is found; they come in, empty.
        let Some(oldest) = pull.oldest() else {
            return Ok(filled);
        };
        let from = filled.min(bytes.len() - oldest as usize);
        let place = if ended {
            &mut vec![0; oldest as usize][..]
        } else {
            &mut bytes[from..]
        };
        if let Some(pulled) = pull.finish_oldest(place)?
            && !ended
        {
            filled += pulled.length;
            ended = pulled.end;
        }
    }
}

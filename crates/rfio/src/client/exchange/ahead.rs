//! Reads and writes of one file ahead of their answers: what a copy is made of.

use std::collections::VecDeque;

use super::{Errand, SharedFile, Ticket};
use crate::client::error::Error;

/// Reads under way by RDMA: one comes while the one before is looked at. More would only spread
/// what
/// lands over more memory than the processor's caches hold, when many readers share a host.
const AHEAD_BY_RDMA: usize = 2;

/// Reads or writes under way in the connection: with the server's usual limits 16 MiB, which fill a
/// way of 20 ms there and back at 6 Gbit/s. The server takes no more of them at a time than it has
/// memory for.
const AHEAD_BY_STREAM: usize = 16;

/// Writes under way by RDMA: as many as the memory that the server reads from has parts.
const WRITES_BY_RDMA: usize = crate::client::data::PARTS;

/// How many may be under way.
fn ahead(file: &SharedFile, by_rdma: usize) -> usize {
    let most = match file.exchange().uses_fabric() {
        true => by_rdma,
        false => AHEAD_BY_STREAM,
    };
    most.min(file.exchange().terms().most_requests as usize)
}

/// Reads under way.
#[derive(Debug)]
pub struct Reads<'a> {
    file: &'a SharedFile,
    version: Option<u64>,
    /// Where, how many bytes, and the read.
    due: VecDeque<(u64, u32, Ticket)>,
}

impl<'a> Reads<'a> {
    /// Of a file; with a version, data of any other are an error.
    pub fn of(file: &'a SharedFile, version: Option<u64>) -> Self {
        Self {
            file,
            version,
            due: VecDeque::new(),
        }
    }

    /// Whether one more may be started.
    pub fn has_room(&self) -> bool {
        self.due.len() < ahead(self.file, AHEAD_BY_RDMA)
    }

    /// Starts one, of at most [`super::Exchange::most_at_once`] bytes.
    pub fn start(&mut self, offset: u64, length: u32) -> Result<(), Error> {
        let errand = Errand::Chunk {
            handle: self.file.handle(),
            offset,
            length,
            version: self.version,
        };
        let ticket = self.file.begin(errand, Vec::new())?;
        self.due.push_back((offset, length, ticket));
        Ok(())
    }

    /// Looks at the oldest when it has come: its place, the bytes that were asked for, and the
    /// data,
    /// which are fewer only where the file ends. `None` if none is under way.
    pub fn finish_oldest<T>(
        &mut self,
        mut look: impl FnMut(u64, u32, &[u8]) -> T,
    ) -> Result<Option<T>, Error> {
        match self.due.pop_front() {
            Some((offset, length, ticket)) => {
                ticket.look(|data| look(offset, length, data)).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Writes under way.
#[derive(Debug, Default)]
pub struct Writes {
    due: VecDeque<Ticket>,
}

impl Writes {
    /// Starts to write everything at an offset; waits for earlier writes first if too many are
    /// under way. The bytes have left when this returns.
    pub fn start(&mut self, file: &SharedFile, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let most = file.exchange().most_at_once();
        for (index, chunk) in bytes.chunks(most).enumerate() {
            while self.due.len() >= ahead(file, WRITES_BY_RDMA) {
                self.finish_oldest()?;
            }
            let errand = Errand::Write {
                handle: file.handle(),
                offset: offset + (index * most) as u64,
            };
            self.due.push_back(file.exchange().lend(errand, chunk)?);
        }
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), Error> {
        match self.due.pop_front() {
            Some(ticket) => ticket.wait()?.outcome.map(drop),
            None => Ok(()),
        }
    }

    /// Waits for all of them; the first error, if any.
    pub fn finish(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        while !self.due.is_empty() {
            first = first.and(self.finish_oldest());
        }
        first
    }
}

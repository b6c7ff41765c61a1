//! Pipelined reads and writes of one file, for copies.

use std::collections::VecDeque;

use super::{Errand, SharedFile, Ticket};
use crate::error::Error;

/// Maximum number of reads in flight by RDMA: one arrives while the previous one is consumed. If
/// many readers share a host, more would only spread received data over more memory than the
/// processor's caches hold.
const AHEAD_BY_RDMA: usize = 2;

/// Maximum number of reads or writes in flight in the connection: with the server's default limits
/// 16 MiB, which fill a round-trip time of 20 ms at 6 Gbit/s. The server accepts no more of them at
/// a time than it has memory for.
const AHEAD_BY_STREAM: usize = 16;

/// Maximum number of writes in flight by RDMA: the number of parts of the memory that the server
/// reads from.
const WRITES_BY_RDMA: usize = crate::data::PARTS;

/// Returns how many operations may be in flight.
fn ahead(file: &SharedFile, by_rdma: usize) -> usize {
    let most = match file.exchange().uses_fabric() {
        true => by_rdma,
        false => AHEAD_BY_STREAM,
    };
    most.min(file.exchange().terms().most_requests as usize)
}

/// Reads in flight.
#[derive(Debug)]
pub struct Reads<'a> {
    file: &'a SharedFile,
    version: Option<u64>,
    /// Offset, length in bytes, and ticket of each read.
    due: VecDeque<(u64, u32, Ticket)>,
}

impl<'a> Reads<'a> {
    /// Creates an empty queue of reads of a file; with a version, data of any other version are an
    /// error.
    pub fn of(file: &'a SharedFile, version: Option<u64>) -> Self {
        Self {
            file,
            version,
            due: VecDeque::new(),
        }
    }

    /// Returns whether another read may be started.
    pub fn has_room(&self) -> bool {
        self.due.len() < ahead(self.file, AHEAD_BY_RDMA)
    }

    /// Starts a read of at most [`super::Exchange::most_at_once`] bytes.
    ///
    /// # Errors
    /// As [`super::Exchange::begin`].
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

    /// Waits for the oldest read and passes it to `look`: its offset, the requested length, and the
    /// data, which are shorter only at the end of the file. Returns `None` if none is in flight.
    ///
    /// # Errors
    /// The read failed.
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

/// Writes in flight.
#[derive(Debug, Default)]
pub struct Writes {
    due: VecDeque<Ticket>,
}

impl Writes {
    /// Starts to write all bytes at an offset; first waits for earlier writes if too many are in
    /// flight. The bytes have been sent when this returns.
    ///
    /// # Errors
    /// A write failed.
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

    /// Waits for all writes.
    ///
    /// # Errors
    /// The first error of a write.
    pub fn finish(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        while !self.due.is_empty() {
            first = first.and(self.finish_oldest());
        }
        first
    }
}

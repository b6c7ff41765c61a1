//! Pipelined reads and writes of one file, for copies.

use std::collections::VecDeque;

use super::{Operation, PendingOperation, SharedFile};
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
const WRITES_BY_RDMA: usize = crate::area::PARTS;

/// Returns how many operations may be in flight.
fn ahead(file: &SharedFile, by_rdma: usize) -> usize {
    let most = match file.connection().uses_fabric() {
        true => by_rdma,
        false => AHEAD_BY_STREAM,
    };
    most.min(file.connection().server_limits().most_requests as usize)
}

/// Reads in flight.
#[derive(Debug)]
pub struct PipelinedReads<'a> {
    file: &'a SharedFile,
    version: Option<u64>,
    /// Offset, length in bytes, and ticket of each read.
    due: VecDeque<(u64, u32, PendingOperation)>,
}

impl<'a> PipelinedReads<'a> {
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

    /// Starts a read of at most [`super::MultiplexedConnection::max_request_bytes`] bytes.
    ///
    /// # Errors
    /// As [`super::MultiplexedConnection::begin`].
    pub fn start(&mut self, offset: u64, length: u32) -> Result<(), Error> {
        let operation = Operation::Chunk {
            handle: self.file.handle(),
            offset,
            length,
            version: self.version,
        };
        let pending = self.file.begin(operation, Vec::new())?;
        self.due.push_back((offset, length, pending));
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
            Some((offset, length, pending)) => {
                pending.look(|data| look(offset, length, data)).map(Some)
            }
            None => Ok(None),
        }
    }
}

/// Writes in flight.
#[derive(Debug, Default)]
pub struct PipelinedWrites {
    due: VecDeque<PendingOperation>,
}

impl PipelinedWrites {
    /// Starts to write all bytes at an offset; first waits for earlier writes if too many are in
    /// flight. The bytes have been sent when this returns.
    ///
    /// # Errors
    /// A write failed.
    pub fn start(&mut self, file: &SharedFile, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let most = file.connection().max_request_bytes();
        for (index, chunk) in bytes.chunks(most).enumerate() {
            while self.due.len() >= ahead(file, WRITES_BY_RDMA) {
                self.finish_oldest()?;
            }
            let operation = Operation::Write {
                handle: file.handle(),
                offset: offset + (index * most) as u64,
            };
            self.due
                .push_back(file.connection().begin_borrowed(operation, chunk)?);
        }
        Ok(())
    }

    fn finish_oldest(&mut self) -> Result<(), Error> {
        match self.due.pop_front() {
            Some(pending) => pending.wait()?.outcome.map(drop),
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

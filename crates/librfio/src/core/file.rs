//! An open remote file with a position, a buffer, and the ranges announced by `rfio_preseek`.
//!
//! Analysis programs announce a list of ranges and then seek and read them in this order. The list
//! is fetched with one vector read; reads within an announced range are served from memory.

use std::collections::VecDeque;
use std::time::Duration;

use verbena_rfio_auth::ticket;
use verbena_rfio_client::backoff::Backoff;
use verbena_rfio_client::connection::{Operation, OperationOutput, PendingOperation, SharedFile};
use verbena_rfio_client::open_flags::protocol_flags;
use verbena_rfio_client::{Address, Error};
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::{Attributes, Path, Range};

use super::async_connections;
use super::caller_buffer::CallerBuffer;
use super::read_ahead::{ReadAhead, ReadMode};
use super::sessions;
use crate::ffi::invalid;

/// Data that was read ahead.
struct Prefetched {
    offset: u64,
    bytes: Vec<u8>,
    /// Whether it has the requested length, so that the file may continue.
    is_full: bool,
}

/// A read in progress, while the program reads the data of earlier ones.
struct PendingRead {
    offset: u64,
    length: usize,
    pending: PendingOperation,
}

/// The announced and fetched ranges, in the order of the list.
#[derive(Default)]
struct AnnouncedRanges {
    /// The data of all ranges, concatenated; the memory is reused for the next list.
    packed: Vec<u8>,
    /// Offset in the file, position in `packed`, length.
    ranges: VecDeque<(u64, usize, usize)>,
}

impl AnnouncedRanges {
    /// Returns the bytes of a read, if they are within one of the ranges. Lists are read in order,
    /// so the ranges before that one are dropped.
    fn take(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let holds = |&(start, at, have): &(u64, usize, usize)| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            (from.checked_add(length)? <= have).then_some(at + from)
        };
        let (index, from) = self
            .ranges
            .iter()
            .enumerate()
            .find_map(|(index, prefetched)| holds(prefetched).map(|from| (index, from)))?;
        self.ranges.drain(..index);
        self.packed.get(from..from + length)
    }

    fn clear(&mut self) {
        self.ranges.clear();
    }
}

/// The origin of an open file: the arguments for opening it again.
#[derive(Debug, Clone)]
pub struct FileOrigin {
    address: Address,
    path: Path,
    flags: i32,
    reading: ReadMode,
    /// How long a read is retried after the connection is lost; zero disables it.
    timeout: Duration,
    /// Device and inode on the server.
    identity: (u64, u64),
    credentials: Credentials,
}

/// The credentials for opening the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Credentials {
    /// The user's identity, which can be used repeatedly.
    Identity,
    /// A ticket, which was consumed when the file was opened.
    Ticket,
}

impl FileOrigin {
    /// Opens the same file on the connection of asynchronous requests.
    ///
    /// # Errors
    /// Those of opening; [`Error::Changed`] if the name now refers to another file.
    pub fn open_async(&self) -> Result<SharedFile, Error> {
        self.can_be_opened_again()?;
        // O_APPEND concerns the position of the classic calls; asynchronous requests have an
        // offset.
        let flags = self.flags & (libc::O_ACCMODE | libc::O_NOFOLLOW);
        let wanted = protocol_flags(flags)?;
        let connection = async_connections::connection(&self.address)?;
        SharedFile::reopen(connection, &self.path, wanted, self.identity)
    }

    fn can_be_opened_again(&self) -> Result<(), Error> {
        match self.credentials {
            Credentials::Identity => Ok(()),
            Credentials::Ticket => Err(Error::Local(
                "a file opened by a ticket cannot be reopened; request another ticket".into(),
                std::io::Error::from_raw_os_error(libc::EOPNOTSUPP),
            )),
        }
    }
}

/// An open file.
pub struct OpenFile {
    remote: SharedFile,
    position: u64,
    appends: bool,
    read_ahead: ReadAhead,
    prefetched: Option<Prefetched>,
    /// In order, without gaps, from the end of `ahead` on.
    pending_reads: VecDeque<PendingRead>,
    announced: AnnouncedRanges,
    origin: FileOrigin,
}

impl OpenFile {
    /// Opens a remote file with open(2)'s flags.
    ///
    /// # Errors
    /// Those of connecting and opening.
    pub fn open(
        address: &Address,
        path: &Path,
        flags: i32,
        mode: u32,
        reading: ReadMode,
    ) -> Result<Self, Error> {
        let wanted = protocol_flags(flags)?;
        let timeout = reading.timeout()?;
        let remote = sessions::open(address, path, wanted, mode)?;
        let origin = FileOrigin {
            address: address.clone(),
            path: path.clone(),
            flags,
            reading,
            timeout,
            identity: remote.identity(),
            credentials: Credentials::Identity,
        };
        Ok(Self::from_remote(remote, origin))
    }

    /// Opens the file of a ticket, with the ticket's access mode.
    ///
    /// # Errors
    /// Those of connecting and opening.
    pub fn redeem(
        address: &Address,
        ticket: ticket::Ticket,
        reading: ReadMode,
    ) -> Result<Self, Error> {
        let (path, wanted) = (ticket.claims.path.clone(), ticket.claims.access);
        let remote = sessions::redeem(address, ticket)?;
        let origin = FileOrigin {
            address: address.clone(),
            path,
            flags: match wanted & OpenFlags::WRITE {
                0 => libc::O_RDONLY,
                _ => libc::O_RDWR,
            },
            reading,
            timeout: Duration::ZERO,
            identity: remote.identity(),
            credentials: Credentials::Ticket,
        };
        Ok(Self::from_remote(remote, origin))
    }

    fn from_remote(remote: SharedFile, origin: FileOrigin) -> Self {
        Self {
            remote,
            position: 0,
            appends: origin.flags & libc::O_APPEND != 0,
            read_ahead: ReadAhead::new(origin.reading),
            prefetched: None,
            pending_reads: VecDeque::new(),
            announced: AnnouncedRanges::default(),
            origin,
        }
    }

    /// Opens the same file again, with this position.
    ///
    /// # Errors
    /// Those of opening; [`Error::Changed`] if the name now refers to another file.
    pub fn reopen(origin: &FileOrigin, position: u64) -> Result<Self, Error> {
        origin.can_be_opened_again()?;
        let flags = origin.flags & !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
        let mut file = Self::open(&origin.address, &origin.path, flags, 0, origin.reading)?;
        if file.origin.identity != origin.identity {
            return Err(Error::Changed);
        }
        file.position = position;
        Ok(file)
    }

    /// Returns its origin.
    pub fn origin(&self) -> &FileOrigin {
        &self.origin
    }

    /// Reads at the position and advances it.
    pub fn read(&mut self, bytes: &mut [u8]) -> Result<usize, Error> {
        let read = self.read_at(self.position, bytes)?;
        self.position += read as u64;
        Ok(read)
    }

    /// Reads at an offset, from an announced range or from the server, without using the position
    /// or the buffer.
    pub fn read_positioned(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        match self.announced.take(offset, bytes.len()) {
            Some(found) => {
                bytes.copy_from_slice(found);
                Ok(bytes.len())
            }
            None => self.fill(offset, bytes),
        }
    }

    /// Fills `bytes` from the server, until they are full or the file ends.
    fn fill(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let handle = self.remote.handle();
        // SAFETY: `wait` below ends the request, and `bytes` is borrowed until then.
        let memory = unsafe { CallerBuffer::writable(bytes) };
        let pending = self
            .remote
            .begin(Operation::Read { handle, offset }, memory)?;
        match pending.wait()?.outcome? {
            OperationOutput::Read(read) => Ok(read),
            _ => Err(Error::Dropped("before it replied")),
        }
    }

    /// Writes all of `bytes` to the server.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let handle = self.remote.handle();
        // SAFETY: `wait` below ends the request, `bytes` is borrowed until then, and a write only
        // reads them.
        let memory = unsafe { CallerBuffer::read_only(bytes) };
        let pending = self
            .remote
            .begin(Operation::Write { handle, offset }, memory)?;
        pending.wait()?.outcome.map(|_| ())
    }

    /// Reads at an offset. If the connection is lost, the read is retried over another one where
    /// the file's options say so.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut read = self.read_once(offset, bytes);
        let mut backoff = None;
        while let Err(error) = &read {
            let is_only_read = self.origin.flags & libc::O_ACCMODE == libc::O_RDONLY;
            let backoff = backoff.get_or_insert_with(Backoff::default);
            if !is_only_read || !error.is_transient() || !backoff.has_time(self.origin.timeout) {
                break;
            }
            backoff.wait(self.origin.timeout);
            read = self
                .reopen_remote()
                .and_then(|()| self.read_once(offset, bytes));
        }
        read
    }

    /// Opens the file on another connection; fetched data is kept. It must still be the same file.
    fn reopen_remote(&mut self) -> Result<(), Error> {
        self.pending_reads.clear();
        self.read_ahead.restart();
        let wanted = protocol_flags(self.origin.flags & (libc::O_ACCMODE | libc::O_NOFOLLOW))?;
        let remote = sessions::open(&self.origin.address, &self.origin.path, wanted, 0)?;
        match remote.identity() == self.origin.identity {
            true => {
                self.remote = remote;
                Ok(())
            }
            false => Err(Error::Changed),
        }
    }

    fn read_once(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        if let Some(found) = self.announced.take(offset, bytes.len()) {
            bytes.copy_from_slice(found);
            return Ok(bytes.len());
        }
        if bytes.is_empty() {
            return Ok(0);
        }
        if let Some(read) = self.read_kept(offset, bytes)? {
            return Ok(read);
        }
        let window = self.read_ahead.window(offset);
        let read = if bytes.len() >= window {
            self.fill(offset, bytes)?
        } else {
            let mut buffer = self
                .prefetched
                .take()
                .map_or_else(Vec::new, |prefetched| prefetched.bytes);
            buffer.resize(window, 0);
            let read = self.fill(offset, &mut buffer)?;
            buffer.truncate(read);
            let length = bytes.len().min(read);
            bytes[..length].copy_from_slice(&buffer[..length]);
            self.prefetched = Some(Prefetched {
                offset,
                is_full: read == window,
                bytes: buffer,
            });
            read
        };
        self.read_ahead.fetched(offset, read);
        Ok(read.min(bytes.len()))
    }

    /// Reads from fetched data or from reads in progress, if the read begins there.
    fn read_kept(&mut self, offset: u64, bytes: &mut [u8]) -> Result<Option<usize>, Error> {
        if !self.keeps(offset) {
            self.take_pending_read(offset)?;
        }
        let Some(prefetched) = self.prefetched.as_ref().filter(|_| self.keeps(offset)) else {
            return Ok(None);
        };
        let from = (offset - prefetched.offset) as usize;
        let there = &prefetched.bytes[from..];
        if there.len() >= bytes.len() {
            bytes.copy_from_slice(&there[..bytes.len()]);
            self.fetch_next();
            return Ok(Some(bytes.len()));
        }
        // If the rest is not in progress, the read starts over and fetches all of it at once.
        let end = prefetched.offset + prefetched.bytes.len() as u64;
        if self
            .pending_reads
            .front()
            .is_none_or(|pending_read| pending_read.offset != end)
        {
            return Ok(None);
        }
        let (first, rest) = bytes.split_at_mut(there.len());
        first.copy_from_slice(there);
        let first = first.len();
        Ok(Some(first + self.read_at(end, rest)?))
    }

    /// Returns whether the fetched data has the byte at an offset.
    fn keeps(&self, offset: u64) -> bool {
        self.prefetched.as_ref().is_some_and(|prefetched| {
            offset >= prefetched.offset
                && offset - prefetched.offset < prefetched.bytes.len() as u64
        })
    }

    /// Waits for the read in progress that contains an offset, and drops those before it; drops all
    /// if none contains it.
    fn take_pending_read(&mut self, offset: u64) -> Result<(), Error> {
        let pending_read = loop {
            let Some(pending_read) = self.pending_reads.pop_front() else {
                return Ok(());
            };
            if (pending_read.offset..pending_read.offset + pending_read.length as u64)
                .contains(&offset)
            {
                break pending_read;
            }
        };
        let done = pending_read.pending.wait()?;
        let OperationOutput::Read(read) = done.outcome? else {
            return Err(Error::Dropped("before it replied"));
        };
        let mut bytes = done.memory.into_bytes();
        bytes.truncate(read);
        if read < pending_read.length {
            // The file ends there.
            self.pending_reads.clear();
        }
        self.read_ahead.fetched(pending_read.offset, read);
        self.prefetched = Some(Prefetched {
            offset: pending_read.offset,
            is_full: read == pending_read.length,
            bytes,
        });
        Ok(())
    }

    /// Reads ahead while the program reads the fetched data, if its reads are sequential. Errors
    /// are left to the read that needs the data.
    fn fetch_next(&mut self) {
        let Some(prefetched) = &self.prefetched else {
            return;
        };
        if let Some(first) = self.pending_reads.front() {
            // Processes arrived replies, which frees space for more.
            let _ = first.pending.is_done();
        }
        let (wanted, length) = (
            self.read_ahead.bytes_in_progress(),
            self.read_ahead.request_bytes(),
        );
        let mut end = prefetched.offset + prefetched.bytes.len() as u64;
        let mut in_progress = 0;
        for pending_read in &self.pending_reads {
            in_progress += pending_read.length;
            end = pending_read.offset + pending_read.length as u64;
        }
        // A read that was shorter than requested has reached the end of the file.
        while in_progress + length <= wanted && prefetched.is_full {
            let operation = Operation::Read {
                handle: self.remote.handle(),
                offset: end,
            };
            let Ok(pending) = self.remote.begin(operation, vec![0; length]) else {
                return;
            };
            self.pending_reads.push_back(PendingRead {
                offset: end,
                length,
                pending,
            });
            in_progress += length;
            end += length as u64;
        }
    }

    /// Fetches the ranges that the program will read, in this order.
    ///
    /// # Errors
    /// Those of the vector read.
    pub fn announce(&mut self, ranges: &[Range]) -> Result<(), Error> {
        self.announced.clear();
        let lengths = self
            .remote
            .read_packed(ranges, &mut self.announced.packed)?;
        let mut at = 0;
        for (range, length) in ranges.iter().zip(lengths) {
            let length = length as usize;
            self.announced.ranges.push_back((range.offset, at, length));
            at += length;
        }
        Ok(())
    }

    /// Writes at the position, or at the end of a file opened for appending, and advances it.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        self.forget();
        if self.appends {
            self.position = self.remote.examine()?.size;
        }
        self.put(self.position, bytes)?;
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Writes at an offset, without using the position.
    pub fn write_positioned(&mut self, offset: u64, bytes: &[u8]) -> Result<usize, Error> {
        self.forget();
        self.put(offset, bytes)?;
        Ok(bytes.len())
    }

    /// Sets the length.
    pub fn truncate(&mut self, size: u64) -> Result<(), Error> {
        self.forget();
        self.remote.truncate(size)
    }

    /// Drops all fetched data, as the file was changed.
    pub fn forget(&mut self) {
        self.prefetched = None;
        self.pending_reads.clear();
        self.read_ahead.forget();
        self.announced.clear();
    }

    /// Moves the position.
    ///
    /// # Errors
    /// EINVAL for an invalid position; those of querying the size.
    pub fn seek(&mut self, offset: i64, whence: i32) -> Result<i64, Error> {
        let base = match whence {
            libc::SEEK_SET => 0,
            libc::SEEK_CUR => i64::try_from(self.position).map_err(|_| invalid("position"))?,
            libc::SEEK_END => {
                i64::try_from(self.remote.examine()?.size).map_err(|_| invalid("size"))?
            }
            _ => return Err(invalid("whence")),
        };
        let position = base
            .checked_add(offset)
            .filter(|&position| position >= 0)
            .ok_or_else(|| invalid("offset"))?;
        self.position = position as u64;
        Ok(position)
    }

    /// Returns the position of the next read or write.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the file's current attributes.
    pub fn examine(&self) -> Result<Attributes, Error> {
        self.remote.examine()
    }

    /// Returns the file without position.
    pub fn remote(&self) -> &SharedFile {
        &self.remote
    }

    /// Closes the file.
    ///
    /// # Errors
    /// Those of the server's close.
    pub fn close(mut self) -> Result<(), Error> {
        self.pending_reads.clear();
        self.remote.close()
    }
}

//! An open remote file with a position, a buffer, and the ranges announced by `rfio_preseek`.
//!
//! Analysis programs announce a list of ranges and then seek and read them in this order. The list
//! is fetched with one vector read; reads within an announced range are served from memory.

use std::collections::VecDeque;
use std::time::Duration;

use verbena_rfio_auth::ticket;
use verbena_rfio_client::backoff::Backoff;
use verbena_rfio_client::exchange::{Errand, Given, SharedFile, Ticket};
use verbena_rfio_client::open_flags::protocol_flags;
use verbena_rfio_client::{Address, Error};
use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::{Attributes, Path, Range};

use super::beside;
use super::foreign::Foreign;
use super::reading::{Course, Reading};
use super::sessions;
use crate::door::invalid;

/// Data that was read ahead.
struct Piece {
    offset: u64,
    bytes: Vec<u8>,
    /// Whether it has the requested length, so that the file may continue.
    is_full: bool,
}

/// A read in progress, while the program reads the data of earlier ones.
struct Coming {
    offset: u64,
    length: usize,
    ticket: Ticket,
}

/// The announced and fetched ranges, in the order of the list.
#[derive(Default)]
struct Announced {
    /// The data of all ranges, concatenated; the memory is reused for the next list.
    packed: Vec<u8>,
    /// Offset in the file, position in `packed`, length.
    pieces: VecDeque<(u64, usize, usize)>,
}

impl Announced {
    /// Returns the bytes of a read, if they are within one of the ranges. Lists are read in order,
    /// so the ranges before that one are dropped.
    fn take(&mut self, offset: u64, length: usize) -> Option<&[u8]> {
        let holds = |&(start, at, have): &(u64, usize, usize)| {
            let from = usize::try_from(offset.checked_sub(start)?).ok()?;
            (from.checked_add(length)? <= have).then_some(at + from)
        };
        let (index, from) = self
            .pieces
            .iter()
            .enumerate()
            .find_map(|(index, piece)| holds(piece).map(|from| (index, from)))?;
        self.pieces.drain(..index);
        self.packed.get(from..from + length)
    }

    fn clear(&mut self) {
        self.pieces.clear();
    }
}

/// The origin of an open file: the arguments for opening it again.
#[derive(Debug, Clone)]
pub struct Origin {
    address: Address,
    path: Path,
    flags: i32,
    reading: Reading,
    /// How long a read is retried after the connection is lost; zero disables it.
    patience: Duration,
    /// Device and inode on the server.
    identity: (u64, u64),
    entrance: Entrance,
}

/// The credentials for opening the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Entrance {
    /// The user's identity, which can be used repeatedly.
    Identity,
    /// A ticket, which was consumed when the file was opened.
    Ticket,
}

impl Origin {
    /// Opens the same file on the connection of asynchronous requests.
    ///
    /// # Errors
    /// Those of opening; [`Error::Changed`] if the name now refers to another file.
    pub fn open_beside(&self) -> Result<SharedFile, Error> {
        self.can_be_opened_again()?;
        // O_APPEND concerns the position of the classic calls; asynchronous requests have an
        // offset.
        let flags = self.flags & (libc::O_ACCMODE | libc::O_NOFOLLOW);
        let wanted = protocol_flags(flags)?;
        let exchange = beside::exchange(&self.address)?;
        SharedFile::again(exchange, &self.path, wanted, self.identity)
    }

    fn can_be_opened_again(&self) -> Result<(), Error> {
        match self.entrance {
            Entrance::Identity => Ok(()),
            Entrance::Ticket => Err(Error::Local(
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
    course: Course,
    ahead: Option<Piece>,
    /// In order, without gaps, from the end of `ahead` on.
    coming: VecDeque<Coming>,
    announced: Announced,
    origin: Origin,
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
        reading: Reading,
    ) -> Result<Self, Error> {
        let wanted = protocol_flags(flags)?;
        let patience = reading.patience()?;
        let remote = sessions::open(address, path, wanted, mode)?;
        let origin = Origin {
            address: address.clone(),
            path: path.clone(),
            flags,
            reading,
            patience,
            identity: remote.identity(),
            entrance: Entrance::Identity,
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
        reading: Reading,
    ) -> Result<Self, Error> {
        let (path, wanted) = (ticket.claims.path.clone(), ticket.claims.access);
        let remote = sessions::redeem(address, ticket)?;
        let origin = Origin {
            address: address.clone(),
            path,
            flags: match wanted & OpenFlags::WRITE {
                0 => libc::O_RDONLY,
                _ => libc::O_RDWR,
            },
            reading,
            patience: Duration::ZERO,
            identity: remote.identity(),
            entrance: Entrance::Ticket,
        };
        Ok(Self::from_remote(remote, origin))
    }

    fn from_remote(remote: SharedFile, origin: Origin) -> Self {
        Self {
            remote,
            position: 0,
            appends: origin.flags & libc::O_APPEND != 0,
            course: Course::new(origin.reading),
            ahead: None,
            coming: VecDeque::new(),
            announced: Announced::default(),
            origin,
        }
    }

    /// Opens the same file again, with this position.
    ///
    /// # Errors
    /// Those of opening; [`Error::Changed`] if the name now refers to another file.
    pub fn again(origin: &Origin, position: u64) -> Result<Self, Error> {
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
    pub fn origin(&self) -> &Origin {
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
        let memory = unsafe { Foreign::filled(bytes) };
        let ticket = self.remote.begin(Errand::Read { handle, offset }, memory)?;
        match ticket.wait()?.outcome? {
            Given::Read(read) => Ok(read),
            _ => Err(Error::Dropped("before it replied")),
        }
    }

    /// Writes all of `bytes` to the server.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let handle = self.remote.handle();
        // SAFETY: `wait` below ends the request, `bytes` is borrowed until then, and a write only
        // reads them.
        let memory = unsafe { Foreign::looked_at(bytes) };
        let ticket = self
            .remote
            .begin(Errand::Write { handle, offset }, memory)?;
        ticket.wait()?.outcome.map(|_| ())
    }

    /// Reads at an offset. If the connection is lost, the read is retried over another one where
    /// the file's options say so.
    fn read_at(&mut self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        let mut read = self.read_once(offset, bytes);
        let mut backoff = None;
        while let Err(error) = &read {
            let is_only_read = self.origin.flags & libc::O_ACCMODE == libc::O_RDONLY;
            let backoff = backoff.get_or_insert_with(Backoff::default);
            if !is_only_read || !error.may_pass() || !backoff.has_time(self.origin.patience) {
                break;
            }
            backoff.wait(self.origin.patience);
            read = self
                .open_anew()
                .and_then(|()| self.read_once(offset, bytes));
        }
        read
    }

    /// Opens the file on another connection; fetched data is kept. It must still be the same file.
    fn open_anew(&mut self) -> Result<(), Error> {
        self.coming.clear();
        self.course.begin_anew();
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
        let window = self.course.window(offset);
        let read = if bytes.len() >= window {
            self.fill(offset, bytes)?
        } else {
            let mut buffer = self.ahead.take().map_or_else(Vec::new, |piece| piece.bytes);
            buffer.resize(window, 0);
            let read = self.fill(offset, &mut buffer)?;
            buffer.truncate(read);
            let length = bytes.len().min(read);
            bytes[..length].copy_from_slice(&buffer[..length]);
            self.ahead = Some(Piece {
                offset,
                is_full: read == window,
                bytes: buffer,
            });
            read
        };
        self.course.fetched(offset, read);
        Ok(read.min(bytes.len()))
    }

    /// Reads from fetched data or from reads in progress, if the read begins there.
    fn read_kept(&mut self, offset: u64, bytes: &mut [u8]) -> Result<Option<usize>, Error> {
        if !self.keeps(offset) {
            self.take_coming(offset)?;
        }
        let Some(piece) = self.ahead.as_ref().filter(|_| self.keeps(offset)) else {
            return Ok(None);
        };
        let from = (offset - piece.offset) as usize;
        let there = &piece.bytes[from..];
        if there.len() >= bytes.len() {
            bytes.copy_from_slice(&there[..bytes.len()]);
            self.fetch_next();
            return Ok(Some(bytes.len()));
        }
        // If the rest is not in progress, the read starts over and fetches all of it at once.
        let end = piece.offset + piece.bytes.len() as u64;
        if self
            .coming
            .front()
            .is_none_or(|coming| coming.offset != end)
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
        self.ahead.as_ref().is_some_and(|piece| {
            offset >= piece.offset && offset - piece.offset < piece.bytes.len() as u64
        })
    }

    /// Waits for the read in progress that contains an offset, and drops those before it; drops all
    /// if none contains it.
    fn take_coming(&mut self, offset: u64) -> Result<(), Error> {
        let coming = loop {
            let Some(coming) = self.coming.pop_front() else {
                return Ok(());
            };
            if (coming.offset..coming.offset + coming.length as u64).contains(&offset) {
                break coming;
            }
        };
        let done = coming.ticket.wait()?;
        let Given::Read(read) = done.outcome? else {
            return Err(Error::Dropped("before it replied"));
        };
        let mut bytes = done.memory.into_bytes();
        bytes.truncate(read);
        if read < coming.length {
            // The file ends there.
            self.coming.clear();
        }
        self.course.fetched(coming.offset, read);
        self.ahead = Some(Piece {
            offset: coming.offset,
            is_full: read == coming.length,
            bytes,
        });
        Ok(())
    }

    /// Reads ahead while the program reads the fetched data, if its reads are sequential. Errors
    /// are left to the read that needs the data.
    fn fetch_next(&mut self) {
        let Some(piece) = &self.ahead else {
            return;
        };
        if let Some(first) = self.coming.front() {
            // Processes arrived replies, which frees space for more.
            let _ = first.ticket.is_done();
        }
        let (wanted, length) = (self.course.under_way(), self.course.piece());
        let mut end = piece.offset + piece.bytes.len() as u64;
        let mut under_way = 0;
        for coming in &self.coming {
            under_way += coming.length;
            end = coming.offset + coming.length as u64;
        }
        // A read that was shorter than requested has reached the end of the file.
        while under_way + length <= wanted && piece.is_full {
            let errand = Errand::Read {
                handle: self.remote.handle(),
                offset: end,
            };
            let Ok(ticket) = self.remote.begin(errand, vec![0; length]) else {
                return;
            };
            self.coming.push_back(Coming {
                offset: end,
                length,
                ticket,
            });
            under_way += length;
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
            self.announced.pieces.push_back((range.offset, at, length));
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
        self.ahead = None;
        self.coming.clear();
        self.course.forget();
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
        self.coming.clear();
        self.remote.close()
    }
}

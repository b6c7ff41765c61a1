//! Reads parts of files from storage, those of one request concurrently.
//!
//! A worker that reads parts one after the other has one read in flight, however many the storage
//! could serve at once. With io_uring (io_uring(7)) all reads of a request are submitted in one
//! call, and the worker waits for them together. If the kernel lacks it, or a container or service
//! forbids it, the worker reads the parts one by one.
//!
//! # Rules
//!
//! - Both methods return the same bytes, lengths and errors: parts that the ring did not read
//!   completely are read again by pread(2), whose result counts.
//! - A ring belongs to one thread. Nothing is in flight when a call returns, so memory is never
//!   written to after its return to the caller.

mod ring;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, io};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use ring::Ring;

/// The configured method of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StorageMethod {
    /// io_uring if it works.
    #[default]
    Auto,
    /// io_uring, or fail.
    IoUring,
    /// One read after the other on each worker.
    Threads,
}

/// The method of reading.
#[derive(Debug)]
pub enum Storage {
    /// By io_uring.
    Together,
    /// By pread(2); the error if io_uring was requested.
    InTurn(Option<io::Error>),
}

/// A part of a file, and its destination.
#[derive(Debug)]
pub struct Part<'a> {
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// The destination; its length is the number of bytes wanted.
    pub bytes: &'a mut [u8],
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Together => write!(f, "by io_uring, all reads of a request at once"),
            Self::InTurn(None) => write!(f, "by threads, one read at a time"),
            Self::InTurn(Some(error)) => {
                write!(f, "by threads, one read at a time; io_uring: {error}")
            }
        }
    }
}

thread_local! {
    /// This thread's ring, once used; the inner value is `None` if it could not be created.
    static RING: RefCell<Option<Option<Ring>>> = const { RefCell::new(None) };
}

impl Storage {
    /// Selects the method of reading.
    ///
    /// # Errors
    /// io_uring is required and does not work.
    pub fn open(wish: StorageMethod) -> io::Result<Self> {
        if wish == StorageMethod::Threads {
            return Ok(Self::InTurn(None));
        }
        match (Ring::new(), wish) {
            (Ok(_works), _) => Ok(Self::Together),
            (Err(error), StorageMethod::IoUring) => Err(error),
            (Err(error), _) => Ok(Self::InTurn(Some(error))),
        }
    }

    /// Returns whether batching reads is worthwhile.
    pub(crate) fn reads_together(&self) -> bool {
        matches!(self, Self::Together)
    }

    /// Reads all parts, each until it is full or the file ends. Returns the number of bytes read of
    /// each part, in order.
    ///
    /// May block on storage; not for an event loop.
    pub fn read(&self, file: BorrowedFd<'_>, parts: &mut [Part<'_>]) -> Vec<io::Result<usize>> {
        let mut read = vec![0; parts.len()];
        // A part beyond the largest offset would mean something else to io_uring: its offset -1 is
        // the file's own position.
        let within = parts.iter().all(|part| i64::try_from(part.offset).is_ok());
        if self.reads_together() && parts.len() > 1 && within {
            with_ring(|ring| ring.read(file, parts, &mut read));
        }
        parts
            .iter_mut()
            .zip(read)
            .map(|(part, read)| {
                let rest = &mut part.bytes[read..];
                Ok(read + read_fully(file, part.offset + read as u64, rest)?)
            })
            .collect()
    }
}

fn with_ring(read: impl FnOnce(&mut Ring)) {
    RING.with_borrow_mut(|ring| {
        // A thread that cannot have a ring, for instance because the process has too many open
        // files, reads the parts one by one.
        if let Some(ring) = ring.get_or_insert_with(|| Ring::new().ok()) {
            read(ring);
        }
    });
}

/// Reads the first `length` bytes of a file, or as many as it has, into memory that is not zeroed
/// first.
///
/// # Errors
/// The error of pread(2).
pub(crate) fn read_from_start(file: BorrowedFd<'_>, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = bytes.len() as u64;
        match rustix::io::pread(file.as_fd(), spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The allocator may have provided more capacity.
    bytes.truncate(length);
    Ok(bytes)
}

/// Calls pread(2) until the buffer is full or the file ends; returns the number of bytes read.
///
/// # Errors
/// The error of pread(2).
pub(crate) fn read_fully(file: BorrowedFd<'_>, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(file.as_fd(), &mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(read)
}

#[cfg(test)]
mod tests;

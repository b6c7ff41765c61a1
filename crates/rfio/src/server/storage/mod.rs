//! Reading what lies on storage: the parts of files that one request wants, under way together.
//!
//! A worker that reads parts one after the other has one read under way, however many the storage could serve at once.
//! With io_uring (io_uring(7)) all of a request's reads are handed over in one call, and the worker waits for them together.
//! Where the kernel has none, or a container's or a service's rules forbid it, the worker reads them in turn.
//!
//! # The law
//!
//! - Both ways give the same bytes, the same lengths and the same errors: what the ring did not read whole is read again by
//!   pread(2), whose word counts.
//! - A ring is its thread's. Nothing is under way when a call returns, so memory is never written to after it was given back.

mod ring;

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd};
use std::{fmt, io};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;

use ring::Ring;

/// What storage is asked to be read by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wish {
    /// io_uring where it works.
    #[default]
    Auto,
    /// io_uring, or not at all.
    IoUring,
    /// One read after the other on each worker.
    Threads,
}

/// How storage is read.
#[derive(Debug)]
pub enum Storage {
    /// By io_uring.
    Together,
    /// By pread(2); why, if io_uring was wished for.
    InTurn(Option<io::Error>),
}

/// A part of a file, and where its bytes go.
#[derive(Debug)]
pub struct Part<'a> {
    /// The first byte's place in the file.
    pub offset: u64,
    /// As many as are wanted.
    pub bytes: &'a mut [u8],
}

impl fmt::Display for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Together => write!(f, "by io_uring, what a request wants together"),
            Self::InTurn(None) => write!(f, "by threads, each one read after the other"),
            Self::InTurn(Some(error)) => {
                write!(
                    f,
                    "by threads, each one read after the other; io_uring: {error}"
                )
            }
        }
    }
}

thread_local! {
    /// This thread's ring, once it read by one; `None` in it if none could be made.
    static RING: RefCell<Option<Option<Ring>>> = const { RefCell::new(None) };
}

impl Storage {
    /// What there is of what is wished for. An error if io_uring must be used and does not work.
    pub fn open(wish: Wish) -> io::Result<Self> {
        if wish == Wish::Threads {
            return Ok(Self::InTurn(None));
        }
        match (Ring::new(), wish) {
            (Ok(_works), _) => Ok(Self::Together),
            (Err(error), Wish::IoUring) => Err(error),
            (Err(error), _) => Ok(Self::InTurn(Some(error))),
        }
    }

    /// Whether it is worth while to bring reads together.
    pub fn reads_together(&self) -> bool {
        matches!(self, Self::Together)
    }

    /// Reads all parts, each until it is full or the file ends; how many bytes each got, in the parts' order.
    ///
    /// May wait for storage; not for an event loop.
    pub fn read(&self, file: BorrowedFd<'_>, parts: &mut [Part<'_>]) -> Vec<io::Result<usize>> {
        let mut read = vec![0; parts.len()];
        // What lies beyond every file would be another question to io_uring: its offset -1 is the file's own position.
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
        // A thread that can have none, for its process has too many files open, reads in turn.
        if let Some(ring) = ring.get_or_insert_with(|| Ring::new().ok()) {
            read(ring);
        }
    });
}

/// The first `length` bytes of a file, or as many as it has, in memory that nothing has cleared
/// before.
pub fn read_from_start(file: BorrowedFd<'_>, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    while bytes.len() < length {
        let at = bytes.len() as u64;
        match rustix::io::pread(file.as_fd(), spare_capacity(&mut bytes), at) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    // The allocator may have given more room.
    bytes.truncate(length);
    Ok(bytes)
}

/// pread(2) until the buffer is full or the file ends.
pub fn read_fully(file: BorrowedFd<'_>, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
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

//! A doorbell between threads of this process: eventfd(2). Never handed to another process.

use crate::errno::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// An eventfd that counts rings until it is read.
#[derive(Debug)]
pub struct Doorbell {
    fd: OwnedFd,
}

impl Doorbell {
    /// Returns a doorbell. [`Doorbell::clear`] takes all rings at once.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn new() -> Result<Doorbell> {
        // SAFETY: eventfd takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: eventfd just returned `fd`, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Doorbell { fd })
    }

    /// Returns another handle of the same doorbell.
    ///
    /// # Errors
    /// The system's, when it has no descriptors left.
    pub fn share(&self) -> Result<Doorbell> {
        Ok(Doorbell {
            fd: self.fd.try_clone()?,
        })
    }

    /// Rings. A full counter counts as rung, so failure does not matter.
    pub fn ring(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: `one` is 8 readable bytes.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes all rings so far.
    pub fn clear(&self) {
        let mut count = [0u8; 8];
        // SAFETY: `count` is 8 writable bytes.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Doorbell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

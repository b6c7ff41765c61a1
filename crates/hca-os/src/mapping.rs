//! Shared memory mapped into the local address space (mmap(2)).
//!
//! Only atomics in a mapping are ever referenced by Rust references, because the peer may write at
//! any time. Everything else is copied in or out through raw pointers, and only the copy is used.

use crate::errno::{Errno, Result};
use crate::memfd::Memfd;
use crate::mm;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Access rights of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum MappingRights {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A shared mapping that is unmapped when dropped. A forked child does not inherit it.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain memory; all access to it goes through atomics or volatile-like raw
// copies.
unsafe impl Send for Mapping {}
// SAFETY: a mapping is plain memory; all access to it goes through atomics or volatile-like raw
// copies.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps all of a memory file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(memfd: &Memfd, rights: MappingRights) -> Result<Mapping> {
        Mapping::of_fd(memfd.as_fd(), memfd.length(), rights)
    }

    /// Maps the first `length` bytes of a file.
    ///
    /// # Errors
    /// The system's.
    pub fn of_fd(fd: BorrowedFd<'_>, length: usize, rights: MappingRights) -> Result<Mapping> {
        let protection = match rights {
            MappingRights::Read => libc::PROT_READ,
            MappingRights::ReadWrite => libc::PROT_READ | libc::PROT_WRITE,
        };
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces no other mapping.
        let base = unsafe {
            mm::map(
                0,
                length as u64,
                protection,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                0,
            )
        }?;
        // A forked child must neither keep the shared state alive nor write to it.
        // SAFETY: the range was just mapped here.
        let _ = unsafe { mm::advise(base, length as u64, mm::Advice::LinuxDontFork) };
        let base = NonNull::new(base as *mut u8).ok_or(Errno::EIO)?;
        Ok(Mapping { base, length })
    }

    /// Returns the first byte. Valid for `length()` bytes as long as the mapping lives.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the 32-bit word at `offset`.
    ///
    /// # Panics
    /// If the word is not aligned or not inside: offsets come from local layouts, never from the
    /// peer.
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.length);
        // SAFETY: in bounds and aligned (just checked; the base is page aligned); only ever
        // accessed atomically.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU32>() }
    }

    /// Returns the 64-bit word at `offset`.
    ///
    /// # Panics
    /// As [`Mapping::word32`].
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        assert!(offset.is_multiple_of(8) && offset + 8 <= self.length);
        // SAFETY: in bounds and aligned (just checked; the base is page aligned); only ever
        // accessed atomically.
        unsafe { &*self.base.as_ptr().add(offset).cast::<AtomicU64>() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this value, and no reference outlives it.
        let _ = unsafe { mm::unmap(self.base.as_ptr() as u64, self.length as u64) };
    }
}

//! Anonymous shared memory that can be handed to a peer and cannot shrink under it:
//! memfd_create(2), F_ADD_SEALS.

use crate::errno::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A sealed memory file. Its length never changes, so no access inside it can raise SIGBUS for a
/// truncation.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    length: usize,
}

impl Memfd {
    /// Creates a memory file of `length` bytes, all zero and not yet backed by pages.
    ///
    /// # Errors
    /// The system's.
    pub fn create(name: &CStr, length: usize) -> Result<Memfd> {
        // SAFETY: `name` is a NUL-terminated string; the result is checked before it is owned.
        let fd = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: memfd_create just returned `fd`, and nothing else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: the call takes no pointers, and `fd` owns the descriptor.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), length as libc::off_t) } != 0 {
            return Err(Errno::last());
        }
        let memfd = Memfd { fd, length };
        memfd.seal(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
        Ok(memfd)
    }

    /// Takes over a memory file that a peer handed over.
    ///
    /// # Errors
    /// EPROTO unless it is sealed and exactly `length` long: an unsealed file could be truncated
    /// later, and an access would then kill this process.
    pub fn adopt(fd: OwnedFd, length: usize) -> Result<Memfd> {
        // SAFETY: the call takes no pointers, and `fd` owns the descriptor.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(Errno::EPROTO);
        }
        // SAFETY: an all-zero stat is a valid out-parameter.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the duration of the call.
        if unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } != 0 {
            return Err(Errno::last());
        }
        if stat.st_size as u64 != length as u64 {
            return Err(Errno::EPROTO);
        }
        Ok(Memfd { fd, length })
    }

    /// Forbids writable mappings of the file from now on; existing mappings stay writable.
    ///
    /// # Errors
    /// The system's.
    pub fn seal_future_writes(&self) -> Result<()> {
        const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;
        self.seal(F_SEAL_FUTURE_WRITE)
    }

    fn seal(&self, seals: libc::c_int) -> Result<()> {
        // SAFETY: the call takes no pointers, and `self.fd` owns the descriptor.
        if unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(Errno::last());
        }
        Ok(())
    }

    /// Returns the length in bytes, which never changes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Frees the pages of `[offset, offset + length)`; they read as zero afterwards.
    pub fn punch(&self, offset: usize, length: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: the call takes no pointers; if it fails, the memory is only freed later.
        unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                mode,
                offset as libc::off_t,
                length as libc::off_t,
            )
        };
    }

    /// Returns device and inode of the file, as /proc/self/maps shows them for its mappings.
    ///
    /// # Errors
    /// The system's.
    pub fn identity(&self) -> Result<(u64, u64)> {
        // SAFETY: an all-zero stat is a valid out-parameter.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the duration of the call.
        if unsafe { libc::fstat(self.fd.as_raw_fd(), &mut stat) } != 0 {
            return Err(Errno::last());
        }
        Ok((stat.st_dev, stat.st_ino))
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

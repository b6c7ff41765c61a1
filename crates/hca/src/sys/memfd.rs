//! Anonymous shared memory that can be handed to a peer and cannot shrink under it: memfd_create(2), F_ADD_SEALS.

use crate::errno::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// A sealed memory file. Its length never changes, so no access inside it can raise SIGBUS for a truncation.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    length: usize,
}

impl Memfd {
    /// A new memory file of `length` bytes, all zero and not yet backed by pages.
    pub fn create(name: &CStr, length: usize) -> Result<Memfd> {
        // SAFETY: `name` is a NUL-terminated string; the result is checked before it is owned.
        let fd = unsafe {
            libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
        };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: plain system call on a descriptor that we own.
        if unsafe { libc::ftruncate(fd.as_raw_fd(), length as libc::off_t) } != 0 {
            return Err(Errno::last());
        }
        let memfd = Memfd { fd, length };
        memfd.seal(libc::F_SEAL_SHRINK | libc::F_SEAL_GROW)?;
        Ok(memfd)
    }

    /// A memory file that a peer handed over. Refused unless it is sealed and exactly `length` long: an unsealed one
    /// could be truncated later, and touching it would then kill us.
    pub fn adopt(fd: OwnedFd, length: usize) -> Result<Memfd> {
        // SAFETY: plain system call on a descriptor that we own.
        let seals = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(Errno::EPROTO);
        }
        // SAFETY: an all-zero stat is a valid out-parameter.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the length of the call.
        if unsafe { libc::fstat(fd.as_raw_fd(), &mut stat) } != 0 {
            return Err(Errno::last());
        }
        if stat.st_size as u64 != length as u64 {
            return Err(Errno::EPROTO);
        }
        Ok(Memfd { fd, length })
    }

    /// Lets nobody map the file writable from now on; mappings that exist stay writable.
    pub fn seal_future_writes(&self) -> Result<()> {
        const F_SEAL_FUTURE_WRITE: libc::c_int = 0x10;
        self.seal(F_SEAL_FUTURE_WRITE)
    }

    fn seal(&self, seals: libc::c_int) -> Result<()> {
        // SAFETY: plain system call on a descriptor that we own.
        if unsafe { libc::fcntl(self.fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
            return Err(Errno::last());
        }
        Ok(())
    }

    /// Length in bytes, fixed for ever.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Gives the pages of `[offset, offset + length)` back; they read as zero afterwards.
    pub fn punch(&self, offset: usize, length: usize) {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        // SAFETY: plain system call; failing only means that memory comes back later.
        unsafe {
            libc::fallocate(
                self.fd.as_raw_fd(),
                mode,
                offset as libc::off_t,
                length as libc::off_t,
            )
        };
    }

    /// Device and inode of the file, as /proc/self/maps shows them for its mappings.
    pub fn identity(&self) -> Result<(u64, u64)> {
        // SAFETY: an all-zero stat is a valid out-parameter.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the length of the call.
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

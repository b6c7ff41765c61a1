//! 64-bit words of a file, mapped shared and kept by forked children, which may count in them.

use crate::errno::{Errno, Result};
use crate::mm;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

/// The first words of a file.
pub struct SharedWords {
    base: NonNull<AtomicU64>,
    count: usize,
}

// SAFETY: the words are atomics, and mapped as long as this lives.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps so many words from the start of a file. All of its blocks are allocated, so that no
    /// access is a SIGBUS on a full disk, unless another process cuts the file.
    ///
    /// # Errors
    /// The system's.
    pub fn of(file: &File, count: usize) -> Result<SharedWords> {
        let length = 8 * count as u64;
        // SAFETY: the call takes no pointers, and the descriptor is open during it.
        let error = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, length as libc::off_t) };
        if error != 0 {
            return Err(Errno(error));
        }
        // SAFETY: a fresh mapping at an address of the kernel's choice replaces no other mapping.
        let base = unsafe {
            mm::map(
                0,
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        }?;
        let base = NonNull::new(base as *mut AtomicU64).ok_or(Errno::EIO)?;
        Ok(SharedWords { base, count })
    }

    /// Returns the first word; all others lie behind it, as long as this lives.
    pub fn first(&self) -> NonNull<AtomicU64> {
        self.base
    }

    /// Returns a word; none behind the last.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&AtomicU64> {
        // SAFETY: in bounds; the base is page aligned, and the words are only ever accessed
        // atomically.
        (index < self.count).then(|| unsafe { self.base.add(index).as_ref() })
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`; the words are borrowed from this.
        let _ = unsafe { mm::unmap(self.base.as_ptr() as u64, 8 * self.count as u64) };
    }
}

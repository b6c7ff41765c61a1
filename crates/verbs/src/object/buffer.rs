//! Memory before registration: dedicated pages, mapped and touched.

use crate::error::{Error, Result};
use crate::object::thread_safe;
use std::ptr::NonNull;

/// Page size in bytes.
const PAGE: usize = 4096;

/// Page-aligned, zeroed memory.
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
    mapped: usize,
}
thread_safe!(Buffer);

impl Buffer {
    /// Allocates `length` bytes and touches all pages.
    ///
    /// # Errors
    ///
    /// `length` is too large, or `mmap` fails.
    pub fn allocate(length: usize) -> Result<Buffer> {
        let fail = || Error::last("mmap", format!("{length} bytes"));
        let mapped = length
            .max(1)
            .checked_next_multiple_of(PAGE)
            .ok_or_else(|| {
                Error::invalid("Buffer::allocate", format!("{length} bytes are too many"))
            })?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new anonymous mapping overlaps no existing memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), mapped, protection, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(fail());
        }
        let start = NonNull::new(start.cast()).ok_or_else(fail)?;
        Ok(Buffer {
            start,
            length,
            mapped,
        })
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: this is the whole mapping, owned by self.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.mapped) };
    }
}

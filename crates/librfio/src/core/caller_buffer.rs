//! Memory of the program, or of this library, that a request uses while its owner does not wait for
//! it.

use std::ffi::c_void;

use verbena_rfio_client::Error;
use verbena_rfio_client::connection::Memory;

use crate::ffi;

/// Memory that its owner does not access until the request is finished.
pub struct CallerBuffer {
    start: *mut u8,
    length: usize,
}

// SAFETY: the thread that processes replies fills it, one thread at a time; its owner does not
// access it meanwhile.
unsafe impl Send for CallerBuffer {}

impl Memory for CallerBuffer {
    fn bytes(&self) -> &[u8] {
        // SAFETY: `new` has checked the pointer, or a reference was given; the owner keeps the
        // memory valid and unchanged until the request is finished.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: valid and not accessed by its owner until the request is finished; only called
        // for memory to be filled.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl CallerBuffer {
    /// Returns a program's buffer.
    ///
    /// # Errors
    /// EINVAL if a buffer that is not empty is null or longer than `isize::MAX`.
    pub fn new(start: *mut c_void, length: usize) -> Result<Self, Error> {
        let start = match (length, start.is_null()) {
            (0, _) => std::ptr::NonNull::dangling().as_ptr(),
            (_, false) if length <= isize::MAX as usize => start.cast(),
            _ => return Err(ffi::invalid("buffer")),
        };
        Ok(Self { start, length })
    }

    /// Returns memory to be filled.
    ///
    /// # Safety
    /// The borrow must not end before the wait for the request that gets it.
    pub unsafe fn writable(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            length: bytes.len(),
        }
    }

    /// Returns memory that is only read.
    ///
    /// # Safety
    /// The borrow must not end before the wait for the request that gets it, which must only read
    /// from its memory.
    pub unsafe fn read_only(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast_mut(),
            length: bytes.len(),
        }
    }
}

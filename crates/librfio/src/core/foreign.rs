//! Memory of the program, or of this library, that a request uses while somebody else waits for it.

use std::ffi::c_void;

use verbena_rfio::client::Error;
use verbena_rfio::client::exchange::Memory;

use crate::door;

/// Memory that its owner leaves alone until the request is finished.
pub struct Foreign {
    start: *mut u8,
    length: usize,
}

// SAFETY: whichever thread takes replies fills it, one at a time; its owner does not look meanwhile.
unsafe impl Send for Foreign {}

impl Memory for Foreign {
    fn bytes(&self) -> &[u8] {
        // SAFETY: whoever made it has looked, and the owner's promise.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above; only called for memory that is to be filled.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.length) }
    }
}

impl Foreign {
    /// A program's buffer, which must be one if it is not empty.
    pub fn new(start: *mut c_void, length: usize) -> Result<Self, Error> {
        let start = match (length, start.is_null()) {
            (0, _) => std::ptr::NonNull::dangling().as_ptr(),
            (_, false) if length <= isize::MAX as usize => start.cast(),
            _ => return Err(door::invalid("buffer")),
        };
        Ok(Self { start, length })
    }

    /// Memory to be filled.
    ///
    /// # Safety
    /// The borrow must not end before the wait for the errand that gets it.
    pub unsafe fn filled(bytes: &mut [u8]) -> Self {
        Self {
            start: bytes.as_mut_ptr(),
            length: bytes.len(),
        }
    }

    /// Memory that is only looked at.
    ///
    /// # Safety
    /// The borrow must not end before the wait for the errand that gets it, which must be one that takes data from its memory.
    pub unsafe fn looked_at(bytes: &[u8]) -> Self {
        Self {
            start: bytes.as_ptr().cast_mut(),
            length: bytes.len(),
        }
    }
}

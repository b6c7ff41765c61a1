//! The cache's memory: the unsafe code beneath the cache, with the rules of the module above it. It
//! is either a mapping, or a region registered with an adapter for local access.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags};
use verbena_verbs::{Region, Segment};

/// Page-aligned memory of fixed size and address, zeroed at first.
pub struct Arena {
    start: NonNull<u8>,
    length: usize,
    region: Option<Region>,
}

// SAFETY: the arena is plain memory that belongs to no thread; `slice` and `slice_mut` require
// their callers to exclude conflicting access.
unsafe impl Send for Arena {}
// SAFETY: shared access is safe for the same reason: `slice` and `slice_mut` require their callers
// to exclude conflicting access.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `length` bytes.
    ///
    /// # Errors
    /// Returns the error of mmap(2).
    pub fn new(length: usize) -> io::Result<Self> {
        let (protection, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a new anonymous mapping at an address that the kernel chooses replaces no other.
        let start =
            unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), length, protection, flags)? };
        let start = NonNull::new(start.cast())
            .ok_or_else(|| io::Error::other("the mapping is at address 0"))?;
        let arena = Self {
            start,
            length,
            region: None,
        };
        arena.advise(0, length, Advice::LinuxHugepage);
        Ok(arena)
    }

    /// Uses registered memory. It must be registered for local access only, so that no process but
    /// the server writes to it.
    ///
    /// # Errors
    /// Returns an error if the region is at address 0.
    pub fn registered(region: Region) -> io::Result<Self> {
        let (start, length) = region.as_raw_parts();
        let start =
            NonNull::new(start).ok_or_else(|| io::Error::other("the region is at address 0"))?;
        Ok(Self {
            start,
            length,
            region: Some(region),
        })
    }

    /// Returns part of the memory as a segment for the adapter, if it is registered.
    pub fn segment(
        &self,
        offset: usize,
        length: usize,
    ) -> Option<verbena_verbs::Result<Segment<'_>>> {
        self.region
            .as_ref()
            .map(|region| region.segment(offset, length))
    }

    /// Returns the size in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Allocates the pages of a part of the memory in one call, so that filling it takes no page
    /// fault for each page. Has no effect before Linux 5.14 or without free memory; the page faults
    /// then happen later.
    ///
    /// # Panics
    /// If the part is not inside.
    pub fn touch(&self, offset: usize, length: usize) {
        self.advise(offset, length, Advice::LinuxPopulateWrite);
    }

    fn advise(&self, offset: usize, length: usize, advice: Advice) {
        self.check(offset, length);
        // SAFETY: `check` has verified that the range is inside the arena, and neither advice
        // changes or removes the contents of pages.
        let _ =
            unsafe { rustix::mm::madvise(self.start.as_ptr().add(offset).cast(), length, advice) };
    }

    /// Returns part of the memory.
    ///
    /// # Panics
    /// If the part is not inside.
    ///
    /// # Safety
    /// Nothing may write to this part while the slice lives.
    pub unsafe fn slice(&self, offset: usize, length: usize) -> &[u8] {
        self.check(offset, length);
        // SAFETY: inside the mapping (`check`), initialised (zeroed by the kernel), and not written
        // while the slice lives (the caller's promise).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) }
    }

    /// Returns part of the memory for writing.
    ///
    /// # Panics
    /// If the part is not inside.
    ///
    /// # Safety
    /// Nothing else may read or write this part while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        self.check(offset, length);
        // SAFETY: inside the mapping (`check`), initialised (zeroed by the kernel), and accessed by
        // nothing else while the slice lives (the caller's promise).
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr().add(offset), length) }
    }

    fn check(&self, offset: usize, length: usize) {
        let inside = offset
            .checked_add(length)
            .is_some_and(|end| end <= self.length);
        assert!(
            inside,
            "{length} bytes from {offset} are not inside an arena of {} bytes",
            self.length
        );
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.region.is_some() {
            return;
        }
        // SAFETY: `new` made the mapping with this length, and no slice outlives the arena.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.length) };
    }
}

impl std::fmt::Debug for Arena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = if self.region.is_some() {
            "registered"
        } else {
            "mapped"
        };
        write!(f, "{kind} arena of {} bytes", self.length)
    }
}

//! The cache's memory: the only `unsafe` of the cache, with the rules of the module above it. Either a mapping, or a
//! region that is registered with an adapter for the server's own use.

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

// SAFETY: the arena is plain memory; who may touch which part is ruled by the callers of `slice` and `slice_mut`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `length` bytes.
    pub fn new(length: usize) -> io::Result<Self> {
        let (protection, flags) = (
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        );
        // SAFETY: a fresh anonymous mapping at an address of the kernel's choice replaces nothing.
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

    /// Uses registered memory. It must be registered for local access alone: nobody but the server writes to it.
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

    /// Part of the memory for the adapter, if it is registered.
    pub fn segment(
        &self,
        offset: usize,
        length: usize,
    ) -> Option<verbena_verbs::Result<Segment<'_>>> {
        self.region
            .as_ref()
            .map(|region| region.segment(offset, length))
    }

    /// Bytes in all.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Puts pages behind a part of the memory in one call: filling it takes no fault for each page
    /// then. Without effect before Linux 5.14, and where there is no memory; then the faults come.
    ///
    /// # Panics
    /// If the part is not inside.
    pub fn touch(&self, offset: usize, length: usize) {
        self.advise(offset, length, Advice::LinuxPopulateWrite);
    }

    fn advise(&self, offset: usize, length: usize, advice: Advice) {
        self.check(offset, length);
        // SAFETY: inside the mapping (checked); neither advice changes or removes what the pages
        // hold.
        let _ =
            unsafe { rustix::mm::madvise(self.start.as_ptr().add(offset).cast(), length, advice) };
    }

    /// Part of the memory.
    ///
    /// # Panics
    /// If the part is not inside.
    ///
    /// # Safety
    /// Nobody writes to this part while the slice lives.
    pub unsafe fn slice(&self, offset: usize, length: usize) -> &[u8] {
        self.check(offset, length);
        // SAFETY: inside the mapping (checked), initialised (the kernel zeroes it), unwritten (the caller's promise).
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().add(offset), length) }
    }

    /// Part of the memory, to write to.
    ///
    /// # Panics
    /// If the part is not inside.
    ///
    /// # Safety
    /// Nobody else reads or writes this part while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn slice_mut(&self, offset: usize, length: usize) -> &mut [u8] {
        self.check(offset, length);
        // SAFETY: as in `slice`, and exclusive by the caller's promise.
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
        // SAFETY: the mapping was made in `new` with this length, and no slice outlives the arena.
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

//! Registered memory: `ibv_reg_mr(3)`.
//!
//! The adapter and peers may change the memory at any time. So it is accessed only by raw copies
//! and by atomic loads and stores; no non-atomic Rust reference to its bytes exists.

use crate::error::{Error, Result};
use crate::object::buffer::Buffer;
use crate::object::domain::ProtectionDomain;
use crate::object::locked;
use crate::object::thread_safe;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use verbena_abi as abi;

/// `enum ibv_access_flags`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccessFlags(pub u32);

impl AccessFlags {
    /// The adapter may write for local requests.
    pub const LOCAL: AccessFlags = AccessFlags(abi::IBV_ACCESS_LOCAL_WRITE);

    /// Adds: peers may write.
    pub fn remote_write(self) -> Self {
        AccessFlags(self.0 | abi::IBV_ACCESS_REMOTE_WRITE | abi::IBV_ACCESS_LOCAL_WRITE)
    }

    /// Adds: peers may read.
    pub fn remote_read(self) -> Self {
        AccessFlags(self.0 | abi::IBV_ACCESS_REMOTE_READ)
    }

    /// Adds: windows may be bound to the region.
    pub fn bindable(self) -> Self {
        AccessFlags(self.0 | abi::IBV_ACCESS_MW_BIND)
    }

    /// Adds: writes of peers may reach memory in a different order than they were sent.
    pub fn relaxed_ordering(self) -> Self {
        AccessFlags(self.0 | abi::IBV_ACCESS_RELAXED_ORDERING)
    }

    /// Adds: peers may execute atomics.
    pub fn remote_atomic(self) -> Self {
        AccessFlags(self.0 | abi::IBV_ACCESS_REMOTE_ATOMIC | abi::IBV_ACCESS_LOCAL_WRITE)
    }
}

/// Registered memory with its buffer.
pub struct Region {
    raw: NonNull<abi::ibv_mr>,
    // Copies of the fields that every request needs, to save a load.
    address: u64,
    local_key: u32,
    // Freed only after the adapter's access has ended.
    buffer: ManuallyDrop<Buffer>,
    domain: Arc<ProtectionDomain>,
}
thread_safe!(Region);

impl ProtectionDomain {
    /// Registers a buffer (`ibv_reg_mr(3)`). The region owns it.
    ///
    /// # Errors
    ///
    /// The call fails; the buffer is freed. [`Error::Locked`] if the limit of locked memory
    /// explains it.
    pub fn register(self: &Arc<Self>, buffer: Buffer, access: AccessFlags) -> Result<Region> {
        let functions = &self.context.library.functions;
        let length = buffer.length();
        // SAFETY: the domain is alive; the range is a mapping that the region owns until after
        // deregistration.
        let raw = unsafe {
            let start = buffer.start().as_ptr().cast();
            (functions.reg_mr)(self.raw.as_ptr(), start, length, access.0 as i32)
        };
        let raw = NonNull::new(raw).ok_or_else(|| {
            let object = format!("{length} bytes on {}", self.context.name());
            Error::last("ibv_reg_mr", object).explained(|| locked::explanation(length))
        })?;
        Ok(Region {
            raw,
            address: buffer.start().as_ptr() as u64,
            // SAFETY: just registered; the library filled the structure.
            local_key: unsafe { (*raw.as_ptr()).lkey },
            buffer: ManuallyDrop::new(buffer),
            domain: Arc::clone(self),
        })
    }
}

impl Region {
    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.buffer.length()
    }

    /// Returns the address of the first byte, for peers.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Returns the remote key.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered; its fields are plain data that do not change.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    pub(crate) fn raw_pointer(&self) -> *mut abi::ibv_mr {
        self.raw.as_ptr()
    }

    /// Returns the local key.
    pub fn local_key(&self) -> u32 {
        self.local_key
    }

    /// Returns a segment for a work request.
    ///
    /// # Errors
    ///
    /// The range exceeds the region.
    #[inline]
    pub fn segment(&self, offset: usize, length: usize) -> Result<Segment<'_>> {
        self.part(offset, length)
            .ok_or_else(|| self.beyond("Region::segment", offset, length))
    }

    /// Like [`Region::segment`], but returns `None` beyond the end. For paths on which an error
    /// must cost nothing.
    #[inline]
    pub fn part(&self, offset: usize, length: usize) -> Option<Segment<'_>> {
        let inside = offset.checked_add(length)? <= self.buffer.length();
        // A request's length has 32 bits.
        let length = u32::try_from(length).ok().filter(|_| inside)?;
        Some(Segment::new(
            self.address() + offset as u64,
            length,
            self.local_key(),
        ))
    }

    #[cold]
    fn beyond(&self, call: &'static str, offset: usize, length: usize) -> Error {
        let have = self.buffer.length();
        Error::invalid(
            call,
            format!("{length} bytes at {offset} of a region of {have}"),
        )
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Errors
    ///
    /// The range exceeds the region.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let to = self.checked("Region::write", offset, bytes.len())?;
        // SAFETY: the range lies in the mapping, and `bytes` cannot overlap it, because no slice of
        // the mapping exists. The adapter may write at the same time; the bytes are then as
        // undefined as on hardware, and nothing else depends on them.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        Ok(())
    }

    /// Copies `into.len()` bytes from `offset`.
    ///
    /// # Errors
    ///
    /// The range exceeds the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let from = self.checked("Region::read", offset, into.len())?;
        // SAFETY: the range lies in the mapping, and `into` cannot overlap it, because no slice of
        // the mapping exists. The adapter may write at the same time; the bytes are then as
        // undefined as on hardware.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), into.as_mut_ptr(), into.len()) };
        Ok(())
    }

    /// Copies between regions, or within one if the ranges do not overlap, by the CPU.
    ///
    /// # Errors
    ///
    /// A range exceeds its region.
    pub fn copy_from(&self, to: usize, source: &Region, from: usize, length: usize) -> Result<()> {
        let to = self.checked("Region::copy_from", to, length)?;
        let from = source.checked("Region::copy_from", from, length)?;
        // SAFETY: both ranges lie in mappings; `copy` permits overlap. The adapter may write at the
        // same time; the bytes are then as undefined as on hardware.
        unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), length) };
        Ok(())
    }

    /// Loads one byte (acquire).
    ///
    /// # Panics
    ///
    /// Outside the region.
    #[inline]
    pub fn load_byte(&self, offset: usize) -> u8 {
        self.byte(offset).load(Ordering::Acquire)
    }

    /// Stores one byte (release).
    ///
    /// # Panics
    ///
    /// Outside the region.
    #[inline]
    pub fn store_byte(&self, offset: usize, value: u8) {
        self.byte(offset).store(value, Ordering::Release);
    }

    /// Loads eight aligned bytes (acquire).
    ///
    /// # Panics
    ///
    /// Outside the region, or not aligned.
    #[inline]
    pub fn load_word(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Acquire)
    }

    /// Stores eight aligned bytes (release).
    ///
    /// # Panics
    ///
    /// Outside the region, or not aligned.
    #[inline]
    pub fn store_word(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Release);
    }

    /// Reads from a descriptor (`readv(2)`): first into `header`, then `length` bytes at `offset`.
    /// Returns the number of bytes read, with those of the header.
    ///
    /// # Errors
    ///
    /// The range exceeds the region, or the system's.
    pub fn read_vectored(
        &self,
        from: BorrowedFd<'_>,
        header: &mut [u8],
        offset: usize,
        length: usize,
    ) -> io::Result<usize> {
        let to = self.checked("Region::read_vectored", offset, length);
        let to = to.map_err(io::Error::other)?;
        let parts = vector(header.as_mut_ptr(), header.len(), to, length);
        // SAFETY: the kernel writes to `header`, which is borrowed, and to the range, which lies in
        // the mapping and of which no reference exists.
        let count = unsafe { libc::readv(from.as_raw_fd(), parts.as_ptr(), 2) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Writes to a descriptor (`writev(2)`): first `header`, then `length` bytes at `offset`.
    /// Returns the number of bytes written, with those of the header.
    ///
    /// # Errors
    ///
    /// The range exceeds the region, or the system's.
    pub fn write_vectored(
        &self,
        to: BorrowedFd<'_>,
        header: &[u8],
        offset: usize,
        length: usize,
    ) -> io::Result<usize> {
        let from = self.checked("Region::write_vectored", offset, length);
        let from = from.map_err(io::Error::other)?;
        let parts = vector(header.as_ptr().cast_mut(), header.len(), from, length);
        // SAFETY: the kernel reads `header` and the range, which lies in the mapping; the adapter
        // may write at the same time, and the bytes are then as undefined as on hardware.
        let count = unsafe { libc::writev(to.as_raw_fd(), parts.as_ptr(), 2) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// Returns start and length, for system calls that fill or send the memory. Using them is as
    /// unsafe as any raw pointer.
    pub fn as_raw_parts(&self) -> (*mut u8, usize) {
        (self.buffer.start().as_ptr(), self.buffer.length())
    }

    /// Ends the adapter's access and returns the buffer.
    ///
    /// # Errors
    ///
    /// `ibv_dereg_mr` fails; the buffer is leaked.
    pub fn deregister(self) -> Result<Buffer> {
        let mut this = ManuallyDrop::new(self);
        let outcome = this.end_access();
        // SAFETY: `this` is never dropped, so each field is taken exactly once. If the access did
        // not end, `forget` leaks the buffer instead of freeing it while the adapter uses it.
        let (buffer, domain) = unsafe {
            (
                ManuallyDrop::take(&mut this.buffer),
                std::ptr::read(&raw const this.domain),
            )
        };
        drop(domain);
        match outcome {
            Ok(()) => Ok(buffer),
            Err(error) => {
                std::mem::forget(buffer);
                Err(error)
            }
        }
    }

    fn end_access(&self) -> Result<()> {
        // SAFETY: called once, by `deregister` or `drop`.
        let errno = unsafe { (self.domain.context.library.functions.dereg_mr)(self.raw.as_ptr()) };
        if errno == 0 {
            return Ok(());
        }
        let object = format!("{} bytes on {}", self.length(), self.domain.context.name());
        Err(Error::call("ibv_dereg_mr", object, errno))
    }

    #[inline]
    fn checked(&self, call: &'static str, offset: usize, length: usize) -> Result<NonNull<u8>> {
        let have = self.buffer.length();
        if offset.checked_add(length).is_none_or(|end| end > have) {
            return Err(self.beyond(call, offset, length));
        }
        // SAFETY: the offset lies within the mapping or at its end.
        Ok(unsafe { self.buffer.start().add(offset) })
    }

    #[inline]
    fn byte(&self, offset: usize) -> &AtomicU8 {
        assert!(
            offset < self.length(),
            "byte {offset} of a region of {}",
            self.length()
        );
        // SAFETY: within the mapping, which lives as long as self; all accesses are atomic or raw
        // copies.
        unsafe { AtomicU8::from_ptr(self.buffer.start().as_ptr().add(offset)) }
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        let fits = offset
            .checked_add(8)
            .is_some_and(|end| end <= self.length());
        assert!(
            fits && offset.is_multiple_of(8),
            "word {offset} of a region of {}",
            self.length()
        );
        // SAFETY: within the mapping, which lives as long as self and is page-aligned, so the word
        // is aligned; all accesses are atomic or raw copies.
        unsafe { AtomicU64::from_ptr(self.buffer.start().as_ptr().add(offset).cast()) }
    }
}

/// Returns the two parts of a vectored read or write.
fn vector(header: *mut u8, count: usize, part: NonNull<u8>, length: usize) -> [libc::iovec; 2] {
    let of = |start: *mut u8, length| libc::iovec {
        iov_base: start.cast(),
        iov_len: length,
    };
    [of(header, count), of(part.as_ptr(), length)]
}

impl Drop for Region {
    fn drop(&mut self) {
        // Memory that the adapter still accesses is leaked, not freed.
        if self.end_access().is_ok() {
            // SAFETY: dropped only here; `deregister` never drops self.
            unsafe { ManuallyDrop::drop(&mut self.buffer) };
        }
    }
}

/// A part of a live region, for a work request.
#[derive(Clone, Copy)]
pub struct Segment<'r> {
    pub(crate) entry: abi::ibv_sge,
    region: PhantomData<&'r ()>,
}

impl Segment<'_> {
    /// Returns a segment. The caller has checked that it lies in the region of this key.
    #[inline]
    pub(crate) fn new(addr: u64, length: u32, lkey: u32) -> Self {
        Segment {
            entry: abi::ibv_sge { addr, length, lkey },
            region: PhantomData,
        }
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.entry.length as usize
    }
}

//! Device memory: `ibv_alloc_dm(3)` and its registration.
//!
//! The CPU accesses it only through the library, in aligned words of four bytes. Other accesses
//! first read the surrounding words. That is slow and not meant for a fast path.

use crate::error::{Error, Result};
use crate::object::context::Context;
use crate::object::domain::ProtectionDomain;
use crate::object::region::{AccessFlags, Segment};
use crate::object::thread_safe;
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// Access granularity of device memory in bytes.
const WORD: usize = 4;

/// Unregistered device memory.
pub struct DeviceMemory {
    raw: NonNull<abi::ibv_dm>,
    length: usize,
    free: unsafe extern "C" fn(*mut abi::ibv_dm) -> i32,
    to_device: abi::ibv_memcpy_to_dm,
    from_device: abi::ibv_memcpy_from_dm,
    context: Arc<Context>,
}
thread_safe!(DeviceMemory);

/// Registered device memory. Its addresses begin at zero.
pub struct DeviceRegion {
    raw: NonNull<abi::ibv_mr>,
    // Freed only after the registration has ended.
    memory: ManuallyDrop<DeviceMemory>,
    domain: Arc<ProtectionDomain>,
}
thread_safe!(DeviceRegion);

impl Context {
    /// Allocates `length` bytes, rounded up to whole words (`ibv_alloc_dm(3)`).
    ///
    /// # Errors
    ///
    /// The device has no device memory or too little.
    pub fn device_memory(self: &Arc<Self>, length: usize) -> Result<DeviceMemory> {
        let object = || format!("{} for {length} bytes", self.name());
        let missing = || Error::call("ibv_alloc_dm", object(), libc::EOPNOTSUPP);
        let slots = self.extended().ok_or_else(missing)?;
        let (alloc, free) = slots
            .alloc_dm
            .zip(slots.free_dm)
            .filter(|_| slots.reg_dm_mr.is_some())
            .ok_or_else(missing)?;
        let length = length
            .max(1)
            .checked_next_multiple_of(WORD)
            .ok_or_else(|| Error::invalid("ibv_alloc_dm", format!("{length} bytes")))?;
        let mut attributes = abi::ibv_alloc_dm_attr {
            length,
            ..abi::ibv_alloc_dm_attr::default()
        };
        // SAFETY: the context is open and the function is its own, the attributes are valid during
        // the call.
        let raw = unsafe { alloc(self.raw.as_ptr(), &mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_alloc_dm", object()))?;
        // SAFETY: just allocated; the library filled the structure.
        let copies = unsafe {
            let dm = &*raw.as_ptr();
            dm.memcpy_to_dm.zip(dm.memcpy_from_dm)
        };
        match copies {
            Some((to_device, from_device)) => Ok(DeviceMemory {
                raw,
                length,
                free,
                to_device,
                from_device,
                context: Arc::clone(self),
            }),
            None => {
                // SAFETY: allocated here and not used elsewhere.
                unsafe { free(raw.as_ptr()) };
                Err(missing())
            }
        }
    }
}

impl DeviceMemory {
    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the range of whole words around `length` bytes at `offset`.
    fn around(&self, call: &'static str, offset: usize, length: usize) -> Result<Range<usize>> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        let end = end.ok_or_else(|| {
            let have = self.length;
            Error::invalid(call, format!("{length} bytes at {offset} of {have}"))
        })?;
        Ok(offset / WORD * WORD..end.next_multiple_of(WORD))
    }

    fn words(&self, range: &Range<usize>) -> Result<Vec<u8>> {
        let mut words = vec![0u8; range.len()];
        // SAFETY: the memory is alive; the buffer has `range.len()` bytes, and `around` checked
        // that the memory has them.
        let errno = unsafe {
            let into = words.as_mut_ptr().cast();
            (self.from_device)(into, self.raw.as_ptr(), range.start as u64, words.len())
        };
        match errno {
            0 => Ok(words),
            errno => Err(Error::call(
                "ibv_memcpy_from_dm",
                self.context.name(),
                errno,
            )),
        }
    }

    fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        let range = self.around("DeviceRegion::read", offset, into.len())?;
        let words = self.words(&range)?;
        let from = offset - range.start;
        into.copy_from_slice(&words[from..from + into.len()]);
        Ok(())
    }

    fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        let range = self.around("DeviceRegion::write", offset, bytes.len())?;
        let mut words = self.words(&range)?;
        let at = offset - range.start;
        words[at..at + bytes.len()].copy_from_slice(bytes);
        // SAFETY: the memory is alive; `words` has `range.len()` bytes, and `around` checked that
        // the memory has them.
        let errno = unsafe {
            let from = words.as_ptr().cast();
            (self.to_device)(self.raw.as_ptr(), range.start as u64, from, words.len())
        };
        match errno {
            0 => Ok(()),
            errno => Err(Error::call("ibv_memcpy_to_dm", self.context.name(), errno)),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: owned by self and no longer registered.
        unsafe { (self.free)(self.raw.as_ptr()) };
    }
}

impl ProtectionDomain {
    /// Registers the whole memory (`ibv_reg_dm_mr`). The region owns it.
    ///
    /// # Errors
    ///
    /// The call fails or is not supported.
    pub fn register_device(
        self: &Arc<Self>,
        memory: DeviceMemory,
        access: AccessFlags,
    ) -> Result<DeviceRegion> {
        let object = || format!("{} bytes of {}", memory.length, self.context.name());
        let slot = self.context.extended().and_then(|slots| slots.reg_dm_mr);
        let Some(register) = slot else {
            return Err(Error::call("ibv_reg_dm_mr", object(), libc::EOPNOTSUPP));
        };
        let access = access.0 | abi::IBV_ACCESS_ZERO_BASED;
        // SAFETY: domain and memory are alive.
        let raw = unsafe {
            let (domain, dm) = (self.raw.as_ptr(), memory.raw.as_ptr());
            register(domain, dm, 0, memory.length, access)
        };
        let raw = NonNull::new(raw).ok_or_else(|| Error::last("ibv_reg_dm_mr", object()))?;
        Ok(DeviceRegion {
            raw,
            memory: ManuallyDrop::new(memory),
            domain: Arc::clone(self),
        })
    }
}

impl DeviceRegion {
    /// Returns the length in bytes.
    pub fn length(&self) -> usize {
        self.memory.length
    }

    /// Returns the remote key.
    pub fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered; its fields are plain data that do not change.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    /// Returns a segment for a work request; `None` if it exceeds the region.
    pub fn part(&self, offset: usize, length: usize) -> Option<Segment<'_>> {
        let inside = offset.checked_add(length)? <= self.length();
        let length = u32::try_from(length).ok().filter(|_| inside)?;
        // SAFETY: the region is registered; its fields are plain data that do not change.
        let key = unsafe { (*self.raw.as_ptr()).lkey };
        Some(Segment::new(offset as u64, length, key))
    }

    /// Copies `into.len()` bytes from `offset`.
    ///
    /// # Errors
    ///
    /// The range exceeds the region, or the copy fails.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<()> {
        self.memory.read(offset, into)
    }

    /// Copies `bytes` to `offset`. A peer's simultaneous write to the same word may be lost.
    ///
    /// # Errors
    ///
    /// The range exceeds the region, or the copy fails.
    pub fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.memory.write(offset, bytes)
    }

    /// Ends the adapter's access and returns the memory.
    ///
    /// # Errors
    ///
    /// `ibv_dereg_mr` fails; the memory is leaked.
    pub fn deregister(self) -> Result<DeviceMemory> {
        let mut this = ManuallyDrop::new(self);
        let outcome = this.end();
        // SAFETY: `this` is never dropped, so each field is taken once.
        let (memory, domain) = unsafe {
            let domain = std::ptr::read(&raw const this.domain);
            (ManuallyDrop::take(&mut this.memory), domain)
        };
        drop(domain);
        match outcome {
            Ok(()) => Ok(memory),
            Err(error) => {
                std::mem::forget(memory);
                Err(error)
            }
        }
    }

    fn end(&self) -> Result<()> {
        // SAFETY: called once, by `deregister` or `drop`.
        let errno = unsafe { (self.domain.context.library.functions.dereg_mr)(self.raw.as_ptr()) };
        match errno {
            0 => Ok(()),
            errno => Err(Error::call(
                "ibv_dereg_mr",
                self.domain.context.name(),
                errno,
            )),
        }
    }
}

impl Drop for DeviceRegion {
    fn drop(&mut self) {
        // Memory that is still registered is leaked, not freed.
        if self.end().is_ok() {
            // SAFETY: dropped only here; `deregister` never drops self.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

//! Device memory: ibv_alloc_dm(3). The software adapter's own memory is a piece of its arena.

use crate::arena::PAGE;
use crate::process_memory::ProcessMemory;
use std::sync::Arc;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

/// Advertised size of an adapter's device memory in bytes.
pub const CAPACITY: u64 = 1 << 20;

/// A piece of device memory, freed when dropped.
pub struct DeviceMemory {
    memory: Arc<ProcessMemory>,
    offset: u64,
    length: u64,
}

impl DeviceMemory {
    /// Allocates `length` bytes, zeroed.
    ///
    /// # Errors
    /// EINVAL for length 0; ENOMEM beyond the device's capacity.
    pub fn allocate(memory: &Arc<ProcessMemory>, length: u64) -> Result<DeviceMemory> {
        if length == 0 {
            return Err(refused!(EINVAL, "length is 0: give 1 or more"));
        }
        if length > CAPACITY {
            return Err(refused!(
                ENOMEM,
                "length is {length}, and the device has {CAPACITY} bytes of device memory \
                 (max_dm_size of ibv_query_device_ex)"
            ));
        }
        let arena = memory.arena().ok_or_else(|| {
            refused!(
                ENOMEM,
                "the process has no shared memory for device memory: see `verbena doctor`"
            )
        })?;
        let offset = arena.allocate(length.next_multiple_of(PAGE))?;
        Ok(DeviceMemory {
            memory: memory.clone(),
            offset,
            length,
        })
    }

    /// Copies into device memory (ibv_memcpy_to_dm).
    ///
    /// # Errors
    /// EINVAL for a range that leaves the device memory.
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<()> {
        let target = self.range(offset, source.len())?;
        // SAFETY: `range` checked that the target lies inside this piece of the arena.
        unsafe { target.copy_from(source.as_ptr(), source.len()) };
        Ok(())
    }

    /// Copies out of device memory (ibv_memcpy_from_dm).
    ///
    /// # Errors
    /// EINVAL for a range that leaves the device memory.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<()> {
        let source = self.range(offset, target.len())?;
        // SAFETY: `range` checked that the source lies inside this piece of the arena.
        unsafe { source.copy_to(target.as_mut_ptr(), target.len()) };
        Ok(())
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the offset in the arena.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the address in the adapter's own view; not an address for the application.
    pub fn address(&self) -> u64 {
        self.memory
            .arena()
            .map_or(0, |arena| arena.base() + self.offset)
    }

    fn range(&self, offset: u64, length: usize) -> Result<*mut u8> {
        let end = offset.checked_add(length as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(refused!(
                EINVAL,
                "offset {offset} and length {length} exceed the device memory, which has {} bytes",
                self.length
            ));
        }
        let arena = self.memory.arena().ok_or(Errno::EIO)?;
        Ok(arena.pointer(self.offset + offset))
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        if let Some(arena) = self.memory.arena() {
            arena.free(self.offset..self.offset + self.length.next_multiple_of(PAGE));
        }
    }
}

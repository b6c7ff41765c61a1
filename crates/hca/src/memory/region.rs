//! Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_null_mr(3), ibv_reg_dm_mr.

use crate::context::Pd;
use crate::errno::{Errno, Result};
use crate::memory::adopt::{self, Segment};
use crate::memory::device::DeviceMemory;
use crate::memory::key::KeyEntry;
use crate::memory::place::ACCESS_NULL;
use crate::process::Process;
use crate::shm::desk::SEGMENTS;
use crate::sys::vma::{self, Vma};
use std::sync::Arc;
use std::sync::Mutex;
use verbena_abi::*;

const KNOWN_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_FLUSH_GLOBAL
    | IBV_ACCESS_OPTIONAL_RANGE;
const ANY_WRITE: u32 = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// A registered range of memory.
pub struct Region {
    inner: Mutex<Inner>,
}

struct Inner {
    pd: Arc<Pd>,
    key: u32,
    entry: KeyEntry,
    extents: Vec<u64>,
    device: Option<Arc<DeviceMemory>>,
    registered: bool,
    /// Windows that are bound to it.
    windows: usize,
}

/// What of a region changes: the flags of ibv_rereg_mr(3), each with its new value.
#[derive(Default)]
pub struct Change {
    /// New address and length.
    pub translation: Option<(u64, u64)>,
    /// New protection domain.
    pub pd: Option<Arc<Pd>>,
    /// New access flags.
    pub access: Option<u32>,
}

impl Region {
    /// Registers `[address, address + length)`, named from `iova` on.
    ///
    /// # Errors
    /// EINVAL for flags that contradict each other or a range of nothing; EFAULT for memory that is not mapped or not
    /// writable where the flags want to write; ENOMEM at the device's limit.
    pub fn register(
        pd: &Arc<Pd>,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<Region> {
        check_access(access)?;
        let (entry, extents) = describe(pd, address, length, iova, access)?;
        Region::publish(pd, entry, extents, None)
    }

    /// A region that reads as zeros and swallows writes, as long as the address space.
    pub fn null(pd: &Arc<Pd>) -> Result<Region> {
        let entry = KeyEntry {
            pd: pd.number(),
            access: IBV_ACCESS_LOCAL_WRITE | ACCESS_NULL,
            length: u64::MAX,
            ..KeyEntry::default()
        };
        Region::publish(pd, entry, Vec::new(), None)
    }

    /// Registers part of device memory, named from 0 on.
    pub fn of_device_memory(
        pd: &Arc<Pd>,
        memory: &Arc<DeviceMemory>,
        offset: u64,
        length: u64,
        access: u32,
    ) -> Result<Region> {
        check_access(access)?;
        // Device memory has no virtual address; the interface demands zero-based access.
        if access & IBV_ACCESS_ZERO_BASED == 0 {
            return Err(Errno::EINVAL);
        }
        let end = offset.checked_add(length).ok_or(Errno::EINVAL)?;
        if end > memory.length() {
            return Err(Errno::EINVAL);
        }
        let start = memory.address() + offset;
        let entry = KeyEntry {
            pd: pd.number(),
            access,
            length,
            address: start,
            segments: vec![Segment {
                start,
                end: start + length,
                offset: memory.offset() + offset,
            }],
            ..KeyEntry::default()
        };
        Region::publish(pd, entry, Vec::new(), Some(memory.clone()))
    }

    fn publish(
        pd: &Arc<Pd>,
        entry: KeyEntry,
        extents: Vec<u64>,
        device: Option<Arc<DeviceMemory>>,
    ) -> Result<Region> {
        let keys = &pd.process().keys;
        let key = keys.allocate()?;
        keys.publish(key, &entry);
        pd.retain();
        let pd = pd.clone();
        let inner = Inner {
            pd,
            key,
            entry,
            extents,
            device,
            registered: true,
            windows: 0,
        };
        Ok(Region {
            inner: Mutex::new(inner),
        })
    }

    /// The key, local and remote.
    pub fn key(&self) -> u32 {
        self.lock().key
    }

    /// Bytes.
    pub fn length(&self) -> u64 {
        self.lock().entry.length
    }

    /// What stands behind the key, for a window that binds to part of it. The region stays registered until the window
    /// calls [`Region::unbind`].
    ///
    /// # Errors
    /// EINVAL when the region is not registered any more.
    pub(crate) fn bind(&self) -> Result<KeyEntry> {
        let mut inner = self.lock();
        if !inner.registered {
            return Err(Errno::EINVAL);
        }
        inner.windows += 1;
        Ok(inner.entry.clone())
    }

    /// A window is bound to the region no longer.
    pub(crate) fn unbind(&self) {
        self.lock().windows -= 1;
    }

    /// Changes a region in place, under its key. If the new values are refused the old ones stay valid.
    pub fn reregister(&self, change: Change) -> Result<()> {
        let mut inner = self.lock();
        let access = change.access.unwrap_or(inner.entry.access);
        check_access(access)?;
        if inner.entry.access & ACCESS_NULL != 0 || inner.device.is_some() {
            return Err(Errno::EINVAL);
        }
        let pd = change.pd.unwrap_or_else(|| inner.pd.clone());
        let (mut entry, extents) = match change.translation {
            Some((address, length)) => describe(&pd, address, length, address, access)?,
            None => {
                let (address, length) = (inner.entry.address, inner.entry.length);
                describe(&pd, address, length, inner.entry.iova, access)?
            }
        };
        entry.pd = pd.number();
        let process = pd.process();
        process.keys.revoke(inner.key);
        process.fence();
        process.keys.publish(inner.key, &entry);
        let old_extents = std::mem::replace(&mut inner.extents, extents);
        part(process, &old_extents);
        pd.retain();
        inner.pd.release();
        inner.pd = pd;
        inner.entry = entry;
        Ok(())
    }

    /// Ends the registration. When this returns no peer touches the memory any more.
    ///
    /// # Errors
    /// EBUSY while windows are bound to the region.
    pub fn deregister(&self) -> Result<()> {
        let mut inner = self.lock();
        if !inner.registered {
            return Err(Errno::EINVAL);
        }
        if inner.windows > 0 {
            return Err(Errno::EBUSY);
        }
        inner.registered = false;
        withdraw(&inner);
        inner.device = None;
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn withdraw(inner: &Inner) {
    let process = inner.pd.process();
    process.keys.revoke(inner.key);
    process.fence();
    process.keys.release(inner.key);
    part(process, &inner.extents);
    inner.pd.release();
}

fn part(process: &Process, extents: &[u64]) {
    if let Some(arena) = process.arena.as_ref() {
        for extent in extents {
            arena.part(*extent);
        }
    }
}

fn check_access(access: u32) -> Result<()> {
    if access & !KNOWN_ACCESS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    // The architecture (o10-37.2.1): remote write and atomic need local write.
    let remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & remote_changes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

fn describe(
    pd: &Arc<Pd>,
    address: u64,
    length: u64,
    iova: u64,
    access: u32,
) -> Result<(KeyEntry, Vec<u64>)> {
    let iova = if access & IBV_ACCESS_ZERO_BASED != 0 {
        0
    } else {
        iova
    };
    let mut entry = KeyEntry {
        pd: pd.number(),
        access,
        iova,
        length,
        address,
        ..KeyEntry::default()
    };
    let on_demand = access & IBV_ACCESS_ON_DEMAND != 0;
    if on_demand && address == 0 && length == u64::MAX {
        // Implicit on-demand paging: the whole address space.
        return Ok((entry, Vec::new()));
    }
    let end = address.checked_add(length).ok_or(Errno::EINVAL)?;
    iova.checked_add(length).ok_or(Errno::EINVAL)?;
    if length == 0 {
        return Err(Errno::EINVAL);
    }
    if on_demand {
        return Ok((entry, Vec::new()));
    }
    let process = pd.process();
    let _registration = process.registration.lock();
    let mappings = vma::all()?;
    check_mapped(&mappings, address, end, access)?;
    let mut extents = Vec::new();
    if let Some(arena) = process.arena.as_ref() {
        arena.collect(&mappings);
        (entry.segments, extents) = adopt::adopt(arena, &mappings, address, end, SEGMENTS);
    }
    Ok((entry, extents))
}

/// Every byte must be mapped and readable, and writable where the flags want to write: what pinning the pages would
/// find out on hardware.
fn check_mapped(mappings: &[Vma], start: u64, end: u64, access: u32) -> Result<()> {
    let mut at = start;
    for vma in mappings
        .iter()
        .filter(|vma| vma.end > start && vma.start < end)
    {
        if vma.start > at || !vma.readable || (access & ANY_WRITE != 0 && !vma.writable) {
            return Err(Errno::EFAULT);
        }
        at = vma.end;
    }
    if at < end { Err(Errno::EFAULT) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_flags_that_contradict_are_refused() {
        assert_eq!(check_access(IBV_ACCESS_REMOTE_READ), Ok(()));
        assert_eq!(check_access(IBV_ACCESS_REMOTE_WRITE), Err(Errno::EINVAL));
        assert_eq!(check_access(IBV_ACCESS_REMOTE_ATOMIC), Err(Errno::EINVAL));
        assert_eq!(check_access(1 << 15), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn a_range_with_a_hole_or_without_rights_is_refused() {
        let vma = |start, end, writable| Vma {
            start,
            end,
            readable: true,
            writable,
            shared: false,
            offset: 0,
            inode: 0,
            special: false,
        };
        let mappings = [
            vma(0x1000, 0x3000, true),
            vma(0x3000, 0x4000, false),
            vma(0x5000, 0x6000, true),
        ];
        let check = |start, end, access| check_mapped(&mappings, start, end, access);
        assert_eq!(check(0x1800, 0x2800, IBV_ACCESS_LOCAL_WRITE), Ok(()));
        assert_eq!(check(0x1800, 0x3800, 0), Ok(()));
        assert_eq!(
            check(0x1800, 0x3800, IBV_ACCESS_LOCAL_WRITE),
            Err(Errno::EFAULT)
        );
        assert_eq!(check(0x3000, 0x5001, 0), Err(Errno::EFAULT));
        assert_eq!(check(0x0800, 0x1800, 0), Err(Errno::EFAULT));
        assert_eq!(check(0x5000, 0x6001, 0), Err(Errno::EFAULT));
    }
}

//! Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_alloc_null_mr(3), ibv_reg_dm_mr.

use crate::adopt;
use crate::device::DeviceMemory;
use crate::dmabuf::DmaBuf;
use crate::domain::Pd;
use crate::explain::access_names;
use crate::fence::Stopped;
use crate::key::{KeyEntry, KeyKind};
use crate::limits::MAX_MR_SIZE;
use crate::pins::{HoldId, Segment};
use crate::process_memory::ProcessMemory;
use crate::resolve::{ACCESS_NULL, ACCESS_OWN_MAPPING};
use crate::restore;
use std::sync::{Arc, Mutex, MutexGuard};
use verbena_abi::*;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;
use verbena_hca_os::vma::{self, Vma};
use verbena_hca_shm::context_table::SEGMENTS;

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
pub(super) const ANY_WRITE: u32 =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

/// A registered range of memory.
///
/// Its lock is never held while a thread waits for peers: an operation that changes or ends the
/// registration records that in `stage` and releases the lock first, because a thread that serves a
/// peer may be about to bind or unbind a window.
pub struct Region {
    inner: Mutex<Inner>,
}

struct Inner {
    pd: Arc<Pd>,
    key: u32,
    range: Range,
    hold: Option<HoldId>,
    backing: Backing,
    stage: RegionStage,
    windows: usize,
    /// Windows that were bound while the region was changing; their keys become valid when the
    /// change is over.
    pending: Vec<(u32, Narrow)>,
}

/// The memory behind a region.
enum Backing {
    /// Memory of the application, or none.
    Application,
    /// Device memory.
    Device { _memory: Arc<DeviceMemory> },
    /// A dma-buf.
    DmaBuf { _buffer: DmaBuf },
}

/// Derives the entry of a window's key from the entry of its region.
pub type Narrow = Arc<dyn Fn(&KeyEntry) -> Result<KeyEntry> + Send + Sync>;

/// A region's range, as requested.
#[derive(Clone, Copy)]
struct Range {
    address: u64,
    length: u64,
    iova: u64,
    access: u32,
}

enum RegionStage {
    Registered,
    /// Still registered, but reserved by a thread that is about to change it.
    Reserved,
    /// Waiting for peers before the key gets this meaning.
    Changing(KeyEntry),
    /// Deregistered, or being deregistered.
    Gone,
}

/// A change of a region: the flags of ibv_rereg_mr(3), each with its new value.
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
    /// Registers `[address, address + length)`, with addresses that start at `iova`. An empty range
    /// permits only accesses of length 0.
    ///
    /// # Errors
    /// EINVAL for contradictory flags and for a range that leaves the address space; EOPNOTSUPP for
    /// unknown flags; EFAULT for memory that is not mapped, or not writable where the flags include
    /// writing; ENOMEM at the device's limit.
    pub fn register(
        pd: &Arc<Pd>,
        address: u64,
        length: u64,
        iova: u64,
        access: u32,
    ) -> Result<Region> {
        check_access(access)?;
        let key = pd.memory().keys().allocate(KeyKind::Region)?;
        let range = Range {
            address,
            length,
            iova,
            access,
        };
        match describe(pd, range) {
            Ok(entry) => Ok(Region::publish(pd, key, entry, Backing::Application)),
            Err(error) => {
                pd.memory().keys().release(key, KeyKind::Region);
                Err(error)
            }
        }
    }

    /// Returns a null region: it reads as zeros, discards writes and is as long as the address
    /// space.
    ///
    /// # Errors
    /// ENOMEM at the device's limit.
    pub fn null(pd: &Arc<Pd>) -> Result<Region> {
        let entry = KeyEntry {
            pd: pd.number(),
            access: IBV_ACCESS_LOCAL_WRITE | ACCESS_NULL,
            length: u64::MAX,
            ..KeyEntry::default()
        };
        let key = pd.memory().keys().allocate(KeyKind::Region)?;
        Ok(Region::publish(pd, key, entry, Backing::Application))
    }

    /// Registers part of device memory, with addresses that start at 0.
    ///
    /// # Errors
    /// EINVAL for flags that contradict each other or are not zero-based, and for a range that
    /// leaves the memory; EOPNOTSUPP for unknown flags; ENOMEM at the device's limit.
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
            return Err(refused!(
                EINVAL,
                "access is {}: device memory has no virtual address, so IBV_ACCESS_ZERO_BASED is \
                 needed",
                access_names(access)
            ));
        }
        let end = offset.checked_add(length);
        if end.is_none_or(|end| end > memory.length()) {
            return Err(refused!(
                EINVAL,
                "offset {offset} and length {length} exceed the device memory, which has {} bytes",
                memory.length()
            ));
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
        let key = pd.memory().keys().allocate(KeyKind::Region)?;
        let backing = Backing::Device {
            _memory: memory.clone(),
        };
        Ok(Region::publish(pd, key, entry, backing))
    }

    /// Registers part of a dma-buf, with addresses that start at `iova`.
    ///
    /// # Errors
    /// ENOMEM at the device's limit.
    pub(super) fn of_dma_buf(
        pd: &Arc<Pd>,
        buffer: DmaBuf,
        iova: u64,
        access: u32,
    ) -> Result<Region> {
        let entry = KeyEntry {
            pd: pd.number(),
            access: access | ACCESS_OWN_MAPPING,
            iova,
            length: buffer.length(),
            address: buffer.address(),
            ..KeyEntry::default()
        };
        let key = pd.memory().keys().allocate(KeyKind::Region)?;
        let backing = Backing::DmaBuf { _buffer: buffer };
        Ok(Region::publish(pd, key, entry, backing))
    }

    fn publish(pd: &Arc<Pd>, key: u32, entry: KeyEntry, backing: Backing) -> Region {
        pd.retain();
        let inner = Inner {
            pd: pd.clone(),
            key,
            range: Range::of(&entry),
            hold: entry.hold,
            backing,
            stage: RegionStage::Registered,
            windows: 0,
            pending: Vec::new(),
        };
        show(pd.memory(), key, entry);
        Region {
            inner: Mutex::new(inner),
        }
    }

    /// Returns the key, which is both local and remote.
    pub fn key(&self) -> u32 {
        self.lock().key
    }

    /// Returns the length in bytes.
    pub fn length(&self) -> u64 {
        self.lock().range.length
    }

    /// Counts a window that is to be bound to part of the region. The region cannot change or end
    /// until the window calls [`Region::unbind`].
    ///
    /// # Errors
    /// EINVAL when the region is deregistered; the errors of `narrow`.
    pub fn reserve(&self, narrow: &Narrow) -> Result<()> {
        let mut inner = self.lock();
        match &inner.stage {
            RegionStage::Registered | RegionStage::Reserved => {
                let entry = inner.pd.memory().keys().entry(inner.key);
                narrow(&entry.ok_or_else(gone)?)?
            }
            RegionStage::Changing(next) => narrow(next)?,
            RegionStage::Gone => return Err(gone()),
        };
        inner.windows += 1;
        Ok(())
    }

    /// Makes a window's key valid, after [`Region::reserve`], or at the end of a change in
    /// progress. Does not wait for that, because the caller may hold a resource that the change
    /// waits for.
    ///
    /// # Errors
    /// As [`Region::reserve`].
    pub fn publish_window(&self, key: u32, narrow: &Narrow) -> Result<()> {
        let mut inner = self.lock();
        match inner.stage {
            RegionStage::Registered | RegionStage::Reserved => {
                let keys = &inner.pd.memory().keys();
                keys.derive(key, inner.key, |entry| narrow(entry))
            }
            RegionStage::Changing(_) => {
                inner.pending.push((key, narrow.clone()));
                Ok(())
            }
            RegionStage::Gone => Err(gone()),
        }
    }

    /// Makes a window's key invalid for good.
    pub fn revoke_window(&self, key: u32) {
        let mut inner = self.lock();
        inner.pending.retain(|(pending, _)| *pending != key);
        inner.pd.memory().keys().revoke(key);
    }

    /// Ends the binding of a window.
    pub fn unbind(&self) {
        self.lock().windows -= 1;
    }

    /// Changes a region in place, under its key. If the new values are refused, the old ones stay
    /// valid. On return, no peer touches memory that only the old registration covered.
    ///
    /// # Errors
    /// EBUSY while windows are bound to the region (their keys name memory by its old range and
    /// rights) or while another thread changes it; EINVAL for a null region and one of device
    /// memory, EOPNOTSUPP for one of a dma-buf; otherwise as [`Region::register`].
    pub fn reregister(&self, change: Change) -> Result<()> {
        let (key, old, old_pd) = {
            let mut inner = self.lock();
            if let Backing::DmaBuf { .. } = inner.backing {
                return Err(refused!(
                    EOPNOTSUPP,
                    "the region is of a dma-buf, which cannot be changed: deregister it and \
                     register the buffer again"
                ));
            }
            if inner.range.access & ACCESS_NULL != 0
                || matches!(inner.backing, Backing::Device { .. })
            {
                return Err(refused!(
                    EINVAL,
                    "the region is a null region or of device memory, which cannot be changed: \
                     deregister it and create another"
                ));
            }
            inner.check_unused()?;
            inner.stage = RegionStage::Reserved;
            (inner.key, inner.range, inner.pd.clone())
        };
        let pd = change.pd.unwrap_or_else(|| old_pd.clone());
        let (address, length, iova) = match change.translation {
            Some((address, length)) => (address, length, address),
            None => (old.address, old.length, old.iova),
        };
        let range = Range {
            address,
            length,
            iova,
            access: change.access.unwrap_or(old.access),
        };
        let memory = pd.memory();
        let entry = match check_access(range.access).and_then(|()| describe(&pd, range)) {
            Ok(entry) => entry,
            Err(error) => {
                self.lock().stage = RegionStage::Registered;
                return Err(error);
            }
        };
        let old_hold = {
            let mut inner = self.lock();
            // Another thread bound a window meanwhile.
            if inner.windows > 0 {
                inner.stage = RegionStage::Registered;
                drop(inner);
                depart(memory, entry.hold, None);
                return Err(bound(1));
            }
            inner.stage = RegionStage::Changing(entry.clone());
            inner.hold
        };
        memory.keys().revoke(key);
        let stopped = memory.fence_revoked();
        let (range, hold) = (Range::of(&entry), entry.hold);
        show(memory, key, entry);
        pd.retain();
        {
            let mut inner = self.lock();
            (inner.range, inner.hold, inner.pd) = (range, hold, pd.clone());
            inner.stage = RegionStage::Registered;
            for (window, narrow) in std::mem::take(&mut inner.pending) {
                // It was found to fit when it was reserved.
                let _ = memory.keys().derive(window, key, |entry| narrow(entry));
            }
        }
        depart(memory, old_hold, stopped);
        old_pd.release();
        Ok(())
    }

    /// Ends the registration. On return, no peer touches the memory any more, and pages that no
    /// other registration covers are private memory again.
    ///
    /// # Errors
    /// EBUSY while windows are bound to the region or another thread changes it; EINVAL when it is
    /// already deregistered.
    pub fn deregister(&self) -> Result<()> {
        let (key, hold, pd, backing) = {
            let mut inner = self.lock();
            inner.check_unused()?;
            inner.stage = RegionStage::Gone;
            let backing = std::mem::replace(&mut inner.backing, Backing::Application);
            (inner.key, inner.hold, inner.pd.clone(), backing)
        };
        let memory = pd.memory();
        memory.keys().revoke(key);
        let stopped = memory.fence_revoked();
        memory.keys().release(key, KeyKind::Region);
        depart(memory, hold, stopped);
        drop(backing);
        pd.release();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Inner {
    /// Checks that the region may change or end now.
    fn check_unused(&self) -> Result<()> {
        match self.stage {
            RegionStage::Gone => Err(gone()),
            RegionStage::Reserved | RegionStage::Changing(_) => Err(refused!(
                EBUSY,
                "another thread is changing the region with ibv_rereg_mr: wait for it"
            )),
            RegionStage::Registered if self.windows > 0 => Err(bound(self.windows)),
            RegionStage::Registered => Ok(()),
        }
    }
}

#[cold]
fn gone() -> Errno {
    refused!(EINVAL, "the memory region is already deregistered")
}

#[cold]
fn bound(windows: usize) -> Errno {
    refused!(
        EBUSY,
        "memory windows are bound to the region (at least {windows}): invalidate, unbind or \
         deallocate them first"
    )
}

impl Range {
    fn of(entry: &KeyEntry) -> Range {
        Range {
            address: entry.address,
            length: entry.length,
            iova: entry.iova,
            access: entry.access,
        }
    }
}

/// Publishes a key whose pages were adopted earlier. An eviction may have moved them since, so
/// their offsets are read again.
fn show(memory: &ProcessMemory, key: u32, mut entry: KeyEntry) {
    let _registration = memory.registration().lock();
    if let (Some(hold), Some(arena)) = (entry.hold, memory.arena()) {
        entry.segments = arena.pins().places(hold).to_vec();
    }
    memory.keys().publish(key, entry);
}

/// Ends the registration of pages. Stopped peers may still write to them.
fn depart(memory: &ProcessMemory, hold: Option<HoldId>, stopped: Option<Stopped>) {
    // A forked child must not restore pages that its ancestor registered: it has copies of them
    // already.
    if memory.is_inherited() {
        return;
    }
    let (Some(hold), Some(arena)) = (hold, memory.arena()) else {
        return;
    };
    let release = stopped.as_ref().map(Stopped::release);
    let is_given = {
        let _registration = memory.registration().lock();
        restore::depart(arena, hold, release.as_ref())
    };
    // Pages that stayed in place belong to the application alone; they cannot be quarantined.
    if let (false, Some(stopped)) = (is_given, stopped) {
        stopped.wait_or_cut_off();
    }
}

pub(super) fn check_access(access: u32) -> Result<()> {
    if access & !KNOWN_ACCESS != 0 {
        return Err(refused!(
            EOPNOTSUPP,
            "access is {}: the device does not support the flags {:#x}",
            access_names(access),
            access & !KNOWN_ACCESS
        ));
    }
    // IBA (o10-37.2.1): remote write and remote atomic need local write.
    let remote_changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if access & remote_changes != 0 && access & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(refused!(
            EINVAL,
            "access is {}: IBV_ACCESS_REMOTE_WRITE and IBV_ACCESS_REMOTE_ATOMIC also need \
             IBV_ACCESS_LOCAL_WRITE",
            access_names(access)
        ));
    }
    Ok(())
}

/// Returns the entry of a key for the range, after adopting its pages.
fn describe(pd: &Arc<Pd>, range: Range) -> Result<KeyEntry> {
    let Range {
        address,
        length,
        access,
        ..
    } = range;
    let iova = match access & IBV_ACCESS_ZERO_BASED {
        0 => range.iova,
        _ => 0,
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
        return Ok(entry);
    }
    let (Some(end), Some(_)) = (address.checked_add(length), iova.checked_add(length)) else {
        return Err(refused!(
            EINVAL,
            "addr {address:#x} or iova {iova:#x} with length {length:#x} exceeds the address space"
        ));
    };
    if length > MAX_MR_SIZE.get() {
        return Err(refused!(
            EINVAL,
            "length is {length}, and at most {MAX_MR_SIZE} are allowed (max_mr_size of \
             ibv_query_device)"
        ));
    }
    if on_demand || length == 0 {
        return Ok(entry);
    }
    let memory = pd.memory();
    let _registration = memory.registration().lock();
    let Some(arena) = memory.arena() else {
        check_mapped(&vma::overlapping(address, end)?, address, end, access)?;
        return Ok(entry);
    };
    let mappings = arena.maps().overlapping(address, end)?;
    check_mapped(&mappings, address, end, access)?;
    let hold = adopt::adopt(arena, &mappings, address, end, SEGMENTS);
    entry.segments = arena.pins().segments(hold).to_vec();
    entry.hold = Some(hold);
    Ok(entry)
}

/// Checks that every byte is mapped and readable, and writable where the flags include writing. On
/// hardware, pinning the pages finds these errors.
fn check_mapped(mappings: &[Vma], start: u64, end: u64, access: u32) -> Result<()> {
    let mut at = start;
    for vma in mappings
        .iter()
        .filter(|vma| vma.end > start && vma.start < end)
    {
        if vma.start > at {
            break;
        }
        if !vma.readable || (access & ANY_WRITE != 0 && !vma.writable) {
            return Err(refused!(
                EFAULT,
                "[{start:#x}, {end:#x}): the mapping at {at:#x} may not be {}: change it with \
                 mprotect, or access, which is {}",
                if vma.readable { "written" } else { "read" },
                access_names(access)
            ));
        }
        at = vma.end;
    }
    if at < end {
        return Err(refused!(
            EFAULT,
            "[{start:#x}, {end:#x}): nothing is mapped at {at:#x}; check addr and length"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contradictory_access_flags_are_refused() {
        assert_eq!(check_access(IBV_ACCESS_REMOTE_READ), Ok(()));
        assert_eq!(check_access(IBV_ACCESS_REMOTE_WRITE), Err(Errno::EINVAL));
        assert_eq!(check_access(IBV_ACCESS_REMOTE_ATOMIC), Err(Errno::EINVAL));
        assert_eq!(check_access(1 << 15), Err(Errno::EOPNOTSUPP));
    }

    #[test]
    fn range_with_a_hole_or_without_rights_is_refused() {
        let vma = |start, end, writable| Vma {
            start,
            end,
            readable: true,
            writable,
            executable: false,
            shared: false,
            offset: 0,
            inode: 0,
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

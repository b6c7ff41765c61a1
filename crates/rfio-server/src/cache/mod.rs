//! The block cache: one memory arena, shared by all readers and registered with the adapter once.
//!
//! # Rules
//!
//! - The arena has a fixed number of slots of one block each and never grows. The configuration
//!   sets its size.
//! - A slot is **empty**, **filling** (one thread writes it and holds the only claim), or
//!   **ready**.
//! - A ready slot is immutable. The holder of a [`Pinned`] may read its valid bytes; a slot with
//!   pins is never reused.
//! - Only the first `valid` bytes of a ready slot are ever returned, never data of an earlier file
//!   behind them.
//! - A key contains the file's *version* (its size and times), so blocks of a changed file are
//!   never requested again and are evicted in time.
//! - When every slot is pinned or filling, the cache reports this and the caller reads past it. The
//!   cache never waits for readers.

mod arena;
mod replacement;
mod slots;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

pub use arena::Arena;
use slots::{SlotClaim, SlotState, Slots};
use verbena_rfio_protocol::checksum;
use verbena_verbs::Segment;

/// A version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Digest of size and times.
    pub version: u64,
}

/// A block of a version of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockKey {
    /// The file.
    pub file: FileVersion,
    /// Block number.
    pub block: u64,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    arena: Arena,
    block: usize,
    slots: Mutex<Slots>,
    settled: Condvar,
    /// Whether the pages of each slot are allocated.
    touched: Box<[AtomicBool]>,
}

/// A ready block, pinned for the lifetime of this value.
#[derive(Debug)]
pub struct Pinned {
    cache: Arc<Cache>,
    slot: usize,
    valid: usize,
}

impl Cache {
    /// Creates a cache of `bytes` bytes, rounded down to whole blocks (at least two).
    ///
    /// # Errors
    /// Returns the error of mmap(2).
    pub fn new(bytes: usize, block: usize) -> io::Result<Arc<Self>> {
        let count = (bytes / block).max(2);
        Ok(Self::in_arena(Arena::new(count * block)?, block))
    }

    /// Creates a cache in existing memory.
    pub fn in_arena(arena: Arena, block: usize) -> Arc<Self> {
        let count = arena.length() / block;
        Arc::new(Self {
            arena,
            block,
            slots: Mutex::new(Slots::new(count)),
            settled: Condvar::new(),
            touched: (0..count).map(|_| AtomicBool::new(false)).collect(),
        })
    }

    /// Returns the number of blocks that it can hold.
    pub fn slots(&self) -> usize {
        self.arena.length() / self.block
    }

    /// Returns the block size in bytes.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Returns the memory.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Returns the block if it is ready.
    pub fn lookup(self: &Arc<Self>, key: &BlockKey) -> Option<Pinned> {
        let mut slots = self.lock();
        let slot = slots.find(key)?;
        self.pin(&mut slots, slot)
    }

    /// Returns the block; reads it with `fill` if no thread has done so yet. `fill` writes from the
    /// beginning and returns the number of valid bytes. Returns `None` if every slot is in use.
    ///
    /// Callers that want a block which another thread is reading wait for that thread. May block;
    /// do not call it from an event loop.
    ///
    /// # Errors
    /// Returns the error of `fill`.
    pub fn fetch(
        self: &Arc<Self>,
        key: &BlockKey,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Option<Pinned>> {
        let mut slots = self.lock();
        let slot = loop {
            match slots.claim(key) {
                SlotClaim::Ready(slot) => return Ok(self.pin(&mut slots, slot)),
                SlotClaim::Filling => {
                    slots = self
                        .settled
                        .wait(slots)
                        .unwrap_or_else(|poison| poison.into_inner())
                }
                SlotClaim::Yours(slot) => break slot,
                SlotClaim::Full => return Ok(None),
            }
        };
        drop(slots);

        let claim = Filling { cache: self, slot };
        self.touch(slot);
        // SAFETY: the range is inside the arena. The slot is in state Filling, which `claim` set
        // for this call alone, so no reference into it exists.
        let bytes = unsafe { self.arena.slice_mut(slot * self.block, self.block) };
        Ok(claim.finish_fill(fill(bytes)?))
    }

    /// Pins the blocks that are ready, and reads with one call of `fill` those that are neither
    /// cached nor being read. `fill` receives their indices in `keys` with the memory to fill, and
    /// returns the number of valid bytes of each. The result is `None` for blocks that another
    /// thread is reading, that could not be read, or for which there is no slot.
    ///
    /// Never waits for another thread while holding slots that other threads may wait for, so calls
    /// with the same blocks in different orders cannot deadlock. `fill` may block; do not call it
    /// from an event loop.
    pub fn fetch_together(
        self: &Arc<Self>,
        keys: &[BlockKey],
        fill: impl FnOnce(Vec<(usize, &mut [u8])>) -> Vec<io::Result<usize>>,
    ) -> Vec<Option<Pinned>> {
        let mut pinned: Vec<_> = keys.iter().map(|_| None).collect();
        let mut claimed = Vec::new();
        let mut slots = self.lock();
        for (number, key) in keys.iter().enumerate() {
            match slots.claim(key) {
                SlotClaim::Ready(slot) => pinned[number] = self.pin(&mut slots, slot),
                SlotClaim::Filling => {}
                SlotClaim::Yours(slot) => claimed.push((number, Filling { cache: self, slot })),
                SlotClaim::Full => break,
            }
        }
        drop(slots);

        let memory = claimed.iter().map(|(number, claim)| {
            self.touch(claim.slot);
            // SAFETY: the range is inside the arena. Each slot is in state Filling, which `claim`
            // set for this call alone and for one block, so the slots differ and no reference into
            // them exists.
            let bytes = unsafe { self.arena.slice_mut(claim.slot * self.block, self.block) };
            (*number, bytes)
        });
        let read = match claimed.is_empty() {
            true => Vec::new(),
            false => fill(memory.collect()),
        };
        for ((number, claim), valid) in claimed.into_iter().zip(read) {
            if let Ok(valid) = valid {
                pinned[number] = claim.finish_fill(valid);
            }
        }
        pinned
    }

    /// Allocates the pages of all slots, one slot at a time, while `go_on` returns true.
    pub fn touch_all(&self, go_on: impl Fn() -> bool) {
        (0..self.slots())
            .take_while(|_| go_on())
            .for_each(|slot| self.touch(slot));
    }

    /// Allocates the pages of a slot, once.
    fn touch(&self, slot: usize) {
        if !self.touched[slot].swap(true, Ordering::Relaxed) {
            self.arena.touch(slot * self.block, self.block);
        }
    }

    /// Returns the numbers of ready and of pinned blocks, for metrics.
    pub fn occupancy(&self) -> (usize, usize) {
        self.lock().occupancy()
    }

    fn pin(self: &Arc<Self>, slots: &mut Slots, slot: usize) -> Option<Pinned> {
        let valid = slots.pin(slot)?;
        Some(Pinned {
            cache: Arc::clone(self),
            slot,
            valid,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        // Every critical section leaves the slots consistent before it can panic.
        self.slots
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A claimed slot; becomes empty if the fill fails or panics.
struct Filling<'a> {
    cache: &'a Arc<Cache>,
    slot: usize,
}

impl Filling<'_> {
    /// Makes the block ready, with `valid` bytes that belong to the file.
    fn finish_fill(self, valid: usize) -> Option<Pinned> {
        let Self { cache, slot } = self;
        std::mem::forget(self);
        let valid = valid.min(cache.block);
        let mut slots = cache.lock();
        slots.finish_fill(
            slot,
            SlotState::Ready {
                valid,
                checksum: None,
            },
        );
        let held = slots.hold(slot);
        drop(slots);
        cache.settled.notify_all();
        held.map(|valid| Pinned {
            cache: Arc::clone(cache),
            slot,
            valid,
        })
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.cache.lock().finish_fill(self.slot, SlotState::Empty);
        self.cache.settled.notify_all();
    }
}

impl Pinned {
    /// Returns the valid bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slot is ready and pinned, so no thread writes to it while `self` lives, and
        // the fill wrote `valid` bytes.
        unsafe {
            self.cache
                .arena
                .slice(self.slot * self.cache.block, self.valid)
        }
    }

    /// Returns whether both are the same block.
    pub fn is_same_block(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cache, &other.cache) && self.slot == other.slot
    }

    /// Returns part of the valid bytes as a segment for the adapter, if the cache is registered
    /// with one.
    ///
    /// # Panics
    /// If the range is not within the valid bytes.
    pub fn segment(
        &self,
        range: std::ops::Range<usize>,
    ) -> Option<verbena_verbs::Result<Segment<'_>>> {
        let inside = range.start <= range.end && range.end <= self.valid;
        assert!(
            inside,
            "bytes {range:?} of a block with {} valid ones",
            self.valid
        );
        self.cache
            .arena
            .segment(self.slot * self.cache.block + range.start, range.len())
    }

    /// Returns the CRC32C of all valid bytes, which is kept with the block.
    pub fn checksum(&self) -> u32 {
        if let Some(checksum) = self.cache.lock().checksum(self.slot) {
            return checksum;
        }
        let checksum = checksum::crc32c(self.bytes());
        self.cache.lock().remember_checksum(self.slot, checksum);
        checksum
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        self.cache.lock().unpin(self.slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(inode: u64, block: u64) -> BlockKey {
        BlockKey {
            file: FileVersion {
                device: 1,
                inode,
                version: 1,
            },
            block,
        }
    }

    fn fill_with(byte: u8, length: usize) -> impl FnOnce(&mut [u8]) -> io::Result<usize> {
        move |bytes| {
            bytes[..length].fill(byte);
            Ok(length)
        }
    }

    #[test]
    fn a_block_is_read_once() {
        let cache = Cache::new(4 * 4096, 4096).unwrap();
        let first = cache
            .fetch(&key(1, 0), fill_with(7, 4096))
            .unwrap()
            .unwrap();
        let second = cache
            .fetch(&key(1, 0), |_| panic!("must not be read again"))
            .unwrap()
            .unwrap();
        assert_eq!(first.bytes().as_ptr(), second.bytes().as_ptr());
        assert_eq!(first.checksum(), checksum::crc32c(&[7; 4096]));
    }

    /// Returns the minor page faults of this thread.
    fn page_faults() -> i64 {
        // SAFETY: `rusage` is plain integers, for which zero is a value, and the pointer is to live
        // memory.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage.ru_minflt
        }
    }

    #[test]
    fn a_block_is_filled_for_the_first_time_without_a_fault_for_each_page() {
        const PAGES: usize = 64;
        let cache = Cache::new(4 * PAGES * 4096, PAGES * 4096).unwrap();
        let mut faults = 0;
        let filled = cache.fetch(&key(1, 0), |bytes| {
            let before = page_faults();
            bytes.fill(7);
            faults = page_faults() - before;
            Ok(bytes.len())
        });
        assert!(filled.unwrap().is_some());
        assert!(faults < PAGES as i64 / 4, "{faults} page faults");
    }

    #[test]
    fn touch_all_allocates_pages_until_it_is_stopped() {
        const PAGES: usize = 64;
        let cache = Cache::new(4 * PAGES * 4096, PAGES * 4096).unwrap();
        cache.touch_all(|| false);
        let are_touched = |cache: &Cache| {
            let touched = cache.touched.iter();
            touched
                .map(|slot| slot.load(Ordering::Relaxed))
                .collect::<Vec<_>>()
        };
        assert_eq!(are_touched(&cache), [false; 4]);
        cache.touch_all(|| true);
        assert_eq!(are_touched(&cache), [true; 4]);
        let before = page_faults();
        let filled = cache.fetch(&key(1, 0), fill_with(7, PAGES * 4096));
        assert!(filled.unwrap().is_some());
        let faults = page_faults() - before;
        assert!(faults < PAGES as i64 / 4, "{faults} page faults");
    }

    #[test]
    fn bytes_of_an_earlier_file_never_leave() {
        let cache = Cache::new(2 * 4096, 4096).unwrap();
        for inode in 0..8 {
            drop(
                cache
                    .fetch(&key(inode, 0), fill_with(0xAA, 4096))
                    .unwrap()
                    .unwrap(),
            );
        }
        let short = cache
            .fetch(&key(100, 0), fill_with(1, 10))
            .unwrap()
            .unwrap();
        assert_eq!(short.bytes(), [1; 10]);
    }

    #[test]
    fn pinned_blocks_are_never_reused_and_a_full_cache_says_so() {
        let cache = Cache::new(2 * 4096, 4096).unwrap();
        let a = cache
            .fetch(&key(1, 0), fill_with(1, 4096))
            .unwrap()
            .unwrap();
        let b = cache
            .fetch(&key(2, 0), fill_with(2, 4096))
            .unwrap()
            .unwrap();
        assert!(
            cache
                .fetch(&key(3, 0), fill_with(3, 4096))
                .unwrap()
                .is_none()
        );
        drop(a);
        let c = cache
            .fetch(&key(3, 0), fill_with(3, 4096))
            .unwrap()
            .unwrap();
        assert_eq!((b.bytes()[0], c.bytes()[0]), (2, 3));
        assert!(cache.lookup(&key(1, 0)).is_none());
    }

    #[test]
    fn a_failed_fill_leaves_no_block_and_wakes_those_who_wait() {
        let cache = Cache::new(2 * 4096, 4096).unwrap();
        let (entered, enter) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let failing = scope.spawn(|| {
                cache.fetch(&key(1, 0), |_| {
                    entered.send(()).unwrap();
                    Err(io::Error::other("disk"))
                })
            });
            enter.recv().unwrap();
            let waiting = cache.fetch(&key(1, 0), fill_with(5, 1)).unwrap().unwrap();
            assert_eq!(waiting.bytes(), [5]);
            assert!(failing.join().unwrap().is_err());
        });
    }

    /// Reads blocks together, each filled with its file's inode number.
    fn read_together(cache: &Arc<Cache>, inodes: &[u64]) -> Vec<Option<Pinned>> {
        let keys: Vec<BlockKey> = inodes.iter().map(|&inode| key(inode, 0)).collect();
        cache.fetch_together(&keys, |memory| {
            let read = memory.into_iter().map(|(number, bytes)| {
                bytes.fill(inodes[number] as u8);
                Ok(bytes.len())
            });
            read.collect()
        })
    }

    #[test]
    fn blocks_are_read_together_as_far_as_there_are_slots() {
        let cache = Cache::new(4 * 4096, 4096).unwrap();
        let first = cache.fetch(&key(7, 0), fill_with(7, 4096)).unwrap();
        // One block is cached, one is requested twice, and one has no slot.
        let pinned = read_together(&cache, &[7, 1, 2, 1, 3, 4]);
        let found = |block: &Option<Pinned>| block.as_ref().map(|block| block.bytes()[0]);
        let bytes: Vec<Option<u8>> = pinned.iter().map(found).collect();
        assert_eq!(bytes, [Some(7), Some(1), Some(2), None, Some(3), None]);
        assert!(cache.lookup(&key(4, 0)).is_none());
        drop((first, pinned));
        assert_eq!(cache.occupancy(), (4, 0));
    }

    #[test]
    fn failed_block_of_a_joint_read_is_absent_and_the_rest_present() {
        let cache = Cache::new(4 * 4096, 4096).unwrap();
        let pinned = cache.fetch_together(&[key(1, 0), key(2, 0), key(3, 0)], |memory| {
            let one = |number| match number {
                1 => Err(io::Error::other("disk")),
                _ => Ok(10),
            };
            memory.into_iter().map(|(number, _)| one(number)).collect()
        });
        let is_there: Vec<bool> = pinned.iter().map(Option::is_some).collect();
        assert_eq!(is_there, [true, false, true]);
        assert!(cache.lookup(&key(2, 0)).is_none() && cache.lookup(&key(3, 0)).is_some());
        let panics = std::panic::AssertUnwindSafe(|| {
            cache.fetch_together(&[key(4, 0), key(5, 0)], |_| panic!("as a reader may"))
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        let again = cache.fetch(&key(4, 0), fill_with(4, 1)).unwrap().unwrap();
        assert_eq!(again.bytes(), [4]);
    }

    #[test]
    fn readers_of_the_same_blocks_in_another_order_do_not_deadlock() {
        let cache = Cache::new(4 * 4096, 4096).unwrap();
        std::thread::scope(|scope| {
            for order in [
                [0u64, 1, 2, 3, 4, 5],
                [5, 4, 3, 2, 1, 0],
                [3, 5, 1, 0, 2, 4],
            ] {
                let cache = &cache;
                scope.spawn(move || {
                    for turn in 0..500 {
                        let wanted = order.map(|inode| inode + turn % 3);
                        drop(read_together(cache, &wanted[..3]));
                        for inode in wanted {
                            let block = cache.fetch(&key(inode, 0), fill_with(inode as u8, 4096));
                            if let Some(block) = block.unwrap() {
                                assert!(block.bytes().iter().all(|&byte| byte == inode as u8));
                            }
                        }
                    }
                });
            }
        });
        assert_eq!(cache.occupancy().1, 0);
    }

    #[test]
    fn many_threads_see_whole_blocks() {
        let cache = Cache::new(3 * 4096, 4096).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let cache = &cache;
                scope.spawn(move || {
                    for step in 0..2_000u64 {
                        let inode = (step * 7 + thread * 3) % 9;
                        let fetched = cache
                            .fetch(&key(inode, 0), fill_with(inode as u8, 4096))
                            .unwrap();
                        if let Some(pinned) = fetched {
                            assert!(pinned.bytes().iter().all(|&byte| byte == inode as u8));
                        }
                    }
                });
            }
        });
        assert_eq!(cache.occupancy().1, 0);
    }
}

//! The block cache: one arena of memory, shared by all readers, registered with the adapter once.
//!
//! # The law
//!
//! - The arena has a fixed number of slots of one block each; it never grows. Its size is the configuration's.
//! - A slot is **empty**, **filling** (one thread writes it and holds the only claim), or **ready**.
//! - A ready slot is immutable. Whoever holds a [`Pinned`] may read its valid bytes; a slot with pins is never reused.
//! - Only the first `valid` bytes of a ready slot are ever handed out: what an earlier file left behind them never is.
//! - A key holds the file's *version* (its size and times), so data of a changed file are simply never asked for again
//!   and age away.
//! - When every slot is pinned or filling, the cache says so and the caller reads past it. It never waits for readers.

mod arena;
mod replacement;
mod slots;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use crate::checksum;
pub use arena::Arena;
use slots::{Claim, Slots, State};
use verbena_verbs::Segment;

/// Which version of which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileVersion {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
    /// Digest of size and times.
    pub version: u64,
}

/// Which block of which version of which file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The file.
    pub file: FileVersion,
    /// The block's number.
    pub block: u64,
}

/// The cache.
#[derive(Debug)]
pub struct Cache {
    arena: Arena,
    block: usize,
    slots: Mutex<Slots>,
    settled: Condvar,
    /// Whether each slot's memory has pages behind it.
    touched: Box<[AtomicBool]>,
}

/// A ready block that stays while this lives.
#[derive(Debug)]
pub struct Pinned {
    cache: Arc<Cache>,
    slot: usize,
    valid: usize,
}

impl Cache {
    /// A cache of `bytes`, rounded down to whole blocks (at least two).
    pub fn new(bytes: usize, block: usize) -> io::Result<Arc<Self>> {
        let count = (bytes / block).max(2);
        Ok(Self::in_arena(Arena::new(count * block)?, block))
    }

    /// A cache in memory that is there already.
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

    /// Blocks that it can hold.
    pub fn slots(&self) -> usize {
        self.arena.length() / self.block
    }

    /// Bytes per block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// The memory, for registration.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The block, if it is ready.
    pub fn lookup(self: &Arc<Self>, key: &Key) -> Option<Pinned> {
        let mut slots = self.lock();
        let slot = slots.find(key)?;
        self.pin(&mut slots, slot)
    }

    /// The block, read by `fill` if nobody has it yet. `fill` writes from the front and says how many bytes are valid.
    /// `None`: every slot is in use.
    ///
    /// Several callers that want one block wait for the one that reads it. May block; not for an event loop.
    pub fn fetch(
        self: &Arc<Self>,
        key: &Key,
        fill: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Option<Pinned>> {
        let mut slots = self.lock();
        let slot = loop {
            match slots.claim(key) {
                Claim::Ready(slot) => return Ok(self.pin(&mut slots, slot)),
                Claim::Filling => {
                    slots = self
                        .settled
                        .wait(slots)
                        .unwrap_or_else(|poison| poison.into_inner())
                }
                Claim::Yours(slot) => break slot,
                Claim::Full => return Ok(None),
            }
        };
        drop(slots);

        let claim = Filling { cache: self, slot };
        self.touch(slot);
        // SAFETY: the slot is in state Filling, which `claim` gave to this call alone; no reference into it exists.
        let bytes = unsafe { self.arena.slice_mut(slot * self.block, self.block) };
        Ok(claim.settle(fill(bytes)?))
    }

    /// Pins those of the blocks that are ready, and those that nobody has and nobody reads yet, which `fill` reads together:
    /// it is given their places in `keys` with the memory to fill, and says how many bytes of each are valid. For what others
    /// read, what could not be read, and what there is no slot for there is none.
    ///
    /// Waits for nobody while it holds slots that others may wait for, so two who want the same blocks in different
    /// orders do not wait for each other. May block by what `fill` does; not for an event loop.
    pub fn fetch_together(
        self: &Arc<Self>,
        keys: &[Key],
        fill: impl FnOnce(Vec<(usize, &mut [u8])>) -> Vec<io::Result<usize>>,
    ) -> Vec<Option<Pinned>> {
        let mut pinned: Vec<_> = keys.iter().map(|_| None).collect();
        let mut claimed = Vec::new();
        let mut slots = self.lock();
        for (number, key) in keys.iter().enumerate() {
            match slots.claim(key) {
                Claim::Ready(slot) => pinned[number] = self.pin(&mut slots, slot),
                Claim::Filling => {}
                Claim::Yours(slot) => claimed.push((number, Filling { cache: self, slot })),
                Claim::Full => break,
            }
        }
        drop(slots);

        let memory = claimed.iter().map(|(number, claim)| {
            self.touch(claim.slot);
            // SAFETY: as in `fetch`; the slots are different ones, for each was claimed.
            let bytes = unsafe { self.arena.slice_mut(claim.slot * self.block, self.block) };
            (*number, bytes)
        });
        let read = match claimed.is_empty() {
            true => Vec::new(),
            false => fill(memory.collect()),
        };
        for ((number, claim), valid) in claimed.into_iter().zip(read) {
            if let Ok(valid) = valid {
                pinned[number] = claim.settle(valid);
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

    /// Blocks that are ready and blocks that are pinned, for metrics.
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
        // Every section below the lock leaves the slots consistent before it can panic.
        self.slots
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

/// A claimed slot; given back if the fill fails or panics.
struct Filling<'a> {
    cache: &'a Arc<Cache>,
    slot: usize,
}

impl Filling<'_> {
    /// The block is there, with so many bytes that belong to the file.
    fn settle(self, valid: usize) -> Option<Pinned> {
        let Self { cache, slot } = self;
        std::mem::forget(self);
        let valid = valid.min(cache.block);
        let mut slots = cache.lock();
        slots.settle(
            slot,
            State::Ready {
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
        self.cache.lock().settle(self.slot, State::Empty);
        self.cache.settled.notify_all();
    }
}

impl Pinned {
    /// The valid bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the slot is ready and pinned, so nobody writes to it while `self` lives, and `valid` bytes were
        // written by the fill.
        unsafe {
            self.cache
                .arena
                .slice(self.slot * self.cache.block, self.valid)
        }
    }

    /// Whether both are the same block.
    pub fn is_same_block(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.cache, &other.cache) && self.slot == other.slot
    }

    /// Part of the valid bytes for the adapter, if the cache is registered with one.
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

    /// CRC32C of all valid bytes; computed once per block, however many readers ask.
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

    fn key(inode: u64, block: u64) -> Key {
        Key {
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

    /// Of this thread, since it began.
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

    /// Reads what it is asked for, each block full of its file's number.
    fn read_together(cache: &Arc<Cache>, inodes: &[u64]) -> Vec<Option<Pinned>> {
        let keys: Vec<Key> = inodes.iter().map(|&inode| key(inode, 0)).collect();
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
        // One is there, one is named twice, one has no slot.
        let pinned = read_together(&cache, &[7, 1, 2, 1, 3, 4]);
        let found = |block: &Option<Pinned>| block.as_ref().map(|block| block.bytes()[0]);
        let bytes: Vec<Option<u8>> = pinned.iter().map(found).collect();
        assert_eq!(bytes, [Some(7), Some(1), Some(2), None, Some(3), None]);
        assert!(cache.lookup(&key(4, 0)).is_none());
        drop((first, pinned));
        assert_eq!(cache.occupancy(), (4, 0));
    }

    #[test]
    fn what_could_not_be_read_together_is_not_there_and_the_rest_is() {
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
    fn who_wants_the_same_blocks_in_another_order_does_not_wait_for_ever() {
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

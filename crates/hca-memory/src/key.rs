//! The memory keys of a process: allocation, meaning, and the records that peers read.
//!
//! A key has 20 bits of index into the context table and 12 bits of tag: its topmost four bits, and
//! its lowest eight, which the consumer chooses when it binds a type 2 window (ibv_inc_rkey(3)
//! changes no others).

use crate::limits::{MAX_MR, MAX_MW};
use crate::pins::{HoldId, Pins, Segment};
use crate::resolve::ACCESS_REGION;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;
use verbena_hca_shm::context_table::{ContextTable, KEYS, KeyRecord, SEGMENTS};

/// The meaning of a key; the fields of [`KeyRecord`].
#[derive(Clone, Debug, Default)]
pub struct KeyEntry {
    /// Protection domain.
    pub pd: u32,
    /// IBV_ACCESS_* flags.
    pub access: u32,
    /// Queue pair that a type 2 window is bound to, or 0.
    pub queue_pair: u32,
    /// First address that names the memory in requests.
    pub iova: u64,
    /// Length in bytes.
    pub length: u64,
    /// Virtual address of the first byte.
    pub address: u64,
    /// Ranges that lie in the arena.
    pub segments: Vec<Segment>,
    /// The registration that keeps the segments in place; None for memory that is not the
    /// application's.
    pub hold: Option<HoldId>,
}

/// The kind of object that has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// A memory region.
    Region,
    /// A memory window.
    Window,
}

/// Freed indices that wait before one of them is reused, so that a stale key names nothing for at
/// least this many registrations; the same key returns after 4,096 times as many.
const REST: usize = 4096;

/// Allocates keys and stores their meaning.
pub struct Keys {
    contexts: Arc<ContextTable>,
    pool: Mutex<KeyPool>,
    /// The largest index that a key has had.
    reached: AtomicU32,
    published: Mutex<HashMap<u32, KeyEntry>>,
}

#[derive(Default)]
struct KeyPool {
    /// The present or next tag of each index. Index 0 is never used, so no valid key is below 256
    /// and an uninitialised key names nothing.
    tags: Vec<u16>,
    /// Freed indices, the oldest first.
    resting: VecDeque<u32>,
    regions: usize,
    windows: usize,
}

impl KeyPool {
    fn count(&mut self, kind: KeyKind) -> (&mut usize, u64) {
        match kind {
            KeyKind::Region => (&mut self.regions, MAX_MR.get()),
            KeyKind::Window => (&mut self.windows, MAX_MW.get()),
        }
    }
}

impl Keys {
    /// Returns an empty set of keys.
    pub fn new(contexts: Arc<ContextTable>) -> Keys {
        Keys {
            contexts,
            pool: Mutex::default(),
            reached: AtomicU32::new(0),
            published: Mutex::default(),
        }
    }

    /// Allocates a key, which is not valid until [`Keys::publish`].
    ///
    /// # Errors
    /// ENOMEM at the limit of regions or windows.
    pub fn allocate(&self, kind: KeyKind) -> Result<u32> {
        let mut pool = lock(&self.pool);
        let (count, most) = pool.count(kind);
        if *count as u64 >= most {
            return Err(match kind {
                KeyKind::Region => refused!(
                    ENOMEM,
                    "all {most} memory regions (max_mr of ibv_query_device) are in use: \
                     ibv_dereg_mr some first"
                ),
                KeyKind::Window => refused!(
                    ENOMEM,
                    "all {most} memory windows (max_mw of ibv_query_device) are in use: \
                     ibv_dealloc_mw some first"
                ),
            });
        }
        *count += 1;
        let fresh = pool.tags.len() + 1;
        let rested = match pool.resting.len() > REST || fresh >= KEYS {
            true => pool.resting.pop_front(),
            false => None,
        };
        let index = rested.unwrap_or_else(|| {
            pool.tags.push(0);
            self.reached.store(fresh as u32, Relaxed);
            fresh as u32
        });
        Ok(compose(index, pool.tags[index as usize - 1]))
    }

    /// Frees the index of a revoked key; its next key has another tag.
    pub fn release(&self, key: u32, kind: KeyKind) {
        let mut pool = lock(&self.pool);
        *pool.count(kind).0 -= 1;
        let index = index_of(key);
        if let Some(tag) = pool.tags.get_mut(index as usize - 1) {
            *tag = match kind {
                KeyKind::Region => *tag + 1,
                // The window may have had any tag that differs in the low eight bits.
                KeyKind::Window => (*tag | 0xff) + 1,
            } & 0xfff;
        }
        pool.resting.push_back(index);
    }

    /// Makes the key of a region valid with the meaning of the entry.
    pub fn publish(&self, key: u32, entry: KeyEntry) {
        self.show(&mut lock(&self.published), key, entry, KeyKind::Region);
    }

    /// Makes the key of a window valid with the meaning of another key, changed by `narrow`, in one
    /// atomic step.
    ///
    /// # Errors
    /// EINVAL when the other key is not valid; the errors of `narrow`.
    pub fn derive(
        &self,
        key: u32,
        from: u32,
        narrow: impl FnOnce(&KeyEntry) -> Result<KeyEntry>,
    ) -> Result<()> {
        let mut published = lock(&self.published);
        let entry = narrow(published.get(&from).ok_or(Errno::EINVAL)?)?;
        self.show(&mut published, key, entry, KeyKind::Window);
        Ok(())
    }

    /// Returns the meaning of a valid key.
    pub fn entry(&self, key: u32) -> Option<KeyEntry> {
        lock(&self.published).get(&key).cloned()
    }

    /// Makes the key invalid. The caller then waits for accesses that began before.
    pub fn revoke(&self, key: u32) -> Option<KeyEntry> {
        let entry = lock(&self.published).remove(&key);
        let record = self.contexts.key(key);
        record.key.store(0, SeqCst);
        record.generation.fetch_add(1, SeqCst);
        entry
    }

    /// Removes the arena segments from the keys of some registrations. The keys stay valid, and
    /// only the owner can access their memory, by its address. [`Keys::relocate`] ends this.
    pub(super) fn hide_segments(&self, holds: &[HoldId]) {
        self.move_segments(holds, |_| Vec::new());
    }

    /// Sets the segments of some registrations' keys to the present offsets of their pages.
    pub(super) fn relocate(&self, holds: &[HoldId], pins: &Pins) {
        self.move_segments(holds, |hold| pins.segments(hold).to_vec());
    }

    fn move_segments(&self, holds: &[HoldId], segments: impl Fn(HoldId) -> Vec<Segment>) {
        for (key, entry) in lock(&self.published).iter_mut() {
            if let Some(hold) = entry.hold.filter(|hold| holds.contains(hold)) {
                entry.segments = segments(hold);
                let record = self.contexts.key(*key);
                show_segments(record, &entry.segments);
                record.generation.fetch_add(1, SeqCst);
            }
        }
    }

    fn show(
        &self,
        published: &mut HashMap<u32, KeyEntry>,
        key: u32,
        entry: KeyEntry,
        kind: KeyKind,
    ) {
        let access = match kind {
            KeyKind::Region => entry.access | ACCESS_REGION,
            KeyKind::Window => entry.access,
        };
        let record = self.contexts.key(key);
        record.pd.store(entry.pd, Relaxed);
        record.access.store(access, Relaxed);
        record.queue_pair.store(entry.queue_pair, Relaxed);
        record.iova.store(entry.iova, Relaxed);
        record.length.store(entry.length, Relaxed);
        record.address.store(entry.address, Relaxed);
        show_segments(record, &entry.segments);
        record.generation.fetch_add(1, SeqCst);
        record.key.store(key, SeqCst);
        published.insert(key, entry);
    }

    /// Returns the record of a key that a peer names. Indices never used share the record of index
    /// 0: reading a record may allocate a page, and a peer can name many invalid keys.
    #[inline]
    pub fn named_record(&self, key: u32) -> &KeyRecord {
        match index_of(key) {
            index if index <= self.reached.load(Relaxed) => self.contexts.key(key),
            // Index 0 is never used.
            _ => self.contexts.key(0),
        }
    }

    /// Returns the record of a key, valid or not.
    #[inline]
    pub fn record(&self, key: u32) -> &KeyRecord {
        self.contexts.key(key)
    }
}

/// A segment with end 0 is empty regardless of its other words; so `end` is cleared first and
/// set last.
fn show_segments(record: &KeyRecord, segments: &[Segment]) {
    for slot in &record.segments {
        slot.end.store(0, SeqCst);
    }
    for (slot, segment) in record.segments.iter().zip(segments.iter().take(SEGMENTS)) {
        slot.start.store(segment.start, Relaxed);
        slot.offset.store(segment.offset, Relaxed);
        slot.end.store(segment.end, Release);
    }
}

fn compose(index: u32, tag: u16) -> u32 {
    let tag = u32::from(tag);
    (tag >> 8 & 0xf) << 28 | index << 8 | tag & 0xff
}

fn index_of(key: u32) -> u32 {
    key >> 8 & (KEYS as u32 - 1)
}

/// Returns the key of a window with the low eight bits of `chosen` (ibv_post_send(3),
/// bind_mw.rkey).
pub fn with_chosen_tag(key: u32, chosen: u32) -> u32 {
    key & !0xff | chosen & 0xff
}

/// Returns the key with the same index and the next low tag (ibv_inc_rkey(3)).
pub fn next_tag(key: u32) -> u32 {
    with_chosen_tag(key, key.wrapping_add(1))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|e| e.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn keys() -> Keys {
        Keys::new(Arc::new(ContextTable::create().unwrap().0))
    }

    #[test]
    fn never_allocated_key_is_not_looked_up() {
        let (contexts, _file) = ContextTable::create().unwrap();
        let keys = Keys::new(Arc::new(contexts));
        let key = keys.allocate(KeyKind::Region).unwrap();
        assert!(std::ptr::eq(keys.named_record(key), keys.record(key)));
        let never = compose(index_of(key) + 1, 0);
        assert!(std::ptr::eq(keys.named_record(never), keys.record(0)));
        assert_eq!(keys.named_record(never).key.load(SeqCst), 0);
    }

    #[test]
    fn key_is_valid_from_publish_to_revoke() {
        let keys = keys();
        let first = keys.allocate(KeyKind::Region).unwrap();
        assert_eq!(first, 0x100);
        assert_eq!(keys.allocate(KeyKind::Window).unwrap(), 0x200);
        let entry = KeyEntry {
            length: 5,
            ..KeyEntry::default()
        };
        let generation = || keys.record(first).generation.load(SeqCst);
        let before = generation();
        keys.publish(first, entry);
        let published = generation();
        assert_ne!(published, before);
        assert_eq!(keys.record(first).key.load(SeqCst), first);
        assert_eq!(keys.revoke(first).unwrap().length, 5);
        assert!(generation() != published && generation() != before);
        assert_eq!(keys.record(first).key.load(SeqCst), 0);
        assert!(keys.revoke(first).is_none());
    }

    #[test]
    fn freed_key_is_not_reused_soon() {
        let keys = keys();
        let mut last_seen: HashMap<u32, usize> = HashMap::new();
        let mut index_seen: HashMap<u32, usize> = HashMap::new();
        for round in 0..3 * REST {
            let key = keys.allocate(KeyKind::Region).unwrap();
            assert_eq!(last_seen.insert(key, round), None, "{key:#x}");
            if let Some(before) = index_seen.insert(index_of(key), round) {
                assert!(round - before > REST);
            }
            keys.release(key, KeyKind::Region);
        }
    }

    #[test]
    fn reused_window_index_has_none_of_its_keys() {
        let keys = keys();
        let key = keys.allocate(KeyKind::Window).unwrap();
        assert_eq!(next_tag(with_chosen_tag(key, 0xabcd_efff)), key);
        keys.release(key, KeyKind::Window);
        let mut next = 0;
        for _ in 0..=REST {
            next = keys.allocate(KeyKind::Region).unwrap();
            if index_of(next) == index_of(key) {
                break;
            }
            keys.release(next, KeyKind::Region);
        }
        assert_eq!(index_of(next), index_of(key));
        assert_ne!(next & !0xff, key & !0xff);
    }

    #[test]
    fn regions_and_windows_have_separate_limits() {
        let keys = keys();
        for _ in 0..MAX_MW.get() {
            keys.allocate(KeyKind::Window).unwrap();
        }
        assert_eq!(keys.allocate(KeyKind::Window), Err(Errno::ENOMEM));
        for _ in 0..MAX_MR.get() {
            keys.allocate(KeyKind::Region).unwrap();
        }
        assert_eq!(keys.allocate(KeyKind::Region), Err(Errno::ENOMEM));
        keys.release(0x500, KeyKind::Region);
        assert_eq!(keys.allocate(KeyKind::Region), Ok(0x501));
    }
}

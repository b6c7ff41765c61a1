//! The keys of a process: which are free, and the records that stand behind those in use.

use crate::errno::{Errno, Result};
use crate::memory::adopt::Segment;
use crate::shm::desk::{Desk, KEYS, KeyRecord, SEGMENTS};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex};

/// What a key stands for; the fields of [`KeyRecord`].
#[derive(Clone, Debug, Default)]
pub struct KeyEntry {
    /// Protection domain.
    pub pd: u32,
    /// IBV_ACCESS_* flags.
    pub access: u32,
    /// Queue pair that a type 2 window is bound to, or 0.
    pub queue_pair: u32,
    /// First address by which the memory is named.
    pub iova: u64,
    /// Bytes.
    pub length: u64,
    /// Virtual address of the first byte.
    pub address: u64,
    /// Pieces that lie in the arena.
    pub segments: Vec<Segment>,
}

/// Hands out keys. A key is an index into the desk's table and an 8-bit tag that changes with every use of the index,
/// so that a key kept for too long is not taken for its successor.
pub struct Keys {
    desk: Arc<Desk>,
    pool: Mutex<Pool>,
}

#[derive(Default)]
struct Pool {
    used: u32,
    free: Vec<u32>,
}

impl Keys {
    /// No keys yet.
    pub fn new(desk: Arc<Desk>) -> Keys {
        Keys {
            desk,
            pool: Mutex::default(),
        }
    }

    /// A new key, not valid until [`Keys::publish`].
    pub fn allocate(&self) -> Result<u32> {
        let mut pool = self.pool.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(key) = pool.free.pop() {
            return Ok(key);
        }
        // Index 0 is never used: no valid key is below 256, so a forgotten key does not name anything.
        if pool.used as usize + 1 >= KEYS {
            return Err(Errno::ENOMEM);
        }
        pool.used += 1;
        Ok(pool.used << 8)
    }

    /// Makes the key valid for what the entry says.
    pub fn publish(&self, key: u32, entry: &KeyEntry) {
        let record = self.desk.key(key);
        record.pd.store(entry.pd, Relaxed);
        record.access.store(entry.access, Relaxed);
        record.queue_pair.store(entry.queue_pair, Relaxed);
        record.iova.store(entry.iova, Relaxed);
        record.length.store(entry.length, Relaxed);
        record.address.store(entry.address, Relaxed);
        for (index, slot) in record.segments.iter().enumerate().take(SEGMENTS) {
            let segment = entry.segments.get(index).copied().unwrap_or(Segment {
                start: 0,
                end: 0,
                offset: 0,
            });
            slot.start.store(segment.start, Relaxed);
            slot.end.store(segment.end, Relaxed);
            slot.offset.store(segment.offset, Relaxed);
        }
        record.generation.fetch_add(1, Relaxed);
        record.key.store(key, SeqCst);
    }

    /// Makes the key invalid. The caller then fences ([`crate::process::Process::fence`]).
    pub fn revoke(&self, key: u32) {
        let record = self.desk.key(key);
        record.generation.fetch_add(1, Relaxed);
        record.key.store(0, SeqCst);
    }

    /// Gives the index of a revoked key back; its next key has another tag.
    pub fn release(&self, key: u32) {
        self.pool
            .lock()
            .unwrap_or_else(|e| e.into_inner())
            .free
            .push(next_tag(key));
    }

    /// The record behind a key, valid or not.
    #[inline]
    pub fn record(&self, key: u32) -> &KeyRecord {
        self.desk.key(key)
    }
}

/// The key with the same index and the tag after this one's.
pub fn next_tag(key: u32) -> u32 {
    key & !0xff | (key.wrapping_add(1) & 0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_comes_back_with_another_tag() {
        let keys = Keys::new(Arc::new(Desk::create().unwrap().0));
        let first = keys.allocate().unwrap();
        assert_eq!(first, 0x100);
        assert_eq!(keys.allocate().unwrap(), 0x200);
        keys.publish(
            first,
            &KeyEntry {
                length: 5,
                ..KeyEntry::default()
            },
        );
        assert_eq!(keys.record(first).key.load(SeqCst), first);
        keys.revoke(first);
        keys.release(first);
        assert_eq!(keys.record(first).key.load(SeqCst), 0);
        assert_eq!(keys.allocate().unwrap(), 0x101);
        assert_eq!(next_tag(0x1ff), 0x100);
    }
}

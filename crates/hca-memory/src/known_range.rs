//! A range of registered memory to which access was granted, kept for later requests with the same
//! key: one comparison replaces the checks of domain, rights, bounds and segments.

use crate::planted::{self, Bug};
use crate::resolve::{ACCESS_NULL, AccessRequest, Piece, check};
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use std::sync::atomic::fence;
use verbena_hca_shm::context_table::KeyRecord;
use verbena_hca_shm::section::Section;

/// A range of a key that lies in one piece in the arena of the key's process.
///
/// SYNC POINT known range: the words of a record change only together with its generation, which
/// the owner changes with SeqCst before it fences. A thread that has opened a section and then
/// finds the generation unchanged may use the range until the section ends, as if it had just
/// checked the key.
#[derive(Clone, Copy, Debug)]
pub struct KnownRange {
    /// The key of the range, and the domain and rights of all requests.
    request: AccessRequest,
    generation: u32,
    /// The first address, as requests name it.
    first: u64,
    length: u64,
    /// Offset of the first byte in the arena.
    offset: u64,
    /// Key of the last request outside of the range, 0 if the last one was inside.
    missed: u32,
}

impl KnownRange {
    /// Returns an empty range, for requests that are as `request` but for their keys.
    pub fn new(request: AccessRequest) -> KnownRange {
        KnownRange {
            request,
            generation: 0,
            first: 0,
            length: 0,
            offset: 0,
            missed: 0,
        }
    }

    /// Returns the request for a buffer with a key.
    #[inline]
    pub fn request(&self, key: u32) -> AccessRequest {
        AccessRequest {
            key,
            ..self.request
        }
    }

    /// Returns the offset in the arena of `[address, address + length)`, if the range contains it
    /// and the request with the key is still granted. `record` is that of the key.
    #[inline(always)]
    pub fn find(
        &mut self,
        section: &Section<'_>,
        record: &KeyRecord,
        key: u32,
        address: u64,
        length: u64,
    ) -> Option<u64> {
        let from = self.find_part(section, record, key, address, length)?;
        self.missed = 0;
        Some(self.offset.wrapping_add(from))
    }

    /// As [`KnownRange::find`], but returns the offset in the range.
    #[inline(always)]
    pub fn find_part(
        &self,
        _section: &Section<'_>,
        record: &KeyRecord,
        key: u32,
        address: u64,
        length: u64,
    ) -> Option<u64> {
        let from = address.wrapping_sub(self.first);
        // SYNC POINT known range.
        let is_current = record.generation.load(SeqCst) == self.generation;
        let is_granted = (is_current || planted::is(Bug::KnownRange))
            && key == self.request.key
            && from < self.length
            && length <= self.length - from;
        is_granted.then_some(from)
    }

    /// Notes a granted request that [`KnownRange::find`] did not find. After two in a row with the
    /// same key, the range of the key around the second one replaces the present one: requests with
    /// two keys in turn leave one of them known.
    pub fn note(
        &mut self,
        section: &Section<'_>,
        record: &KeyRecord,
        key: u32,
        address: u64,
        length: u64,
    ) {
        if self.missed != key {
            self.missed = key;
            return;
        }
        let _ = self.set(section, record, key, address, length);
    }

    /// Returns the range as a piece of the arena.
    pub fn piece(&self) -> Piece {
        Piece::Arena {
            offset: self.offset,
            length: self.length as usize,
        }
    }

    /// Replaces the range by that of a key around `[address, address + length)`, if access to this
    /// is granted and it lies in the arena. Returns whether it did.
    #[cold]
    #[must_use]
    pub fn set(
        &mut self,
        _section: &Section<'_>,
        record: &KeyRecord,
        key: u32,
        address: u64,
        length: u64,
    ) -> bool {
        let request = self.request(key);
        match range_around(record, request, address, length) {
            None => false,
            Some(range) => {
                *self = range;
                true
            }
        }
    }

    /// Returns whether a range that was found has been granted all the time since. Called after the
    /// last byte was touched, as [`crate::resolve::ResolvedRange::has_held`].
    #[inline]
    pub fn has_held(&self, record: &KeyRecord) -> bool {
        fence(Acquire);
        record.generation.load(SeqCst) == self.generation || planted::is(Bug::KnownRange)
    }
}

/// Returns the range of a key that contains `[address, address + length)` and lies in one segment.
fn range_around(
    record: &KeyRecord,
    request: AccessRequest,
    address: u64,
    length: u64,
) -> Option<KnownRange> {
    let generation = record.generation.load(SeqCst);
    check(record, request, address, length).ok()?;
    if record.access.load(Relaxed) & ACCESS_NULL != 0 {
        return None;
    }
    let (iova, base) = (record.iova.load(Relaxed), record.address.load(Relaxed));
    let end = base.checked_add(record.length.load(Relaxed))?;
    let from = base.checked_add(address.checked_sub(iova)?)?;
    let to = from.checked_add(length)?;
    let found = record.segments.iter().find_map(|segment| {
        // The end first: it says whether the other words are valid.
        let segment_end = segment.end.load(Acquire);
        let start = segment.start.load(Relaxed);
        let (first, last) = (start.max(base), segment_end.min(end));
        let offset = segment.offset.load(Relaxed);
        (first <= from && to <= last).then(|| KnownRange {
            request,
            generation,
            first: iova.wrapping_add(first - base),
            length: last - first,
            offset: offset.wrapping_add(first - start),
            missed: 0,
        })
    })?;
    // All words are of the same generation.
    fence(Acquire);
    (record.generation.load(SeqCst) == generation).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{KeyEntry, KeyKind, Keys};
    use crate::pins::Segment;
    use crate::resolve::grant;
    use std::sync::Arc;
    use verbena_abi::IBV_ACCESS_LOCAL_WRITE;
    use verbena_hca_shm::context_table::ContextTable;
    use verbena_hca_shm::section::OwnMarks;

    const IOVA: u64 = 0x10_0000;

    fn entry() -> KeyEntry {
        KeyEntry {
            pd: 5,
            access: IBV_ACCESS_LOCAL_WRITE,
            iova: IOVA,
            length: 0x3000,
            address: 0x7000_0100,
            // The first and the last bytes are outside of the arena.
            segments: vec![Segment {
                start: 0x7000_1000,
                end: 0x7000_3000,
                offset: 0x8000,
            }],
            ..KeyEntry::default()
        }
    }

    fn keys() -> (Keys, u32) {
        let keys = Keys::new(Arc::new(ContextTable::create().unwrap().0));
        let key = keys.allocate(KeyKind::Region).unwrap();
        keys.publish(key, entry());
        (keys, key)
    }

    fn request(key: u32) -> AccessRequest {
        AccessRequest::to_buffer(key, 5, IBV_ACCESS_LOCAL_WRITE)
    }

    /// Returns a range that was noted at an address inside the segment.
    fn known(keys: &Keys, key: u32, section: &Section<'_>) -> KnownRange {
        let mut known = KnownRange::new(request(0));
        for _ in 0..2 {
            known.note(section, keys.record(key), key, IOVA + 0x1000, 8);
        }
        known
    }

    #[test]
    fn known_range_agrees_with_the_check_at_every_address() {
        let (keys, key) = keys();
        let marks = OwnMarks::default();
        let section = marks.enter(0);
        let record = keys.record(key);
        let mut known = known(&keys, key, &section);
        let mut found = 0;
        for address in (IOVA - 16..IOVA + 0x3010).step_by(4) {
            for length in [1, 8, 0x100, 0x2000, u64::MAX] {
                let Some(offset) = known.find(&section, record, key, address, length) else {
                    continue;
                };
                let granted = grant(&section, record, request(key), address, length).unwrap();
                let length = length as usize;
                assert_eq!(granted.sole(), Some(Piece::Arena { offset, length }));
                found += 1;
            }
        }
        // From the segment's first byte to its last.
        assert!(found > 3 * 0x1f00 / 4, "{found}");
    }

    #[test]
    fn known_range_ends_with_any_change_of_the_key() {
        let (keys, key) = keys();
        let marks = OwnMarks::default();
        let section = marks.enter(0);
        let find = |mut known: KnownRange, key: u32| {
            known.find(&section, keys.record(key), key, IOVA + 0x1000, 8)
        };
        let before = known(&keys, key, &section);
        assert!(find(before, key).is_some());
        assert_eq!(
            find(before, key ^ 1),
            None,
            "another key of the same record"
        );
        keys.publish(key, KeyEntry { pd: 6, ..entry() });
        assert_eq!(find(before, key), None, "the key has another domain");
        assert_eq!(find(known(&keys, key, &section), key), None);
        keys.publish(key, entry());
        let again = known(&keys, key, &section);
        assert!(find(again, key).is_some());
        keys.revoke(key);
        assert_eq!(find(again, key), None, "the key is invalid");
        assert_eq!(find(known(&keys, key, &section), key), None);
    }

    #[test]
    fn requests_with_two_keys_in_turn_leave_the_known_one() {
        let (keys, key) = keys();
        let other = keys.allocate(KeyKind::Region).unwrap();
        keys.publish(other, entry());
        let marks = OwnMarks::default();
        let section = marks.enter(0);
        let mut range = known(&keys, key, &section);
        let at = IOVA + 0x1000;
        for _ in 0..5 {
            assert!(range.find(&section, keys.record(key), key, at, 8).is_some());
            let record = keys.record(other);
            assert_eq!(range.find(&section, record, other, at, 8), None);
            range.note(&section, record, other, at, 8);
        }
        let record = keys.record(other);
        range.note(&section, record, other, at, 8);
        assert!(range.find(&section, record, other, at, 8).is_some());
    }

    #[test]
    fn one_request_with_a_key_is_not_kept() {
        let (keys, key) = keys();
        let marks = OwnMarks::default();
        let section = marks.enter(0);
        let (record, at) = (keys.record(key), IOVA + 0x1000);
        let mut known = KnownRange::new(request(0));
        known.note(&section, record, key, at, 8);
        assert_eq!(known.find(&section, record, key, at, 8), None);
    }
}

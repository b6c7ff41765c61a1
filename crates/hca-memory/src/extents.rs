//! Best-fit allocator for a range of offsets. Any part of an allocation can be freed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Free ranges, never adjacent to each other.
#[derive(Debug)]
pub struct Extents {
    /// Lengths by offset.
    free: BTreeMap<u64, u64>,
    /// The same by length, then offset.
    by_length: BTreeSet<(u64, u64)>,
}

impl Extents {
    /// Returns an allocator with all of `[0, length)` free.
    pub fn new(length: u64) -> Extents {
        Extents {
            free: BTreeMap::from([(0, length)]),
            by_length: BTreeSet::from([(length, 0)]),
        }
    }

    /// Allocates `length` from the smallest free range that is long enough. Returns its offset.
    pub fn allocate(&mut self, length: u64) -> Option<u64> {
        let &(room, offset) = self.by_length.range((length, 0)..).next()?;
        self.take(offset, room);
        if room > length {
            self.add(offset + length, room - length);
        }
        Some(offset)
    }

    /// Frees a range, all of which is allocated.
    pub fn free(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&before, &room)) = self.free.range(..range.start).next_back()
            && before + room == range.start
        {
            self.take(before, room);
            start = before;
        }
        if let Some(&room) = self.free.get(&range.end) {
            self.take(range.end, room);
            end += room;
        }
        self.add(start, end - start);
    }

    /// Returns the sum of all free ranges.
    pub fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    fn take(&mut self, offset: u64, room: u64) {
        self.free.remove(&offset);
        self.by_length.remove(&(room, offset));
    }

    fn add(&mut self, offset: u64, room: u64) {
        self.free.insert(offset, room);
        self.by_length.insert((room, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNIT: u64 = 4096;

    proptest! {
        #[test]
        fn extents_never_overlap_and_are_all_freed(
            script in proptest::collection::vec((any::<bool>(), 1u64..9, any::<usize>(), 0u64..9),
                1..200),
        ) {
            let mut extents = Extents::new(64 * UNIT);
            let mut held: Vec<Range<u64>> = Vec::new();
            for (take, units, pick, cut) in script {
                if take || held.is_empty() {
                    if let Some(offset) = extents.allocate(units * UNIT) {
                        let end = offset + units * UNIT;
                        prop_assert!(end <= 64 * UNIT);
                        prop_assert!(held.iter()
                            .all(|other| other.end <= offset || other.start >= end));
                        held.push(offset..end);
                    }
                } else {
                    // Frees only a part: the rest stays allocated.
                    let range = held.swap_remove(pick % held.len());
                    let middle = (range.start + cut * UNIT).min(range.end);
                    extents.free(range.start..middle);
                    if middle < range.end {
                        held.push(middle..range.end);
                    }
                }
                let taken: u64 = held.iter().map(|range| range.end - range.start).sum();
                prop_assert_eq!(extents.free_bytes(), 64 * UNIT - taken);
            }
            for range in held {
                extents.free(range);
            }
            prop_assert_eq!(extents.free, BTreeMap::from([(0, 64 * UNIT)]));
            prop_assert_eq!(extents.by_length, BTreeSet::from([(64 * UNIT, 0)]));
        }
    }
}

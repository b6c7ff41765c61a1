//! Location of the bytes that a processor copies: its own cache, the shared cache, or memory.

use crate::adapter::MemoryLocation;
use crate::adapter::cache::{Cache, Lookup};
use std::collections::HashMap;
use std::ops::{AddAssign, Range};

/// Unit of caching and eviction, in bytes.
const PAGE: u64 = 4096;

/// A cache with least-recently-used replacement of pages.
pub(super) struct Level {
    pages: Cache,
    /// Range of each page that has been fetched since it was cached; gaps between two fetches count
    /// as fetched.
    fetched: HashMap<u64, Range<u64>>,
}

impl Level {
    /// Creates an empty cache of `bytes` bytes.
    pub fn new(bytes: u64) -> Level {
        Level {
            pages: Cache::new(Some(bytes / PAGE)),
            fetched: HashMap::new(),
        }
    }

    /// Uses a part of a page; returns how many of its bytes were not cached, and whether this was
    /// the page's first use.
    fn touch(&mut self, page: u64, part: Range<u64>) -> (u64, bool) {
        let first = self.pages.touch(page) != Lookup::Hit;
        let fetched = self.fetched.entry(page).or_insert(part.start..part.start);
        if first {
            *fetched = part.start..part.start;
        }
        let all = fetched.start.min(part.start)..fetched.end.max(part.end);
        let before = fetched
            .start
            .saturating_sub(part.start)
            .min(part.end - part.start);
        let behind = part.end.saturating_sub(fetched.end.max(part.start));
        *fetched = all;
        (before + behind, first)
    }
}

/// Bytes by location.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Found {
    /// In the core's own cache.
    pub near: u64,
    /// In the shared cache.
    pub far: u64,
    /// In memory.
    pub memory: u64,
    /// Whether a page from memory was unused before, so that it cannot have been prefetched.
    pub unforeseen: bool,
}

impl AddAssign for Found {
    fn add_assign(&mut self, more: Found) {
        self.near += more.near;
        self.far += more.far;
        self.memory += more.memory;
        self.unforeseen |= more.unforeseen;
    }
}

/// Uses `bytes` bytes from `place` on.
pub(super) fn look_up(
    near: &mut Level,
    far: &mut Level,
    place: MemoryLocation,
    bytes: u64,
) -> Found {
    let mut found = Found::default();
    let (mut at, end) = (place.address, place.address + bytes);
    while at < end {
        let next = ((at / PAGE + 1) * PAGE).min(end);
        let page = (place.region << 40) ^ (at / PAGE);
        let part = at % PAGE..at % PAGE + (next - at);
        let (beyond, _) = near.touch(page, part.clone());
        let (memory, first) = match beyond {
            0 => (0, false),
            beyond => {
                let (memory, first) = far.touch(page, part);
                (memory.min(beyond), first)
            }
        };
        found += Found {
            near: next - at - beyond,
            far: beyond - memory,
            memory,
            unforeseen: first,
        };
        at = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(address: u64) -> MemoryLocation {
        MemoryLocation {
            region: 1,
            address,
            ..MemoryLocation::default()
        }
    }

    #[test]
    fn used_pages_move_from_near_to_far_cache_to_memory() {
        let (mut near, mut far) = (Level::new(2 * PAGE), Level::new(4 * PAGE));
        let mut find = |place| look_up(&mut near, &mut far, place, PAGE);
        assert_eq!(find(at(0)).memory, PAGE);
        assert_eq!(find(at(0)).near, PAGE);
        find(at(PAGE));
        find(at(2 * PAGE));
        assert_eq!(find(at(0)).far, PAGE, "pushed out by the two after it");
        (3..7).for_each(|page| {
            find(at(page * PAGE));
        });
        assert_eq!(find(at(0)).memory, PAGE);
    }

    #[test]
    fn each_byte_of_a_page_comes_from_memory_once() {
        let (mut near, mut far) = (Level::new(PAGE), Level::new(PAGE));
        let mut memory = 0;
        for part in 0..64 {
            let found = look_up(&mut near, &mut far, at(part * 64), 64);
            assert_eq!(found.unforeseen, part == 0);
            memory += found.memory;
        }
        assert_eq!(memory, PAGE);
        assert_eq!(look_up(&mut near, &mut far, at(100), 200).near, 200);
    }

    #[test]
    fn each_byte_is_counted_once() {
        let (mut near, mut far) = (Level::new(3 * PAGE), Level::new(9 * PAGE));
        for step in 0..500u64 {
            let (place, bytes) = (at(step * 7919 % (20 * PAGE)), step * 31 % 10_000);
            let found = look_up(&mut near, &mut far, place, bytes);
            assert_eq!(found.near + found.far + found.memory, bytes);
        }
    }
}

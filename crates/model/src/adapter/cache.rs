//! A least-recently-used cache of entries by number: queue pair contexts, translations.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Result of a cache lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// The entry was cached.
    Hit,
    /// The entry was not cached; it is now.
    Miss {
        /// Whether another entry was displaced.
        displaced: bool,
    },
}

/// Hasher that multiplies by the golden ratio; no resistance to chosen collisions is needed.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = product ^ product >> 32;
    }
}

/// An entry of the ring, with its neighbours in the order of use.
#[derive(Debug, Clone, Copy)]
struct Entry {
    key: u64,
    newer: usize,
    older: usize,
}

/// A least-recently-used cache.
#[derive(Debug)]
pub struct Cache {
    capacity: usize,
    places: HashMap<u64, usize, BuildHasherDefault<Spread>>,
    /// A ring: `newer` of the newest entry is the oldest.
    entries: Vec<Entry>,
    newest: usize,
}

impl Cache {
    /// Creates a cache of `capacity` entries, at least one; unlimited if `None`.
    pub fn new(capacity: Option<u64>) -> Cache {
        let capacity = capacity.and_then(|entries| usize::try_from(entries).ok());
        Cache {
            capacity: capacity.unwrap_or(usize::MAX).max(1),
            places: HashMap::default(),
            entries: Vec::new(),
            newest: 0,
        }
    }

    /// Uses an entry; `hint` keeps where it was found, which saves the search.
    pub fn touch_near(&mut self, key: u64, hint: &Cell<u32>) -> Lookup {
        let place = hint.get() as usize;
        if self.entries.get(place).is_some_and(|e| e.key == key) {
            if place != self.newest {
                self.take_out(place);
                self.put_in(place);
            }
            return Lookup::Hit;
        }
        let lookup = self.touch(key);
        hint.set(u32::try_from(self.newest).unwrap_or(u32::MAX));
        lookup
    }

    /// Uses an entry.
    pub fn touch(&mut self, key: u64) -> Lookup {
        let newest = self.newest;
        if self.entries.get(newest).is_some_and(|e| e.key == key) {
            return Lookup::Hit;
        }
        if let Some(&place) = self.places.get(&key) {
            self.take_out(place);
            self.put_in(place);
            return Lookup::Hit;
        }
        let displaced = self.entries.len() == self.capacity;
        let place = if displaced {
            let oldest = self.entries[newest].newer;
            self.places.remove(&self.entries[oldest].key);
            self.entries[oldest].key = key;
            self.take_out(oldest);
            oldest
        } else {
            let place = self.entries.len();
            self.entries.push(Entry {
                key,
                newer: place,
                older: place,
            });
            place
        };
        self.places.insert(key, place);
        self.put_in(place);
        Lookup::Miss { displaced }
    }

    fn take_out(&mut self, place: usize) {
        let Entry { newer, older, .. } = self.entries[place];
        self.entries[newer].older = older;
        self.entries[older].newer = newer;
        if self.newest == place {
            self.newest = older;
        }
    }

    /// Inserts an entry that is not in the ring as the newest, before the oldest.
    fn put_in(&mut self, place: usize) {
        let newest = self.newest;
        let oldest = if newest == place {
            place
        } else {
            self.entries[newest].newer
        };
        self.entries[place].newer = oldest;
        self.entries[place].older = newest;
        self.entries[newest].newer = place;
        self.entries[oldest].older = place;
        self.newest = place;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cyclic_access_beyond_the_capacity_always_misses() {
        let mut cache = Cache::new(Some(4));
        for round in 0..3 {
            for key in 0..5 {
                let lookup = cache.touch(key);
                assert_ne!(lookup, Lookup::Hit, "round {round} key {key}");
            }
        }
        for capacity in [Some(5), None] {
            let mut cache = Cache::new(capacity);
            (0..5).for_each(|key| {
                cache.touch(key);
            });
            assert!((0..5).all(|key| cache.touch(key) == Lookup::Hit));
        }
    }

    #[test]
    fn the_cache_equals_a_list_in_order_of_use() {
        for capacity in 1..9 {
            let mut cache = Cache::new(Some(capacity as u64));
            let mut list: Vec<u64> = Vec::new();
            let hints = [const { Cell::new(0) }; 11];
            let mut number = 1u64;
            for _ in 0..4000 {
                number = number
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let key = (number >> 60) % 11;
                let expected = match list.iter().position(|&k| k == key) {
                    Some(place) => {
                        list.remove(place);
                        Lookup::Hit
                    }
                    None => Lookup::Miss {
                        displaced: list.len() == capacity,
                    },
                };
                list.push(key);
                if list.len() > capacity {
                    list.remove(0);
                }
                let lookup = match number >> 59 & 1 {
                    0 => cache.touch(key),
                    _ => cache.touch_near(key, &hints[key as usize]),
                };
                assert_eq!(lookup, expected);
            }
        }
    }

    #[test]
    fn the_least_recently_used_entry_is_evicted() {
        let mut cache = Cache::new(Some(2));
        cache.touch(1);
        cache.touch(2);
        cache.touch(1);
        assert_eq!(cache.touch(3), Lookup::Miss { displaced: true });
        assert_eq!(cache.touch(1), Lookup::Hit);
        assert_eq!(cache.touch(2), Lookup::Miss { displaced: true });
    }
}

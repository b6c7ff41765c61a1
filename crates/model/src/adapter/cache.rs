//! A least-recently-used cache of entries by number: queue pair contexts, translations.

use std::collections::{BTreeMap, HashMap};

/// Whether an entry was there, and what had to leave for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// It was there.
    Hit,
    /// It was not; it is now. Whether another entry was displaced.
    Miss {
        /// An entry had to leave.
        displaced: bool,
    },
}

/// Least recently used leaves first.
#[derive(Debug)]
pub struct Cache {
    capacity: usize,
    clock: u64,
    entries: HashMap<u64, u64>,
    by_age: BTreeMap<u64, u64>,
}

impl Cache {
    /// For `capacity` entries.
    pub fn new(capacity: u64) -> Cache {
        Cache {
            capacity: usize::try_from(capacity).unwrap_or(usize::MAX),
            clock: 0,
            entries: HashMap::new(),
            by_age: BTreeMap::new(),
        }
    }

    /// Uses an entry.
    pub fn touch(&mut self, key: u64) -> Lookup {
        self.clock += 1;
        let old = self.entries.insert(key, self.clock);
        self.by_age.insert(self.clock, key);
        if let Some(old) = old {
            self.by_age.remove(&old);
            return Lookup::Hit;
        }
        let displaced = self.entries.len() > self.capacity;
        if displaced && let Some((_, oldest)) = self.by_age.pop_first() {
            self.entries.remove(&oldest);
        }
        Lookup::Miss { displaced }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cyclic_walk_over_more_than_fits_always_misses() {
        let mut cache = Cache::new(4);
        for round in 0..3 {
            for key in 0..5 {
                let lookup = cache.touch(key);
                assert_ne!(lookup, Lookup::Hit, "round {round} key {key}");
            }
        }
        let mut cache = Cache::new(5);
        (0..5).for_each(|key| {
            cache.touch(key);
        });
        assert!((0..5).all(|key| cache.touch(key) == Lookup::Hit));
    }

    #[test]
    fn the_least_recently_used_leaves() {
        let mut cache = Cache::new(2);
        cache.touch(1);
        cache.touch(2);
        cache.touch(1);
        assert_eq!(cache.touch(3), Lookup::Miss { displaced: true });
        assert_eq!(cache.touch(1), Lookup::Hit);
        assert_eq!(cache.touch(2), Lookup::Miss { displaced: true });
    }
}

//! Cache replacement: blocks that are read repeatedly stay, however much is read once (after
//! S3-FIFO, Yang et al., SOSP 2023, with the correlated references of 2Q, Johnson and Shasha, VLDB
//! 1994).
//!
//! - New blocks enter **probation**, which keeps an eighth of the slots when the others are needed.
//!   Blocks read again there move to the **kept** queue. The others are evicted and their keys are
//!   remembered for a while: a block requested again in that time is kept at once.
//! - The kept queue is circular: a block read since its last turn gets another turn.
//! - A reader of a file takes each block in several requests, and so do concurrent readers.
//!   Together they count as one use. Another use counts only after some other blocks have been
//!   loaded.

use std::collections::{HashMap, VecDeque};

use super::BlockKey;

/// Limit on the turns that a kept block can earn.
const MOST_USES: u8 = 3;

/// A slot to reuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// The slot.
    pub slot: usize,
    /// Whether its key should be remembered.
    pub was_on_probation: bool,
}

#[derive(Debug, Clone, Copy, Default)]
struct Uses {
    counted: u8,
    /// Number of blocks loaded when the last use counted.
    last: u64,
}

/// Order of the slots that hold a block.
#[derive(Debug)]
pub struct Replacement {
    probation: VecDeque<usize>,
    kept: VecDeque<usize>,
    uses: Vec<Uses>,
    ghosts: GhostList,
    loaded: u64,
    /// Slots that probation may keep when others are needed.
    share: usize,
    /// Number of loaded blocks that separates two uses.
    apart: u64,
}

impl Replacement {
    /// Creates the order for `slots` slots, all empty.
    pub fn new(slots: usize) -> Self {
        Self {
            probation: VecDeque::with_capacity(slots),
            kept: VecDeque::with_capacity(slots),
            uses: vec![Uses::default(); slots],
            ghosts: GhostList::new(slots),
            loaded: 0,
            share: (slots / 8).max(1),
            apart: (slots as u64 / 32).max(1),
        }
    }

    /// Adds a slot into which a block is being loaded.
    pub fn load(&mut self, slot: usize, key: &BlockKey) {
        self.loaded += 1;
        self.uses[slot] = Uses {
            counted: 0,
            last: self.loaded,
        };
        if self.ghosts.take(key) {
            self.kept.push_back(slot);
        } else {
            self.probation.push_back(slot);
        }
    }

    /// Removes a slot whose block could not be loaded.
    pub fn unload(&mut self, slot: usize) {
        self.probation.retain(|&other| other != slot);
        self.kept.retain(|&other| other != slot);
    }

    /// Records a read of a slot's block.
    pub fn read(&mut self, slot: usize) {
        let uses = &mut self.uses[slot];
        if self.loaded - uses.last >= self.apart {
            *uses = Uses {
                counted: MOST_USES.min(uses.counted + 1),
                last: self.loaded,
            };
        }
    }

    /// Removes a slot to reuse from the order and returns it; `None` if no slot is free.
    pub fn choose(&mut self, is_free: impl Fn(usize) -> bool) -> Option<Victim> {
        if self.probation.len() >= self.share {
            self.choose_on_probation(&is_free)
                .or_else(|| self.choose_kept(&is_free))
        } else {
            self.choose_kept(&is_free)
                .or_else(|| self.choose_on_probation(&is_free))
        }
    }

    /// Remembers the key of a block evicted from probation, so that it is kept at once if requested
    /// again.
    pub fn remember(&mut self, key: BlockKey) {
        self.ghosts.add(key);
    }

    fn choose_on_probation(&mut self, is_free: impl Fn(usize) -> bool) -> Option<Victim> {
        for _ in 0..self.probation.len() {
            let slot = self.probation.pop_front()?;
            if !is_free(slot) {
                self.probation.push_back(slot);
            } else if std::mem::take(&mut self.uses[slot].counted) > 0 {
                self.kept.push_back(slot);
            } else {
                return Some(Victim {
                    slot,
                    was_on_probation: true,
                });
            }
        }
        None
    }

    /// Visits each slot once more than the turns it can have earned.
    fn choose_kept(&mut self, is_free: impl Fn(usize) -> bool) -> Option<Victim> {
        for _ in 0..self.kept.len() * (usize::from(MOST_USES) + 1) {
            let slot = self.kept.pop_front()?;
            let earned = &mut self.uses[slot].counted;
            if is_free(slot) && *earned == 0 {
                return Some(Victim {
                    slot,
                    was_on_probation: false,
                });
            }
            if is_free(slot) {
                *earned -= 1;
            }
            self.kept.push_back(slot);
        }
        None
    }
}

/// Keys of recently evicted blocks, at most as many as there are slots.
#[derive(Debug)]
struct GhostList {
    most: usize,
    /// The number under which each key was added last.
    keys: HashMap<BlockKey, u64>,
    order: VecDeque<(BlockKey, u64)>,
    added: u64,
}

impl GhostList {
    fn new(most: usize) -> Self {
        Self {
            most,
            keys: HashMap::with_capacity(most),
            order: VecDeque::with_capacity(most),
            added: 0,
        }
    }

    fn add(&mut self, key: BlockKey) {
        self.added += 1;
        self.keys.insert(key, self.added);
        self.order.push_back((key, self.added));
        while self.order.len() > self.most
            && let Some((oldest, number)) = self.order.pop_front()
        {
            // The key may have been taken and added again since.
            if self.keys.get(&oldest) == Some(&number) {
                self.keys.remove(&oldest);
            }
        }
    }

    fn take(&mut self, key: &BlockKey) -> bool {
        self.keys.remove(key).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::FileVersion;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key(inode: u64, block: u64) -> BlockKey {
        let file = FileVersion {
            device: 0,
            inode,
            version: 0,
        };
        BlockKey { file, block }
    }

    /// A cache of keys without data.
    struct Keys {
        order: Replacement,
        slots: Vec<Option<BlockKey>>,
    }

    impl Keys {
        fn new(slots: usize) -> Self {
            Self {
                order: Replacement::new(slots),
                slots: vec![None; slots],
            }
        }

        fn ask(&mut self, key: BlockKey) {
            let _ = self.read(key);
        }

        /// Returns whether the key was cached.
        fn read(&mut self, key: BlockKey) -> bool {
            if let Some(slot) = self.slots.iter().position(|held| *held == Some(key)) {
                self.order.read(slot);
                return true;
            }
            let slot = match self.slots.iter().position(Option::is_none) {
                Some(empty) => empty,
                None => {
                    let victim = self.order.choose(|_| true).unwrap();
                    let old = self.slots[victim.slot].unwrap();
                    if victim.was_on_probation {
                        self.order.remember(old);
                    }
                    victim.slot
                }
            };
            self.order.load(slot, &key);
            self.slots[slot] = Some(key);
            false
        }
    }

    /// A file of half the cache's size is read repeatedly while data of ten times the cache's size
    /// is read once.
    #[test]
    fn a_long_scan_costs_those_who_read_again_nothing_that_lasts() {
        const SLOTS: u64 = 1024;
        let mut cache = Keys::new(SLOTS as usize);
        for _ in 0..2 {
            (0..SLOTS / 2).for_each(|block| cache.ask(key(1, block)));
        }
        let mut scanned = (0..10 * SLOTS).map(|block| key(2, block));
        let mut missed = 0;
        let mut rounds = 0;
        'scan: loop {
            for block in 0..SLOTS / 2 {
                missed += u64::from(!cache.read(key(1, block)));
                // In four requests per block, as a reader of small parts does, and as fast as the
                // other reader.
                let Some(next) = scanned.next() else {
                    break 'scan;
                };
                (0..4).for_each(|_| cache.ask(next));
            }
            rounds += 1;
        }
        assert!(rounds >= 10, "{rounds}");
        assert!(
            missed < SLOTS / 8,
            "{missed} of {} were read anew",
            rounds * SLOTS / 2
        );
    }

    /// Blocks that are no longer read are evicted for blocks being read.
    #[test]
    fn frequently_read_block_is_evicted_eventually() {
        const SLOTS: u64 = 256;
        let mut cache = Keys::new(SLOTS as usize);
        for round in 0..20 {
            let hot = round / 10;
            let missed = (0..SLOTS / 2).filter(|&block| !cache.read(key(hot, block)));
            let missed = missed.count() as u64;
            // Other blocks are read once.
            (0..SLOTS / 8).for_each(|block| cache.ask(key(100 + round, block)));
            if round % 10 >= 6 {
                assert!(missed <= SLOTS / 64, "round {round}: {missed}");
            }
        }
    }

    proptest! {
        /// Each slot is in exactly one queue after any sequence of operations. A held slot is never
        /// chosen, and a slot is chosen whenever one is free.
        #[test]
        fn every_slot_has_one_place(
            steps in proptest::collection::vec((0u8..5, 0u64..40, 0usize..8), 0..400)) {
            let mut order = Replacement::new(8);
            let mut held = BTreeSet::new();
            let mut empty: Vec<usize> = (0..8).collect();
            for (step, block, slot) in steps {
                match step {
                    0 | 1 => {
                        let slot = empty.pop().or_else(|| {
                            let victim = order.choose(|slot| !held.contains(&slot))?;
                            if victim.was_on_probation {
                                order.remember(key(0, block / 2));
                            }
                            Some(victim.slot)
                        });
                        match slot {
                            Some(slot) => {
                                prop_assert!(!held.contains(&slot));
                                order.load(slot, &key(0, block));
                            }
                            None => prop_assert_eq!(held.len() + empty.len(), 8),
                        }
                    }
                    2 if !empty.contains(&slot) => order.read(slot),
                    3 if !empty.contains(&slot) && !held.remove(&slot) => { held.insert(slot); }
                    4 if !empty.contains(&slot) && !held.contains(&slot) => {
                        order.unload(slot);
                        empty.push(slot);
                    }
                    _ => {}
                }
                let mut all: Vec<usize> = order.probation.iter().chain(&order.kept).chain(&empty)
                    .copied().collect();
                all.sort_unstable();
                prop_assert_eq!(all, (0..8).collect::<Vec<_>>());
                prop_assert!(order.ghosts.order.len() <= 8 && order.ghosts.keys.len() <= 8);
            }
        }
    }
}

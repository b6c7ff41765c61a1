//! States of the cache's slots. [`Replacement`] chooses the slot to reuse.

use std::collections::HashMap;

use super::BlockKey;
use super::replacement::Replacement;

/// State of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotState {
    /// Nothing.
    Empty,
    /// A thread is writing the block.
    Filling,
    /// A block.
    Ready {
        /// Bytes from the front that belong to the file.
        valid: usize,
        /// CRC32C of those bytes, once it was computed.
        checksum: Option<u32>,
    },
}

/// Result of a claim.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum SlotClaim {
    /// The block is ready.
    Ready(usize),
    /// Another thread is reading the block; wait.
    Filling,
    /// Read it into this slot, then settle it.
    Yours(usize),
    /// Every slot is pinned or filling.
    Full,
}

#[derive(Debug, Clone)]
struct Slot {
    key: Option<BlockKey>,
    state: SlotState,
    pins: u32,
}

impl Slot {
    const EMPTY: Self = Self {
        key: None,
        state: SlotState::Empty,
        pins: 0,
    };

    fn may_be_reused(&self) -> bool {
        self.pins == 0 && self.state != SlotState::Filling
    }
}

/// The states of all slots, without their memory.
#[derive(Debug)]
pub struct Slots {
    index: HashMap<BlockKey, usize>,
    slots: Vec<Slot>,
    empty: Vec<usize>,
    order: Replacement,
}

impl Slots {
    /// Creates `count` empty slots.
    pub fn new(count: usize) -> Self {
        Self {
            index: HashMap::with_capacity(count),
            slots: vec![Slot::EMPTY; count],
            empty: (0..count).rev().collect(),
            order: Replacement::new(count),
        }
    }

    /// Returns the slot of a ready block.
    pub fn find(&self, key: &BlockKey) -> Option<usize> {
        let slot = *self.index.get(key)?;
        matches!(self.slots[slot].state, SlotState::Ready { .. }).then_some(slot)
    }

    /// Finds the block, or claims a slot for it.
    pub fn claim(&mut self, key: &BlockKey) -> SlotClaim {
        if let Some(&slot) = self.index.get(key) {
            return match self.slots[slot].state {
                SlotState::Ready { .. } => SlotClaim::Ready(slot),
                SlotState::Filling => SlotClaim::Filling,
                SlotState::Empty => unreachable!("an empty slot has no key"),
            };
        }
        let Some(slot) = self.empty.pop().or_else(|| self.give_up_one()) else {
            return SlotClaim::Full;
        };
        self.slots[slot] = Slot {
            key: Some(*key),
            state: SlotState::Filling,
            pins: 0,
        };
        self.index.insert(*key, slot);
        self.order.load(slot, key);
        SlotClaim::Yours(slot)
    }

    /// Ends a fill, successful or not.
    pub fn finish_fill(&mut self, slot: usize, state: SlotState) {
        assert_eq!(
            self.slots[slot].state,
            SlotState::Filling,
            "only a filling slot settles"
        );
        self.slots[slot].state = state;
        if state == SlotState::Empty
            && let Some(key) = self.slots[slot].key.take()
        {
            self.index.remove(&key);
            self.order.unload(slot);
            self.empty.push(slot);
        }
    }

    /// Pins a ready slot for a reader; returns the number of valid bytes.
    pub fn pin(&mut self, slot: usize) -> Option<usize> {
        let valid = self.hold(slot)?;
        self.order.read(slot);
        Some(valid)
    }

    /// Pins a ready slot for the thread that filled it. The fill counted as its use, however many
    /// other slots were filled meanwhile.
    pub fn hold(&mut self, slot: usize) -> Option<usize> {
        let entry = &mut self.slots[slot];
        let SlotState::Ready { valid, .. } = entry.state else {
            return None;
        };
        entry.pins += 1;
        Some(valid)
    }

    /// Removes a pin.
    pub fn unpin(&mut self, slot: usize) {
        self.slots[slot].pins = self.slots[slot]
            .pins
            .checked_sub(1)
            .expect("a pin is released once");
    }

    /// Returns the checksum of a ready slot, if it is known.
    pub fn checksum(&self, slot: usize) -> Option<u32> {
        match self.slots[slot].state {
            SlotState::Ready { checksum, .. } => checksum,
            _ => None,
        }
    }

    /// Stores the checksum of a ready slot.
    pub fn remember_checksum(&mut self, slot: usize, value: u32) {
        if let SlotState::Ready { checksum, .. } = &mut self.slots[slot].state {
            *checksum = Some(value);
        }
    }

    /// Returns the numbers of ready and of pinned slots.
    pub fn occupancy(&self) -> (usize, usize) {
        let ready = self
            .slots
            .iter()
            .filter(|slot| matches!(slot.state, SlotState::Ready { .. }))
            .count();
        (
            ready,
            self.slots.iter().filter(|slot| slot.pins > 0).count(),
        )
    }

    /// Evicts a block that has no pins; returns its slot.
    fn give_up_one(&mut self) -> Option<usize> {
        let slots = &self.slots;
        let victim = self.order.choose(|slot| slots[slot].may_be_reused())?;
        if let Some(old) = self.slots[victim.slot].key.take() {
            self.index.remove(&old);
            if victim.was_on_probation {
                self.order.remember(old);
            }
        }
        Some(victim.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::FileVersion;
    use proptest::prelude::*;

    fn key(block: u64) -> BlockKey {
        BlockKey {
            file: FileVersion {
                device: 0,
                inode: 0,
                version: 0,
            },
            block,
        }
    }

    fn load(slots: &mut Slots, block: u64) -> usize {
        let SlotClaim::Yours(slot) = slots.claim(&key(block)) else {
            panic!("block {block} is there already")
        };
        slots.finish_fill(
            slot,
            SlotState::Ready {
                valid: 1,
                checksum: None,
            },
        );
        slot
    }

    #[test]
    fn a_block_that_is_used_again_outlives_one_that_is_not() {
        let mut slots = Slots::new(2);
        let hot = load(&mut slots, 0);
        load(&mut slots, 1);
        for block in 2..10 {
            slots.pin(hot).unwrap();
            slots.unpin(hot);
            load(&mut slots, block);
        }
        assert_eq!(slots.find(&key(0)), Some(hot));
    }

    proptest! {
        /// After any sequence of operations, the index matches the slots, and pinned slots keep
        /// their blocks.
        #[test]
        fn bookkeeping_holds(operations in proptest::collection::vec((0u8..4, 0u64..12), 0..300)) {
            let mut slots = Slots::new(4);
            let mut pinned: Vec<(u64, usize)> = Vec::new();
            let mut filling: Vec<usize> = Vec::new();
            for (operation, block) in operations {
                match operation {
                    0 => match slots.claim(&key(block)) {
                        SlotClaim::Yours(slot) => filling.push(slot),
                        SlotClaim::Ready(slot) => { slots.pin(slot)
                            .unwrap(); pinned.push((block, slot)); }
                        SlotClaim::Filling => {}
                        SlotClaim::Full => prop_assert_eq!(slots.slots.iter()
                            .filter(|s| s.pins == 0 && s.state != SlotState::Filling).count(), 0),
                    },
                    1 => if let Some(slot) = filling.pop() { slots.finish_fill(slot,
                        SlotState::Ready { valid: 1, checksum: None }) },
                    2 => if let Some(slot) = filling.pop() { slots.finish_fill(slot,
                        SlotState::Empty) },
                    _ => if let Some((_, slot)) = pinned.pop() { slots.unpin(slot) },
                }
                for (key, &slot) in &slots.index {
                    prop_assert_eq!(slots.slots[slot].key, Some(*key));
                }
                prop_assert_eq!(slots.index.len(),
                    slots.slots.iter().filter(|slot| slot.key.is_some()).count());
                for &(block, slot) in &pinned {
                    prop_assert_eq!(slots.find(&key(block)), Some(slot));
                }
            }
        }
    }
}

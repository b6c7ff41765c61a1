//! A fixed pool of registered slots for data that do not lie in the cache.

use std::sync::{Arc, Mutex};

use verbena_verbs::Segment;

use crate::fabric::FabricError;
use crate::server::budget::{Account, SlotShare};
use crate::server::cache::Arena;

/// The pool.
#[derive(Debug)]
pub struct Staging {
    arena: Arena,
    slot: usize,
    count: usize,
    free: Mutex<Vec<usize>>,
}

/// A slot, until it is dropped. Nobody else touches its memory meanwhile, but for the adapter, on its holder's behalf.
#[derive(Debug)]
pub struct Slot {
    staging: Arc<Staging>,
    index: usize,
    filled: usize,
    _share: SlotShare,
}

impl Staging {
    /// An arena in slots of `slot` bytes.
    pub fn new(arena: Arena, slot: usize) -> Arc<Self> {
        let count = arena.length() / slot;
        Arc::new(Self {
            arena,
            slot,
            count,
            free: Mutex::new((0..count).collect()),
        })
    }

    /// Slots, and how many of them are taken.
    pub fn occupancy(&self) -> (usize, usize) {
        let free = self
            .free
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        (self.count, self.count - free.len())
    }

    /// A slot, if one is free and the user has not half of them already.
    pub fn take(self: &Arc<Self>, account: &Account) -> Option<Slot> {
        let share = account.take_slot(self.count / 2)?;
        let index = self
            .free
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .pop()?;
        Some(Slot {
            staging: Arc::clone(self),
            index,
            filled: 0,
            _share: share,
        })
    }
}

impl Slot {
    /// Appends bytes. That they fit is the session's limits' doing.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FabricError> {
        let from = self.grow(bytes.len())?;
        // SAFETY: the slot is this holder's alone, `&mut self` says that no reference into it lives, and the adapter is
        // given a slot only after it was filled.
        unsafe { self.staging.arena.slice_mut(from, bytes.len()) }.copy_from_slice(bytes);
        Ok(())
    }

    /// Says that the adapter is to fill this many bytes.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), FabricError> {
        self.grow(bytes).map(|_| ())
    }

    fn grow(&mut self, more: usize) -> Result<usize, FabricError> {
        if more > self.staging.slot - self.filled {
            return Err(FabricError::TooLong {
                length: self.filled.saturating_add(more),
                room: self.staging.slot,
            });
        }
        let from = self.start() + self.filled;
        self.filled += more;
        Ok(from)
    }

    fn start(&self) -> usize {
        self.index * self.staging.slot
    }

    /// The filled part, for the adapter.
    pub fn segment(&self) -> Result<Segment<'_>, FabricError> {
        let segment = self.staging.arena.segment(self.start(), self.filled);
        Ok(segment.ok_or(FabricError::Unregistered)??)
    }

    /// The filled part.
    ///
    /// # Safety
    /// No transfer into the slot is under way.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: as `append`; the adapter is not writing, by the caller's promise.
        unsafe { self.staging.arena.slice(self.start(), self.filled) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.staging
            .free
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .push(self.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::budget::{Bounds, Budget};

    #[test]
    fn slots_are_bounded_separate_and_come_back() {
        let staging = Staging::new(Arena::new(2 * 4096).unwrap(), 4096);
        let bounds = Bounds {
            bytes: 1,
            bytes_per_user: 1,
            pinned_per_user: 1,
        };
        let budget = Budget::new(bounds);
        let (ann, bob) = (budget.account("ann"), budget.account("bob"));
        let mut a = staging.take(&ann).unwrap();
        assert!(staging.take(&ann).is_none(), "half of them for one user");
        let mut b = staging.take(&bob).unwrap();
        assert!(staging.take(&budget.account("cy")).is_none());
        assert_eq!(staging.occupancy(), (2, 2));
        a.append(&[1; 4096]).unwrap();
        b.append(&[2; 100]).unwrap();
        assert!(a.append(&[3]).is_err());
        // SAFETY: there is no adapter.
        unsafe { assert_eq!((a.bytes(), b.bytes()), (&[1; 4096][..], &[2; 100][..])) };
        drop(a);
        let again = staging.take(&ann).unwrap();
        // SAFETY: there is no adapter.
        let left = unsafe { again.bytes() };
        assert!(left.is_empty(), "nothing of the last holder is left");
    }
}

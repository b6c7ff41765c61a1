//! A fixed pool of registered slots for data outside the cache.

use std::sync::{Arc, Mutex};

use verbena_rfio_common::fabric::FabricError;
use verbena_verbs::Segment;

use crate::budget::{Account, SlotShare};
use crate::cache::Arena;

/// The pool.
#[derive(Debug)]
pub struct Staging {
    arena: Arena,
    slot: usize,
    count: usize,
    free: Mutex<Vec<usize>>,
}

/// A slot, held until dropped. Only its holder accesses its memory meanwhile, and the adapter on
/// the holder's behalf.
#[derive(Debug)]
pub struct StagingSlot {
    staging: Arc<Staging>,
    index: usize,
    filled: usize,
    _share: SlotShare,
}

impl Staging {
    /// Divides an arena into slots of `slot` bytes.
    pub fn new(arena: Arena, slot: usize) -> Arc<Self> {
        let count = arena.length() / slot;
        Arc::new(Self {
            arena,
            slot,
            count,
            free: Mutex::new((0..count).collect()),
        })
    }

    /// Returns the number of slots, and how many of them are in use.
    pub fn occupancy(&self) -> (usize, usize) {
        let free = self
            .free
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        (self.count, self.count - free.len())
    }

    /// Takes a slot if one is free and the user holds less than half of them.
    pub fn take(self: &Arc<Self>, account: &Account) -> Option<StagingSlot> {
        let share = account.take_slot(self.count / 2)?;
        let index = self
            .free
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
            .pop()?;
        Some(StagingSlot {
            staging: Arc::clone(self),
            index,
            filled: 0,
            _share: share,
        })
    }
}

impl StagingSlot {
    /// Appends bytes; the session's limits ensure that they fit.
    ///
    /// # Errors
    /// [`FabricError::TooLong`] if they do not.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FabricError> {
        let from = self.grow(bytes.len())?;
        // SAFETY: the slot belongs to this holder alone, `&mut self` excludes other references into
        // it, and the adapter is given a slot only after it was filled.
        unsafe { self.staging.arena.slice_mut(from, bytes.len()) }.copy_from_slice(bytes);
        Ok(())
    }

    /// Reserves this many bytes for the adapter to fill.
    ///
    /// # Errors
    /// [`FabricError::TooLong`] if they do not fit.
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

    /// Returns the filled part, for the adapter.
    ///
    /// # Errors
    /// The arena is not registered.
    pub fn segment(&self) -> Result<Segment<'_>, FabricError> {
        let segment = self.staging.arena.segment(self.start(), self.filled);
        Ok(segment.ok_or(FabricError::Unregistered)??)
    }

    /// Returns the filled part.
    ///
    /// # Safety
    /// No transfer into the slot may be in progress.
    pub unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the slot belongs to this holder alone, `&self` excludes writes by it, and the
        // caller guarantees that the adapter is not writing.
        unsafe { self.staging.arena.slice(self.start(), self.filled) }
    }
}

impl Drop for StagingSlot {
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
    use crate::budget::{Budget, BudgetBounds};

    #[test]
    fn slots_are_bounded_disjoint_and_reusable() {
        let staging = Staging::new(Arena::new(2 * 4096).unwrap(), 4096);
        let bounds = BudgetBounds {
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

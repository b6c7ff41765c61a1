//! References that keep the owner of their target alive.

use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

/// A reference to a part of a shared value, which it keeps alive: one load where the way from the
/// value to its part takes several.
#[derive(Debug)]
pub struct Held<T, O> {
    part: NonNull<T>,
    _owner: Arc<O>,
}

// SAFETY: as a shared reference to the part and a pointer to its owner.
unsafe impl<T: Sync, O: Send + Sync> Send for Held<T, O> {}
// SAFETY: as a shared reference to the part and a pointer to its owner.
unsafe impl<T: Sync, O: Send + Sync> Sync for Held<T, O> {}

impl<T, O> Held<T, O> {
    /// Returns a reference to the part of `owner` that `choose` returns.
    pub fn new(owner: &Arc<O>, choose: impl for<'a> FnOnce(&'a O) -> &'a T) -> Held<T, O> {
        Held {
            part: NonNull::from(choose(owner)),
            _owner: owner.clone(),
        }
    }
}

impl<T, O> Clone for Held<T, O> {
    fn clone(&self) -> Held<T, O> {
        Held {
            part: self.part,
            _owner: self._owner.clone(),
        }
    }
}

impl<T, O> Deref for Held<T, O> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the part was borrowed from the owner for as long as that lives, which is at least
        // as long as `self`; behind an `Arc` it is neither moved nor changed.
        unsafe { self.part.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_outlives_other_owners() {
        let owner = Arc::new((3, vec![5, 7]));
        let part = Held::new(&owner, |owner| &owner.1);
        drop(owner);
        assert_eq!(*part, [5, 7]);
    }
}

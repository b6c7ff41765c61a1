//! Where a ring's next record will be, for whoever looks whether there is one without becoming who takes it.

use crate::shm::ring::{Consumer, Store};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The stamp of the next record's cell and what it says once the record is published. A hint: who takes records notes it when
/// it stops. In one cache line, as whoever polls looks at those of every peer.
#[repr(align(16))]
pub struct NextRecord {
    stamp: AtomicPtr<AtomicU32>,
    mark: AtomicU32,
}

impl NextRecord {
    /// Of a ring of which nothing was taken yet, of a channel that lives as long as this does.
    pub fn first(ring: &impl Store) -> NextRecord {
        let (stamp, mark) = (AtomicPtr::default(), AtomicU32::new(0));
        let next = NextRecord { stamp, mark };
        next.note(&Consumer::default(), ring);
        next
    }

    /// Who takes records of the ring, the same, has got so far.
    #[inline]
    pub fn note(&self, taken: &Consumer, ring: &impl Store) {
        let (stamp, mark) = taken.next(ring);
        self.mark.store(mark, Ordering::Relaxed);
        let stamp = std::ptr::from_ref(stamp).cast_mut();
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Whether it is published, by one look.
    #[inline]
    pub fn is_published(&self) -> bool {
        let stamp = self.stamp.load(Ordering::Relaxed);
        // SAFETY: `first` and `note` stored the address of a stamp in the channel's mapping, which is there as long as we are.
        let found = unsafe { (*stamp).load(Ordering::Acquire) };
        found == self.mark.load(Ordering::Relaxed)
    }

    /// Whether it is published and was so when this was last asked with the same word.
    pub fn was_published(&self, seen: &AtomicPtr<AtomicU32>) -> bool {
        let next = match self.is_published() {
            true => self.stamp.load(Ordering::Relaxed),
            false => std::ptr::null_mut(),
        };
        let before = seen.swap(next, Ordering::Relaxed);
        !next.is_null() && next == before
    }
}

//! The position of the next record of a ring or lane, for threads that check whether there is one
//! without taking the consumer's lock.

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use verbena_hca_shm::channel::Lane;
use verbena_hca_shm::lane;
use verbena_hca_shm::ring::{Consumer, Store};

/// The stamp of the next record's cell, and its value once the record is published. A hint: the
/// consumer notes it when it stops. In one cache line, because polling reads those of every peer.
#[repr(align(16))]
pub struct NextRecord {
    stamp: AtomicPtr<AtomicU32>,
    mark: AtomicU32,
}

impl NextRecord {
    /// Returns the hint for an unread ring. The ring's channel lives at least as long as the hint.
    pub fn first(ring: &impl Store) -> NextRecord {
        let (stamp, mark) = (AtomicPtr::default(), AtomicU32::new(0));
        let next = NextRecord { stamp, mark };
        next.note(&Consumer::default(), ring);
        next
    }

    /// Returns the hint for a lane at a position. The lane's channel lives at least as long as the
    /// hint.
    pub fn in_lane(lane: Lane<'_>, position: u32) -> NextRecord {
        let (stamp, mark) = (AtomicPtr::default(), AtomicU32::new(0));
        let next = NextRecord { stamp, mark };
        next.note_in_lane(lane, position);
        next
    }

    /// Notes the position that the consumer of the same ring has reached.
    #[inline]
    pub fn note(&self, taken: &Consumer, ring: &impl Store) {
        self.set(taken.next(ring));
    }

    /// Notes the position that the consumer of the same lane has reached.
    #[inline]
    pub fn note_in_lane(&self, lane: Lane<'_>, position: u32) {
        self.set(lane::next(&lane, position));
    }

    #[inline]
    fn set(&self, (stamp, mark): (&AtomicU32, u32)) {
        self.mark.store(mark, Ordering::Relaxed);
        let stamp = std::ptr::from_ref(stamp).cast_mut();
        self.stamp.store(stamp, Ordering::Relaxed);
    }

    /// Returns whether the record is published, by one look.
    #[inline]
    pub fn is_published(&self) -> bool {
        let stamp = self.stamp.load(Ordering::Relaxed);
        // SAFETY: `set` stored the address of a stamp in the channel's mapping, which
        // lives at least as long as `self`.
        let found = unsafe { (*stamp).load(Ordering::Acquire) };
        found == self.mark.load(Ordering::Relaxed)
    }

    /// Returns whether it is published and was so at the last call with the same word.
    pub fn was_published(&self, seen: &AtomicPtr<AtomicU32>) -> bool {
        let next = match self.is_published() {
            true => self.stamp.load(Ordering::Relaxed),
            false => std::ptr::null_mut(),
        };
        let before = seen.swap(next, Ordering::Relaxed);
        !next.is_null() && next == before
    }
}

//! Where completions wait: a ring of entries that many threads may fill and one at a time empties.
//!
//! The law:
//! - Who fills holds the queue's `push` lock and alone moves `tail`; who empties holds its `poll` lock, or is the only
//!   thread that polls by the program's promise, and alone moves `head`. Neither waits for the other.
//! - SYNC POINT completion: an entry is written before `tail` passes it (Release), and read after `tail` was loaded
//!   (Acquire). It is read before `head` passes it (Release), and overwritten after `head` was loaded (Acquire).
//! - Whoever changes the entries in between, or their memory, holds both locks.

use std::alloc::{self, Layout};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_abi::ibv_wc;

/// How far a send queue's entries are free again. Written by whoever polls, and by whoever clears the queue.
#[derive(Debug, Default)]
pub struct Retired {
    polled: AtomicU64,
    forgotten: AtomicU64,
}

impl Retired {
    /// The position up to which they are free.
    #[inline]
    pub fn position(&self) -> u64 {
        let polled = self.polled.load(Ordering::Relaxed);
        polled.max(self.forgotten.load(Ordering::Relaxed))
    }

    /// Everything up to `position` is free without being polled. Under the send queue's lock.
    pub fn forget(&self, position: u64) {
        self.forgotten.store(position, Ordering::Relaxed);
    }

    /// A completion that stands for everything up to `position` was taken. By one thread at a time, in the order of
    /// posting.
    #[inline]
    fn poll(&self, position: u64) {
        if position > self.polled.load(Ordering::Relaxed) {
            self.polled.store(position, Ordering::Relaxed);
        }
    }
}

/// A completion as it waits: a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Entry {
    pub wc: ibv_wc,
    /// Of the send queue that has room again once this is taken, or null. The queue keeps it alive (`Cq::attach`).
    pub retired: *const Retired,
    pub position: u64,
}

const _: () = assert!(size_of::<Entry>() == 64);

impl Entry {
    /// It is taken, or dropped: makes its room.
    ///
    /// # Safety
    /// `retired` is null or alive; the caller is who empties the ring.
    #[inline]
    pub unsafe fn retire(&self) {
        // SAFETY: as promised to us.
        if let Some(retired) = unsafe { self.retired.as_ref() } {
            retired.poll(self.position);
        }
    }
}

/// The memory of a ring: as many entries as the power of two that holds its capacity. Memory that was never used is not
/// there.
pub(super) struct Entries {
    entries: Box<[UnsafeCell<MaybeUninit<Entry>>]>,
    /// Times of the entries, nanoseconds; none if the queue records none.
    times: Box<[AtomicU64]>,
}

// SAFETY: who may touch which entry when is the ring's law above.
unsafe impl Send for Entries {}
// SAFETY: as above.
unsafe impl Sync for Entries {}

impl Entries {
    /// Room for `capacity` completions.
    pub fn new(capacity: u32, with_times: bool) -> Entries {
        let count = (capacity as usize).next_power_of_two();
        Entries {
            entries: zeroed(count),
            times: zeroed(if with_times { count } else { 0 }),
        }
    }

    #[inline]
    fn index(&self, position: u64) -> usize {
        position as usize & (self.entries.len() - 1)
    }

    /// Writes the entry at a position.
    ///
    /// # Safety
    /// The position is free, and the caller is who fills the ring or holds both locks.
    #[inline]
    pub unsafe fn write(&self, position: u64, entry: Entry) {
        // SAFETY: nobody else touches a free position.
        unsafe { (*self.entries[self.index(position)].get()).write(entry) };
    }

    /// The entry at a position.
    ///
    /// # Safety
    /// It lies between `head` and `tail`, and the caller is who empties the ring or holds both locks.
    #[inline]
    pub unsafe fn read(&self, position: u64) -> &Entry {
        // SAFETY: what lies between was written, and stays while it lies there.
        unsafe { (*self.entries[self.index(position)].get()).assume_init_ref() }
    }

    /// Notes the time of an entry, if times are recorded.
    #[inline]
    pub fn set_time(&self, position: u64, time: u64) {
        if let Some(place) = self.times.get(self.index(position)) {
            place.store(time, Ordering::Relaxed);
        }
    }

    /// The time of an entry, 0 if times are not recorded.
    #[inline]
    pub fn time(&self, position: u64) -> u64 {
        let place = self.times.get(self.index(position));
        place.map_or(0, |place| place.load(Ordering::Relaxed))
    }
}

/// What may be all zeros.
///
/// # Safety
/// It may.
unsafe trait Zeroable {}
// SAFETY: it may even be uninitialised.
unsafe impl Zeroable for UnsafeCell<MaybeUninit<Entry>> {}
// SAFETY: zero is a number.
unsafe impl Zeroable for AtomicU64 {}

/// Many of these, all zeros, of which the system provides those that are used.
fn zeroed<T: Zeroable>(count: usize) -> Box<[T]> {
    let Ok(layout) = Layout::array::<T>(count) else {
        return Box::default();
    };
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout has a size; what the allocator gives is checked, and is then `count` valid values.
    unsafe {
        let memory = alloc::alloc_zeroed(layout).cast::<T>();
        if memory.is_null() {
            alloc::handle_alloc_error(layout);
        }
        Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(wr_id: u64) -> Entry {
        Entry {
            wc: ibv_wc {
                wr_id,
                ..ibv_wc::default()
            },
            retired: std::ptr::null(),
            position: 0,
        }
    }

    #[test]
    fn positions_share_entries_a_lap_apart() {
        let entries = Entries::new(3, true);
        // SAFETY: this thread alone fills and empties.
        unsafe {
            for position in 0..4 {
                entries.write(position, entry(position));
                entries.set_time(position, 10 + position);
            }
            entries.write(4, entry(4));
            assert_eq!(entries.read(4).wc.wr_id, 4);
            assert_eq!(entries.read(1).wc.wr_id, 1);
            assert_eq!(entries.time(3), 13);
        }
        assert_eq!(Entries::new(3, false).time(1), 0);
    }

    #[test]
    fn what_was_polled_and_what_was_forgotten_are_both_free() {
        let retired = Retired::default();
        retired.poll(5);
        retired.poll(3);
        assert_eq!(retired.position(), 5);
        retired.forget(9);
        retired.poll(7);
        assert_eq!(retired.position(), 9);
        retired.poll(11);
        assert_eq!(retired.position(), 11);
    }
}

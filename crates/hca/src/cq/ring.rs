//! Ring of completions, filled by many threads and emptied by one at a time.
//!
//! Invariants:
//! - A producer holds the queue's `push` lock, and only producers move `tail`. A consumer holds its
//!   `poll` lock, or is the only polling thread by the program's promise, and only consumers move
//!   `head`. Neither waits for the other.
//! - SYNC POINT completion: an entry is written before `tail` passes it (Release), and read after
//!   `tail` was loaded (Acquire). It is read before `head` passes it (Release), and overwritten
//!   after `head` was loaded (Acquire).
//! - Changing the entries between `head` and `tail`, or the memory of the ring, requires both
//!   locks.

use std::alloc::{self, Layout};
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_abi::ibv_wc;

/// Position up to which a send queue's entries are free again. Written by threads that poll the
/// completion queue and by threads that clear the send queue. It shares no cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Retired {
    polled: AtomicU64,
    forgotten: AtomicU64,
}

impl Retired {
    /// Returns the position up to which the entries are free.
    #[inline]
    pub fn position(&self) -> u64 {
        let polled = self.polled.load(Ordering::Relaxed);
        polled.max(self.forgotten.load(Ordering::Relaxed))
    }

    /// Frees everything up to `position` without a poll. Called under the send queue's lock.
    pub fn forget(&self, position: u64) {
        self.forgotten.store(position, Ordering::Relaxed);
    }

    /// Frees everything up to `position`, because its completion was polled. Called by one thread
    /// at a time, in the order of posting.
    #[inline]
    fn poll(&self, position: u64) {
        if position > self.polled.load(Ordering::Relaxed) {
            self.polled.store(position, Ordering::Relaxed);
        }
    }
}

/// A completion in the ring: one cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct CqEntry {
    pub wc: ibv_wc,
    /// Counter of the send queue whose entries become free when this completion is polled, or null.
    /// The completion queue keeps it alive (`Cq::attach`).
    pub retired: *const Retired,
    pub position: u64,
}

const _: () = assert!(size_of::<CqEntry>() == 64);

impl CqEntry {
    /// Frees the send queue's entries when the completion is polled or dropped.
    ///
    /// # Safety
    /// `retired` is null or points to a live counter; the caller is the consumer of the ring.
    #[inline]
    pub unsafe fn retire(&self) {
        // SAFETY: the caller promises that `retired` is null or points to a live counter.
        if let Some(retired) = unsafe { self.retired.as_ref() } {
            retired.poll(self.position);
        }
    }
}

/// Memory of a ring: the capacity rounded up to a power of two. Pages that were never touched are
/// not allocated.
pub(super) struct Entries {
    entries: Box<[UnsafeCell<MaybeUninit<CqEntry>>]>,
    /// Timestamps of the entries in nanoseconds; empty if the queue records none.
    times: Box<[AtomicU64]>,
}

// SAFETY: the ring's invariants (see the module) give each entry to one thread at a time.
unsafe impl Send for Entries {}
// SAFETY: the ring's invariants (see the module) give each entry to one thread at a time.
unsafe impl Sync for Entries {}

impl Entries {
    /// Allocates space for `capacity` completions.
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
    /// The position is free, and the caller is the producer of the ring or holds both locks.
    #[inline]
    pub unsafe fn write(&self, position: u64, entry: CqEntry) {
        // SAFETY: no other thread touches a free position.
        unsafe { (*self.entries[self.index(position)].get()).write(entry) };
    }

    /// Returns the entry at a position.
    ///
    /// # Safety
    /// The position lies between `head` and `tail`, and the caller is the consumer of the ring or
    /// holds both locks.
    #[inline]
    pub unsafe fn read(&self, position: u64) -> &CqEntry {
        // SAFETY: entries between `head` and `tail` were written, and stay unchanged while they lie
        // there.
        unsafe { (*self.entries[self.index(position)].get()).assume_init_ref() }
    }

    /// Stores the timestamp of an entry, if timestamps are recorded.
    #[inline]
    pub fn set_time(&self, position: u64, time: u64) {
        if let Some(place) = self.times.get(self.index(position)) {
            place.store(time, Ordering::Relaxed);
        }
    }

    /// Returns the timestamp of an entry, 0 if timestamps are not recorded.
    #[inline]
    pub fn time(&self, position: u64) -> u64 {
        let place = self.times.get(self.index(position));
        place.map_or(0, |place| place.load(Ordering::Relaxed))
    }
}

/// Types for which all zero bytes are a valid value.
///
/// # Safety
/// All zero bytes must be a valid value of the type.
unsafe trait Zeroable {}
// SAFETY: the contents may even be uninitialised.
unsafe impl Zeroable for UnsafeCell<MaybeUninit<CqEntry>> {}
// SAFETY: zero is a valid number.
unsafe impl Zeroable for AtomicU64 {}

/// Returns `count` zeroed values; the kernel provides their pages on first use.
fn zeroed<T: Zeroable>(count: usize) -> Box<[T]> {
    let Ok(layout) = Layout::array::<T>(count) else {
        return Box::default();
    };
    if layout.size() == 0 {
        return Box::default();
    }
    // SAFETY: the layout's size is not 0; the allocator's result is checked for null, and zeroed
    // memory is `count` valid values of a `Zeroable` type.
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

    fn entry(wr_id: u64) -> CqEntry {
        CqEntry {
            wc: ibv_wc {
                wr_id,
                ..ibv_wc::default()
            },
            retired: std::ptr::null(),
            position: 0,
        }
    }

    #[test]
    fn positions_one_lap_apart_share_an_entry() {
        let entries = Entries::new(3, true);
        // SAFETY: only this thread fills and empties the ring.
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
    fn polled_and_forgotten_entries_are_free() {
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

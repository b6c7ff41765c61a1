//! The current completion of a queue's iterator, which the extended interface reads.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{hint, thread};

use verbena_abi::ibv_wc;
use verbena_hca::cq::Polled;

/// The current completion of the iterator, and the lock of the iterator: between `start_poll` and
/// `end_poll` the queue belongs to one thread.
pub struct Current {
    polled: Polled,
    taken: AtomicBool,
    pub(crate) completion: UnsafeCell<CurrentCompletion>,
}

/// A completion.
#[derive(Default)]
pub(crate) struct CurrentCompletion {
    pub(crate) wc: ibv_wc,
    /// Time of the adapter's clock, in nanoseconds.
    pub(crate) timestamp: u64,
}

// SAFETY: `completion` is only accessed by the thread that holds `taken`, or by the only polling
// thread, as the program promises by the flag IBV_CREATE_CQ_ATTR_SINGLE_THREADED.
unsafe impl Sync for Current {}

// SAFETY: plain data.
unsafe impl Send for Current {}

impl Current {
    /// Returns an iterator without a completion.
    pub fn of(polled: Polled) -> Current {
        Current {
            polled,
            taken: AtomicBool::new(false),
            completion: UnsafeCell::default(),
        }
    }

    /// Waits for the iterator's lock. Other threads hold it for a few completions only.
    #[inline]
    pub(crate) fn acquire(&self) {
        if self.polled == Polled::ByOne {
            return;
        }
        let mut tries = 0u32;
        while self.taken.swap(true, Ordering::Acquire) {
            tries += 1;
            if tries.is_multiple_of(64) {
                thread::yield_now()
            } else {
                hint::spin_loop()
            }
        }
    }

    /// Releases the iterator's lock.
    #[inline]
    pub(crate) fn release(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

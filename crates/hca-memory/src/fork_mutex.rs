//! State that outlives fork(2): a mutex, and a count of forks.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use verbena_hca_os::sync::wait_a_little;

/// Counts forks on the child's side; an object made under another count belongs to an ancestor.
pub static GENERATION: AtomicU64 = AtomicU64::new(0);

/// A mutex that can be unlocked without its guard: std's cannot be held across a fork.
pub struct ForkMutex {
    raw: AtomicU32,
}

/// Holds a [`ForkMutex`].
pub struct ForkGuard<'a>(&'a ForkMutex);

impl ForkMutex {
    /// Returns an unlocked mutex.
    pub const fn new() -> ForkMutex {
        ForkMutex {
            raw: AtomicU32::new(0),
        }
    }

    /// Waits for the lock. Registration is slow and rare, so waiting polls instead of queueing.
    pub fn lock(&self) -> ForkGuard<'_> {
        let mut looks = 0;
        while self.raw.swap(1, Ordering::Acquire) != 0 {
            wait_a_little(&mut looks);
        }
        ForkGuard(self)
    }

    /// Unlocks without a guard.
    ///
    /// # Safety
    /// The caller holds the lock through a guard that it forgot.
    pub unsafe fn force_unlock(&self) {
        self.raw.store(0, Ordering::Release);
    }
}

impl Default for ForkMutex {
    fn default() -> ForkMutex {
        ForkMutex::new()
    }
}

impl Drop for ForkGuard<'_> {
    fn drop(&mut self) {
        self.0.raw.store(0, Ordering::Release);
    }
}

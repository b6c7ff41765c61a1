//! A lock for critical sections of some tens of instructions. [`crate::claim`] holds the owner:
//! taking the lock costs one locked instruction, or none for the thread that always takes it;
//! releasing it is a store.
//!
//! The standard mutex pays a second locked instruction on release, to learn whether a thread
//! sleeps. No thread sleeps here: one that finds the lock taken looks again, then yields, then
//! naps, so that a holder that was preempted or has a lower priority can run. Critical sections
//! that may be long (a memory copy, say) belong under a mutex.
//!
//! SYNC POINT lock: the release is a Release store, and the next holder sees the writes of the
//! previous one.

use crate::claim::{Claim, HABIT};
use crate::thread_number;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time may use.
#[derive(Debug)]
pub struct Lock<T> {
    claim: Claim,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives the value to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value. Dropping it releases the lock.
pub struct Guard<'a, T> {
    /// Cleared to release the lock.
    word: &'a AtomicBool,
    value: &'a UnsafeCell<T>,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Lock<T> {
        Lock::new(T::default())
    }
}

impl<T> Lock<T> {
    /// Returns a free lock.
    pub fn new(value: T) -> Lock<T> {
        Lock {
            claim: Claim::new(HABIT),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard {
            word: self.claim.take(thread_number::own()),
            value: &self.value,
        }
    }

    /// Takes the lock unless it is held.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let word = self.claim.try_take(thread_number::own())?;
        Some(Guard {
            word,
            value: &self.value,
        })
    }

    /// Returns the value without taking the lock.
    ///
    /// # Safety
    /// No other thread uses the value for as long as the result is used, and no guard of it exists.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees exclusive access"
    )]
    #[inline]
    pub unsafe fn of_one_thread(&self) -> &mut T {
        // SAFETY: the caller promises that no other thread and no guard uses the value.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, so no other thread uses the value.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, so no other thread uses the value, and it is borrowed
        // mutably.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.word.store(false, Ordering::Release);
    }
}

// SAFETY: a shared guard gives shared references only.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::barrier;
    use std::time::Duration;

    #[test]
    fn additions_of_several_threads_are_all_there() {
        const THREADS: usize = 4;
        const ROUNDS: usize = 20_000;
        let sum = Lock::new(0usize);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..ROUNDS {
                        *sum.lock() += 1;
                    }
                });
            }
        });
        assert_eq!(*sum.lock(), THREADS * ROUNDS);
    }

    #[test]
    fn a_thread_that_always_comes_is_still_alone_when_another_does() {
        const OFTEN: usize = 300_000;
        const SELDOM: usize = 300;
        barrier::prepare();
        let sum = Lock::new(0usize);
        std::thread::scope(|scope| {
            scope.spawn(|| (0..OFTEN).for_each(|_| *sum.lock() += 1));
            scope.spawn(|| {
                for _ in 0..SELDOM {
                    *sum.lock() += 1;
                    std::thread::yield_now();
                    if let Some(mut sum) = sum.try_lock() {
                        *sum += 1;
                        *sum -= 1;
                    }
                }
            });
        });
        assert_eq!(*sum.lock(), OFTEN + SELDOM);
    }

    #[test]
    fn who_is_at_home_cannot_try_it_twice() {
        let lock = Lock::new(0);
        (0..2 * HABIT).for_each(|_| *lock.lock() += 1);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        drop(guard);
        std::thread::scope(|scope| {
            let guard = lock.lock();
            assert!(scope.spawn(|| lock.try_lock().is_none()).join().unwrap());
            drop(guard);
            assert!(scope.spawn(|| lock.try_lock().is_some()).join().unwrap());
        });
        assert!(lock.try_lock().is_some());
    }

    #[test]
    fn what_is_taken_cannot_be_tried() {
        let lock = Lock::new(5);
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        assert!(
            lock.try_lock().is_none(),
            "a failed try does not release it"
        );
        drop(guard);
        assert_eq!(lock.try_lock().map(|guard| *guard), Some(5));
        assert_eq!(*lock.lock(), 5);
    }

    #[test]
    fn who_waits_for_a_sleeping_holder_gets_it_in_the_end() {
        let lock = Lock::new(0);
        std::thread::scope(|scope| {
            let mut guard = lock.lock();
            let other = scope.spawn(|| *lock.lock());
            std::thread::sleep(Duration::from_millis(20));
            *guard = 7;
            drop(guard);
            assert_eq!(other.join().unwrap(), 7);
        });
    }
}

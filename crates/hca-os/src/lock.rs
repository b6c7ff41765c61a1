//! A lock for critical sections of some tens of instructions. `biased_lock` holds the
//! owner: taking the lock costs one locked instruction, or none for the thread that always takes
//! it; releasing it is a store.
//!
//! The standard mutex pays a second locked instruction on release, to learn whether a thread
//! sleeps. No thread sleeps here: one that finds the lock taken looks again, then yields, then
//! naps, so that a holder that was preempted or has a lower priority can run. Critical sections
//! that may be long (a memory copy, say) belong under a mutex.
//!
//! SYNC POINT lock: the release is a Release store, and the next holder sees the writes of the
//! previous one.

use crate::biased_lock::{BiasedLock, HABIT};
use crate::thread_number;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};

/// A value that one thread at a time may use.
#[derive(Debug)]
pub struct Lock<T> {
    biased_lock: BiasedLock,
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
            biased_lock: BiasedLock::new(HABIT),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard {
            word: self.biased_lock.take(thread_number::own()),
            value: &self.value,
        }
    }

    /// Takes the lock unless it is held.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let word = self.biased_lock.try_take(thread_number::own())?;
        Some(Guard {
            word,
            value: &self.value,
        })
    }

    /// Takes the lock if that needs no locked instruction: for the thread that always takes it.
    #[inline(always)]
    pub fn try_lock_at_home(&self) -> Option<Guard<'_, T>> {
        let word = self.biased_lock.try_take_biased(thread_number::own())?;
        Some(Guard {
            word,
            value: &self.value,
        })
    }

    /// Returns a guard without taking the lock.
    ///
    /// # Safety
    /// No other thread uses the value or the lock for as long as the guard lives, and no other
    /// guard exists.
    #[inline(always)]
    pub unsafe fn guard_of_one_thread(&self) -> Guard<'_, T> {
        Guard {
            word: self.biased_lock.unused_word(),
            value: &self.value,
        }
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
    use crate::barrier;
    use std::time::Duration;

    #[test]
    fn lock_protects_additions_of_several_threads() {
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
    fn biased_thread_excludes_an_occasional_thread() {
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
    fn try_lock_by_the_holding_home_thread_fails() {
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
    fn try_lock_of_a_held_lock_fails() {
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
    fn waiter_gets_the_lock_after_a_sleeping_holder() {
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

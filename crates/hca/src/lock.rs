//! A lock for what is held for some tens of instructions. Who has it says [`crate::claim`]: taking it costs one locked
//! instruction, or none for the thread that always takes it; giving it back is a store.
//!
//! The standard mutex pays a second locked instruction on release, to learn whether somebody sleeps. Nobody sleeps here:
//! who finds the lock taken looks again, then lets others run, then naps, so that a holder which was put aside by the
//! scheduler, or has a lower priority, gets on. What may be held for long (while memory is copied, say) belongs under a
//! mutex.
//!
//! SYNC POINT lock: the release is a Release store, and who takes it next sees what the holder did.

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

// SAFETY: the value is handed to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value. It ends when dropped.
pub struct Guard<'a, T> {
    /// Cleared to give it back.
    word: &'a AtomicBool,
    value: &'a UnsafeCell<T>,
}

impl<T: Default> Default for Lock<T> {
    fn default() -> Lock<T> {
        Lock::new(T::default())
    }
}

impl<T> Lock<T> {
    /// Not taken.
    pub fn new(value: T) -> Lock<T> {
        Lock {
            claim: Claim::new(HABIT),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the right to use the value.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        Guard {
            word: self.claim.take(thread_number::own()),
            value: &self.value,
        }
    }

    /// The right to use the value, unless somebody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        let word = self.claim.try_take(thread_number::own())?;
        Some(Guard {
            word,
            value: &self.value,
        })
    }

    /// The value, without taking the lock.
    ///
    /// # Safety
    /// No other thread uses the value for as long as the result is used, and no guard of it exists.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller promises what the lock would see to"
    )]
    #[inline]
    pub unsafe fn of_one_thread(&self) -> &mut T {
        // SAFETY: as promised to us.
        unsafe { &mut *self.value.get() }
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard is the right to use it.
        unsafe { &*self.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
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
        assert!(lock.try_lock().is_none(), "trying does not give it back");
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

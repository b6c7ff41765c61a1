//! A lock for what is held for some tens of instructions: taking it costs one locked instruction, giving it back a store.
//!
//! The standard mutex pays a second locked instruction on release, to learn whether somebody sleeps. Nobody sleeps here:
//! who finds the lock taken looks again, then lets others run, then naps, so that a holder which was put aside by the
//! scheduler, or has a lower priority, gets on. What may be held for long (while memory is copied, say) belongs under a
//! mutex.
//!
//! SYNC POINT lock: the release is a Release store, and taking is an Acquire exchange, so what one holder did the next
//! one sees.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Looks before others are let run.
const SPINS: u32 = 64;
/// Looks before the first nap; between those beyond [`SPINS`] others are let run.
const LOOKS: u32 = 128;
const NAP: Duration = Duration::from_micros(50);

/// A value that one thread at a time may use.
#[derive(Debug, Default)]
pub struct Lock<T> {
    taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: the value is handed to one thread at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

/// The right to use the value. It ends when dropped.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Lock<T> {
    /// Not taken.
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            taken: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the right to use the value.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        if self.taken.swap(true, Ordering::Acquire) {
            self.wait();
        }
        Guard { lock: self }
    }

    /// The right to use the value, unless somebody has it.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_, T>> {
        // A look first: an exchange would take the line from the holder for nothing.
        let is_taken =
            self.taken.load(Ordering::Relaxed) || self.taken.swap(true, Ordering::Acquire);
        if is_taken {
            return None;
        }
        // Made only now: a guard gives the lock back when it is dropped.
        Some(Guard { lock: self })
    }

    #[cold]
    fn wait(&self) {
        let mut looks: u32 = 0;
        loop {
            if !self.taken.load(Ordering::Relaxed) && !self.taken.swap(true, Ordering::Acquire) {
                return;
            }
            looks = looks.saturating_add(1);
            match looks {
                0..SPINS => std::hint::spin_loop(),
                SPINS..LOOKS => std::thread::yield_now(),
                _ => std::thread::sleep(NAP),
            }
        }
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
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.taken.store(false, Ordering::Release);
    }
}

// SAFETY: a shared guard gives shared references only.
unsafe impl<T: Sync> Sync for Guard<'_, T> {}

#[cfg(test)]
mod tests {
    use super::*;

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

//! A lock that is free in a child of fork(2), even if another thread of its parent held it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Once;

/// A value behind a lock. The process has one ([`crate::state`]).
pub struct Lock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only reached through a `Guard`, of which there is one at a time; the mutex is
// made for threads.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    pub const fn new(value: T) -> Self {
        Lock {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    pub fn lock(&self) -> Guard<'_, T> {
        self.close();
        Guard(self)
    }

    fn close(&self) {
        // SAFETY: the mutex is initialised, and never moves while in use, as it is in a static.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
    }

    fn open(&self) {
        // SAFETY: the mutex is initialised and in a static; the caller is the thread that locked
        // it, or that thread's copy in the child.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

/// Exclusive access to the value.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the mutex, so no other reference exists.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the mutex, so no other reference exists.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Has fork(2) take the state's lock, so that no thread is changing the state meanwhile.
pub fn survive_forks() {
    static ONCE: Once = Once::new();
    unsafe extern "C" fn before() {
        crate::state::STATE.close();
    }
    unsafe extern "C" fn after() {
        crate::state::STATE.open();
    }
    unsafe extern "C" fn in_child() {
        crate::state::STATE.open();
        crate::counters::begin_process();
        crate::refusals::begin_process();
        crate::alive::begin_process();
    }
    ONCE.call_once(|| {
        // SAFETY: the functions live as long as the process, as the library is preloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(in_child)) };
    });
}

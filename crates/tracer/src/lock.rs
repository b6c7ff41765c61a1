//! A lock that a child made by fork(2) finds open, though another thread of its parent held it.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::Once;

/// A value behind a lock. There is one in the process ([`crate::state`]).
pub struct Lock<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: `value` is only reached through a `Guard`, of which there is one at a time; the mutex is made for threads.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A lock that is open.
    pub const fn new(value: T) -> Self {
        Lock {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for it.
    pub fn lock(&self) -> Guard<'_, T> {
        self.close();
        Guard(self)
    }

    fn close(&self) {
        // SAFETY: initialised, never moved while somebody uses it (it stands in a static).
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
    }

    fn open(&self) {
        // SAFETY: as above; called by whoever closed it, or in the child by the copy of the thread that did.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

/// The right to use the value.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mutex is ours.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the mutex is ours.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Has fork(2) take the state's lock, so that nobody is in the middle of it.
pub fn survive_forks() {
    static ONCE: Once = Once::new();
    unsafe extern "C" fn before() {
        crate::state::STATE.close();
    }
    unsafe extern "C" fn after() {
        crate::state::STATE.open();
    }
    ONCE.call_once(|| {
        // SAFETY: functions that live as long as the process: the library is preloaded.
        unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
    });
}

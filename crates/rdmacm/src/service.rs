//! The connection manager of a process: its channels and identifiers, under one lock.

use crate::inbox::Inbox;
use crate::state::State;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Instant;

/// The connection manager of one process.
pub struct Service {
    pub(crate) pid: u32,
    pub(crate) state: Mutex<State>,
    /// MADs from other hosts.
    pub inbox: Inbox,
}

/// A pointer instead of a lock, as another thread might hold a lock during fork(2).
pub(crate) static CURRENT: AtomicPtr<Service> = AtomicPtr::new(std::ptr::null_mut());

impl Service {
    /// Returns the connection manager of this process, if there is one.
    pub fn existing() -> Option<&'static Service> {
        // SAFETY: the pointer is null, or was made by `Box::into_raw` in `current` and is never
        // freed once it is published here.
        let current = unsafe { CURRENT.load(Ordering::Acquire).as_ref() };
        current.filter(|service| service.pid == std::process::id())
    }

    /// Locks the state, or returns `None` if that is not possible until the deadline.
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, State>> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(state)) => return Some(state.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
    }

    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Events and their acknowledgement.
//!
//! A program must acknowledge every event that it gets, and destroying an object waits for that
//! (ibv_get_cq_event(3), ibv_get_async_event(3)): otherwise a thread could still hold a pointer
//! from an event. The count of acknowledged events is in the C structure, beside the mutex and the
//! condition variable that guard it; the count of delivered events is in the Rust object.

use std::sync::atomic::{AtomicU32, Ordering};

use verbena_abi::{pthread_cond_t, pthread_mutex_t};

/// Number of events of an object that were delivered to the program.
#[derive(Default)]
pub struct Delivered(AtomicU32);

impl Delivered {
    /// Counts an event. Called while the event's queue is locked, so that the object's destruction
    /// finds the event either in the queue or counted.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Mutex and condition variable of a counter in a C structure.
#[derive(Clone, Copy)]
pub struct Guard {
    mutex: *mut libc::pthread_mutex_t,
    condition: *mut libc::pthread_cond_t,
}

impl Guard {
    /// Returns the guard of a mutex and a condition variable.
    pub fn of(mutex: *mut pthread_mutex_t, condition: *mut pthread_cond_t) -> Guard {
        Guard {
            mutex: mutex.cast(),
            condition: condition.cast(),
        }
    }

    /// Initialises both.
    ///
    /// # Safety
    /// Both pointers must be valid and not in use yet.
    pub unsafe fn initialise(self) {
        // SAFETY: the caller promises valid pointers that are not in use yet.
        unsafe {
            libc::pthread_mutex_init(self.mutex, std::ptr::null());
            libc::pthread_cond_init(self.condition, std::ptr::null());
        }
    }

    /// Counts acknowledged events.
    ///
    /// # Safety
    /// The guard must be initialised, and guard `counter`.
    pub unsafe fn acknowledge(self, counter: *mut u32, events: u32) {
        // SAFETY: the caller promises an initialised guard of `counter`.
        unsafe {
            libc::pthread_mutex_lock(self.mutex);
            *counter = (*counter).wrapping_add(events);
            libc::pthread_cond_broadcast(self.condition);
            libc::pthread_mutex_unlock(self.mutex);
        }
    }

    /// Waits until all delivered events are acknowledged.
    ///
    /// # Safety
    /// The guard must be initialised, and guard `counter`.
    pub unsafe fn wait(self, counter: *const u32, delivered: &Delivered) {
        // SAFETY: the caller promises an initialised guard of `counter`.
        unsafe {
            libc::pthread_mutex_lock(self.mutex);
            while counter.read_volatile() != delivered.get() {
                libc::pthread_cond_wait(self.condition, self.mutex);
            }
            libc::pthread_mutex_unlock(self.mutex);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn destroy_waits_for_the_last_acknowledgement() {
        struct Shared(Guard, *mut u32);
        // SAFETY: the counter is only accessed under the guard.
        unsafe impl Sync for Shared {}

        let (mut mutex, mut condition, mut counter) =
            (pthread_mutex_t::default(), pthread_cond_t::default(), 0u32);
        let shared = Shared(Guard::of(&mut mutex, &mut condition), &mut counter);
        let delivered = Delivered::default();
        delivered.count();
        delivered.count();
        delivered.count();
        // SAFETY: all pointers are valid until the end of the scope.
        unsafe {
            shared.0.initialise();
            thread::scope(|scope| {
                let shared = &shared;
                scope.spawn(move || {
                    shared.0.acknowledge(shared.1, 2);
                    shared.0.acknowledge(shared.1, 1);
                });
                shared.0.wait(shared.1, &delivered);
                assert_eq!(*shared.1, 3);
            });
        }
    }
}

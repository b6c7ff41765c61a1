//! Events and their acknowledgement.
//!
//! A program must acknowledge every event that it got, and destroying an object waits until it has
//! (ibv_get_cq_event(3), ibv_get_async_event(3)): otherwise a thread could still hold a pointer
//! that an event gave it. How many were acknowledged stands in the C structure, beside the mutex
//! and the condition variable that guard it there; how many were delivered stands with us.

use std::sync::atomic::{AtomicU32, Ordering};

use verbena_abi::{pthread_cond_t, pthread_mutex_t};

/// Events of one object that were handed to the program.
#[derive(Default)]
pub struct Delivered(AtomicU32);

impl Delivered {
    /// Counts one more. Called while the event's queue is locked, so that destroying the object
    /// either still finds the event in the queue or finds it counted.
    pub fn count(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// The guard of a counter in a C structure.
#[derive(Clone, Copy)]
pub struct Guard {
    mutex: *mut libc::pthread_mutex_t,
    condition: *mut libc::pthread_cond_t,
}

impl Guard {
    /// The guard that these two make up.
    pub fn of(mutex: *mut pthread_mutex_t, condition: *mut pthread_cond_t) -> Guard {
        Guard {
            mutex: mutex.cast(),
            condition: condition.cast(),
        }
    }

    /// Makes both ready for use.
    ///
    /// # Safety
    /// Both pointers are valid, and nobody uses them yet.
    pub unsafe fn initialise(self) {
        // SAFETY: as promised to us.
        unsafe {
            libc::pthread_mutex_init(self.mutex, std::ptr::null());
            libc::pthread_cond_init(self.condition, std::ptr::null());
        }
    }

    /// Counts acknowledged events.
    ///
    /// # Safety
    /// The guard is initialised and guards `counter`.
    pub unsafe fn acknowledge(self, counter: *mut u32, events: u32) {
        // SAFETY: as promised to us.
        unsafe {
            libc::pthread_mutex_lock(self.mutex);
            *counter = (*counter).wrapping_add(events);
            libc::pthread_cond_broadcast(self.condition);
            libc::pthread_mutex_unlock(self.mutex);
        }
    }

    /// Waits until all that was delivered is acknowledged.
    ///
    /// # Safety
    /// The guard is initialised and guards `counter`.
    pub unsafe fn wait(self, counter: *const u32, delivered: &Delivered) {
        // SAFETY: as promised to us.
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
    fn waiting_ends_with_the_last_acknowledgement() {
        struct Shared(Guard, *mut u32);
        // SAFETY: the counter is guarded by the guard.
        unsafe impl Sync for Shared {}

        let (mut mutex, mut condition, mut counter) =
            (pthread_mutex_t::default(), pthread_cond_t::default(), 0u32);
        let shared = Shared(Guard::of(&mut mutex, &mut condition), &mut counter);
        let delivered = Delivered::default();
        delivered.count();
        delivered.count();
        delivered.count();
        // SAFETY: all of them live to the end of the scope.
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

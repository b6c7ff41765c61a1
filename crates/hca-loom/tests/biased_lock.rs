//! The biased lock of `biased_lock.rs`. The home thread takes it without a fence, and still
//! excludes all others.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use verbena_hca_loom::biased_lock::BiasedLock;
use verbena_hca_loom::sync::{Ordering, model_barrier, pass_all_barriers};

const HOME: u32 = 1;
const GUEST: u32 = 2;
/// Number of preemptions tried: one more takes ten times as long.
const BOUND: usize = 5;

struct Counter {
    biased_lock: BiasedLock,
    value: UnsafeCell<u32>,
}

impl Counter {
    /// Returns a lock that makes a thread its home at the second acquisition.
    fn new() -> Counter {
        Counter {
            biased_lock: BiasedLock::new(2),
            value: UnsafeCell::new(0),
        }
    }

    /// The critical section; a barrier may fall before, between and behind its accesses.
    fn add(&self) {
        model_barrier();
        let value = self.value();
        model_barrier();
        // SAFETY: the lock is held; loom checks that no other thread holds it.
        self.value.with_mut(|place| unsafe { *place = value + 1 });
        model_barrier();
    }

    fn take(&self, thread: u32) {
        let word = self.biased_lock.take(thread);
        self.add();
        word.store(false, Ordering::Release);
    }

    fn try_take(&self, thread: u32) -> bool {
        let Some(word) = self.biased_lock.try_take(thread) else {
            return false;
        };
        self.add();
        word.store(false, Ordering::Release);
        true
    }

    fn value(&self) -> u32 {
        // SAFETY: the lock is held, or all other threads have ended; loom checks that.
        self.value.with(|value| unsafe { *value })
    }
}

fn check(
    home: impl Fn(&Counter) -> u32 + Send + Sync + Copy + 'static,
    guest: impl Fn(&Counter) -> u32 + Send + Sync + Copy + 'static,
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(BOUND);
    model.check(move || {
        let counter = Arc::new(Counter::new());
        // Makes HOME the home.
        counter.take(HOME);
        counter.take(HOME);
        let other = thread::spawn({
            let counter = counter.clone();
            move || guest(&counter)
        });
        let first = thread::spawn({
            let counter = counter.clone();
            move || {
                let taken = home(&counter);
                pass_all_barriers();
                taken
            }
        });
        let taken = 2 + first.join().unwrap() + other.join().unwrap();
        assert_eq!(counter.value(), taken);
    });
}

/// Would find: both in at once, because the home's word or the revocation is seen too late.
#[test]
fn home_thread_and_other_thread_exclude_each_other() {
    check(
        |counter| {
            counter.take(HOME);
            counter.take(HOME);
            2
        },
        |counter| {
            counter.take(GUEST);
            1
        },
    );
}

/// Would find: a guest that only tries and leaves the lock open to two when it gives up.
#[test]
fn try_lock_beside_the_home_thread_is_exclusive_or_fails() {
    check(
        |counter| {
            counter.take(HOME);
            1 + u32::from(counter.try_take(HOME))
        },
        |counter| u32::from(counter.try_take(GUEST)),
    );
}

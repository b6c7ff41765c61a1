//! Deadlines of queue pairs and moderated completion queues.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Numbers and the times that they wait for (nanoseconds of [`verbena_hca_os::clock`]).
pub struct Timers {
    next: AtomicU64,
    waiting: Mutex<BTreeSet<(u64, u32)>>,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            next: AtomicU64::new(u64::MAX),
            waiting: Mutex::default(),
        }
    }
}

impl Timers {
    /// Returns the earliest deadline, u64::MAX for none.
    #[inline]
    pub fn next(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    /// Sets a deadline at which `number` is woken. Returns whether it is now the earliest.
    pub fn set(&self, deadline: u64, number: u32) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(|e| e.into_inner());
        waiting.insert((deadline, number));
        let first = waiting.first().map_or(u64::MAX, |(first, _)| *first);
        self.next.store(first, Ordering::SeqCst);
        first == deadline
    }

    /// Takes the numbers whose deadline has passed.
    pub fn take_due(&self, now: u64) -> Vec<u32> {
        let mut waiting = self.waiting.lock().unwrap_or_else(|e| e.into_inner());
        let later = waiting.split_off(&(now + 1, 0));
        let due = std::mem::replace(&mut *waiting, later);
        let first = waiting.first().map_or(u64::MAX, |(first, _)| *first);
        self.next.store(first, Ordering::SeqCst);
        due.into_iter().map(|(_, number)| number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_timers_fire_once_in_order() {
        let timers = Timers::default();
        assert_eq!(timers.next(), u64::MAX);
        assert!(timers.set(50, 1));
        assert!(timers.set(20, 2));
        assert!(!timers.set(30, 3));
        assert_eq!(timers.next(), 20);
        assert_eq!(timers.take_due(30), [2, 3]);
        assert_eq!(timers.next(), 50);
        assert_eq!(timers.take_due(49), []);
        assert_eq!(timers.take_due(50), [1]);
        assert_eq!(timers.next(), u64::MAX);
    }
}

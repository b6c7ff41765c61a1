//! Deadlines of queue pairs and moderated completion queues. Quiet ones are those of emulated
//! requests: polls look at them, and the progress thread does not wake up for them.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

/// Numbers and the times that they wait for (nanoseconds of [`verbena_hca_os::clock`]).
pub struct Timers {
    /// The earliest of both.
    next: AtomicU64,
    next_loud: AtomicU64,
    next_quiet: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    loud: BTreeSet<(u64, u32)>,
    quiet: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Default for Timers {
    fn default() -> Timers {
        Timers {
            next: AtomicU64::new(u64::MAX),
            next_loud: AtomicU64::new(u64::MAX),
            next_quiet: AtomicU64::new(u64::MAX),
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

    /// Returns the earliest deadline that is not quiet, u64::MAX for none.
    pub fn next_loud(&self) -> u64 {
        self.next_loud.load(Ordering::SeqCst)
    }

    /// Returns the earliest quiet deadline, u64::MAX for none.
    pub fn next_quiet(&self) -> u64 {
        self.next_quiet.load(Ordering::SeqCst)
    }

    /// Sets a deadline at which `number` is woken. Returns whether it is now the earliest.
    pub fn set(&self, deadline: u64, number: u32) -> bool {
        let mut waiting = self.lock();
        waiting.loud.insert((deadline, number));
        self.publish(&waiting);
        first(&waiting.loud) == deadline
    }

    /// Sets a quiet deadline.
    pub fn set_quiet(&self, deadline: u64, number: u32) {
        let mut waiting = self.lock();
        waiting.quiet.push(Reverse((deadline, number)));
        self.publish(&waiting);
    }

    /// Takes the numbers whose deadline has passed, quiet ones apart.
    pub fn take_due(&self, now: u64) -> Vec<u32> {
        let mut waiting = self.lock();
        let mut due = Vec::new();
        while let Some((deadline, number)) = waiting.loud.first().copied()
            && deadline <= now
        {
            waiting.loud.pop_first();
            due.push(number);
        }
        self.publish(&waiting);
        due
    }

    /// Takes a number whose quiet deadline has passed, if there is one, with all its deadlines that
    /// have passed before those of others.
    pub fn take_quiet(&self, now: u64) -> Option<u32> {
        if self.next_quiet() > now {
            return None;
        }
        let mut waiting = self.lock();
        let first = waiting.quiet.peek().filter(|one| one.0.0 <= now)?;
        let number = first.0.1;
        let is_its = |one: &&Reverse<(u64, u32)>| one.0.0 <= now && one.0.1 == number;
        while waiting.quiet.peek().filter(is_its).is_some() {
            waiting.quiet.pop();
        }
        self.publish(&waiting);
        Some(number)
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn publish(&self, waiting: &Waiting) {
        let quiet = waiting.quiet.peek().map_or(u64::MAX, |one| one.0.0);
        let loud = first(&waiting.loud);
        self.next_quiet.store(quiet, Ordering::SeqCst);
        self.next_loud.store(loud, Ordering::SeqCst);
        self.next.store(quiet.min(loud), Ordering::SeqCst);
    }
}

fn first(all: &BTreeSet<(u64, u32)>) -> u64 {
    all.first().map_or(u64::MAX, |(first, _)| *first)
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

    #[test]
    fn quiet_timers_are_due_like_others_and_wake_no_thread() {
        let timers = Timers::default();
        timers.set_quiet(10, 1);
        assert!(timers.set(20, 2));
        assert_eq!(
            [timers.next(), timers.next_quiet(), timers.next_loud()],
            [10, 10, 20]
        );
        assert_eq!(timers.take_quiet(9), None);
        assert_eq!(
            (timers.take_quiet(10), timers.take_quiet(10)),
            (Some(1), None)
        );
        assert_eq!(timers.take_due(10), []);
        assert_eq!([timers.next(), timers.next_quiet()], [20, u64::MAX]);
    }
}

//! Completion queues that moderate their events.

use crate::process::Cq;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use verbena_hca_memory::tables::WeakTable;

/// Moderated completion queues, by their number in the timers: above all queue pair numbers.
#[derive(Default)]
pub struct ModeratedQueues {
    queues: WeakTable<Cq>,
    next: AtomicU32,
}

impl ModeratedQueues {
    const FIRST: u32 = 1 << 24;

    /// Assigns a queue a number that no other gets while the process lives (2^32 - 2^24 queues).
    pub fn add(&self, queue: &Arc<Cq>) -> u32 {
        let number = Self::FIRST + self.next.fetch_add(1, Ordering::Relaxed);
        self.queues.insert(number, queue);
        number
    }

    /// Removes a number.
    pub fn remove(&self, number: u32) {
        self.queues.remove(number);
    }

    /// Calls `action` for all queues.
    pub fn for_each(&self, action: impl Fn(&Cq)) {
        self.queues.for_each(action);
    }

    /// Returns the queue with a number.
    pub fn find(&self, number: u32) -> Option<Arc<Cq>> {
        self.queues.find(number)
    }

    /// Returns whether a timer's number belongs to a queue and not to a queue pair.
    pub fn is_queue(number: u32) -> bool {
        number >= Self::FIRST
    }
}

//! Completion queues that moderate their events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use verbena_hca_memory::tables::WeakTable;

/// Moderated completion queues, by their number in the timers: above all queue pair numbers.
pub struct ModeratedQueues<Q> {
    queues: WeakTable<Q>,
    next: AtomicU32,
}

const FIRST: u32 = 1 << 24;

/// Returns whether a timer's number belongs to a queue and not to a queue pair.
pub fn is_queue(number: u32) -> bool {
    number >= FIRST
}

impl<Q> Default for ModeratedQueues<Q> {
    fn default() -> ModeratedQueues<Q> {
        ModeratedQueues {
            queues: WeakTable::default(),
            next: AtomicU32::new(0),
        }
    }
}

impl<Q> ModeratedQueues<Q> {
    /// Assigns a queue a number that no other gets while the process lives (2^32 - 2^24 queues).
    pub fn add(&self, queue: &Arc<Q>) -> u32 {
        let number = FIRST + self.next.fetch_add(1, Ordering::Relaxed);
        self.queues.insert(number, queue);
        number
    }

    /// Removes a number.
    pub fn remove(&self, number: u32) {
        self.queues.remove(number);
    }

    /// Calls `action` for all queues.
    pub fn for_each(&self, action: impl Fn(&Q)) {
        self.queues.for_each(action);
    }

    /// Returns the queue with a number.
    pub fn find(&self, number: u32) -> Option<Arc<Q>> {
        self.queues.find(number)
    }
}

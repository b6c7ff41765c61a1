//! Queue pairs that complete in a completion queue.

use super::Retired;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Queue pairs and shared receive queues that complete in one queue.
#[derive(Default)]
pub(super) struct Members {
    /// Queue pairs, each as often as it was added, and shared receive queues.
    count: AtomicUsize,
    queue_pairs: Mutex<HashMap<u32, Attached>>,
}

/// A queue pair that completes in a queue.
pub trait Member: Send + Sync {
    /// Enters the error state, because the queue has overrun.
    fn fail(&self);
}

struct Attached {
    /// How often the queue pair was added.
    times: u32,
    queue_pair: Weak<dyn Member>,
    /// Kept alive for the entries that point to it.
    _retired: Arc<Retired>,
}

impl Members {
    /// Counts one member.
    pub fn retain(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Undoes one [`Members::retain`].
    pub fn release(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a queue pair; one that sends and receives through this queue is added twice.
    pub fn attach(&self, number: u32, queue_pair: Weak<dyn Member>, retired: &Arc<Retired>) {
        self.retain();
        let mut queue_pairs = self.lock();
        let member = queue_pairs.entry(number).or_insert_with(|| Attached {
            times: 0,
            queue_pair,
            _retired: retired.clone(),
        });
        member.times += 1;
    }

    /// Undoes one [`Members::attach`] of a queue pair.
    pub fn detach(&self, number: u32) {
        let mut queue_pairs = self.lock();
        let Some(member) = queue_pairs.get_mut(&number) else {
            return;
        };
        member.times -= 1;
        if member.times == 0 {
            queue_pairs.remove(&number);
        }
        self.release();
    }

    /// Returns the queue pairs that are alive.
    pub fn queue_pairs(&self) -> Vec<Arc<dyn Member>> {
        let alive = |one: &Attached| one.queue_pair.upgrade();
        self.lock().values().filter_map(alive).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Attached>> {
        self.queue_pairs.lock().unwrap_or_else(|e| e.into_inner())
    }
}

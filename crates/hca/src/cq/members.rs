//! The queue pairs that complete in a queue: what the queue keeps of them, and what becomes of them when it overruns.

use super::Retired;
use crate::qp::Qp;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

/// Those that complete in one queue.
#[derive(Default)]
pub(super) struct Members {
    /// Of all kinds; shared receive queues are only counted.
    count: AtomicUsize,
    queue_pairs: Mutex<HashMap<u32, Member>>,
}

struct Member {
    /// How often it was added.
    times: u32,
    queue_pair: Weak<Qp>,
    /// Kept for the entries that point to it.
    _retired: Arc<Retired>,
}

impl Members {
    /// Counts one.
    pub fn retain(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes one of these back.
    pub fn release(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Adds a queue pair; one that sends and receives here is added twice.
    pub fn attach(&self, queue_pair: &Arc<Qp>, retired: &Arc<Retired>) {
        self.retain();
        let mut queue_pairs = self.lock();
        let member = queue_pairs
            .entry(queue_pair.number())
            .or_insert_with(|| Member {
                times: 0,
                queue_pair: Arc::downgrade(queue_pair),
                _retired: retired.clone(),
            });
        member.times += 1;
    }

    /// Takes a queue pair away that was added once.
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

    /// Those that are alive.
    pub fn queue_pairs(&self) -> Vec<Arc<Qp>> {
        let alive = |one: &Member| one.queue_pair.upgrade();
        self.lock().values().filter_map(alive).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Member>> {
        self.queue_pairs.lock().unwrap_or_else(|e| e.into_inner())
    }
}

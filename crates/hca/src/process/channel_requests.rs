//! Table of the channels that are requested, with the queue pairs that wait for each. The progress
//! thread makes the channels (`outgoing_handshake`); no call blocks for one.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_hca_os::clock;
use verbena_hca_shm::registry::Identity;

/// Nanoseconds after which waiting queue pairs learn that the peer does not answer; it may be
/// stopped. The attempt goes on, so it costs the peer one place in its accept queue, no matter how
/// often it is requested.
pub(crate) const TIMEOUT: u64 = 2_000_000_000;

/// Queue pairs that wait for one process.
struct WaitingQueuePairs<Q> {
    queue_pairs: Vec<Arc<Q>>,
    notify_at: u64,
}

/// Result of a connection attempt.
pub(super) enum ConnectOutcome<'a, C> {
    /// There is a channel.
    Made(&'a Arc<C>),
    /// There is no such process, or the last request was withdrawn.
    Gone,
    /// The process has not answered yet.
    NoAnswer,
}

/// Result of a request for a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectStatus {
    /// The channel is being made; the waiting queue pair will be notified.
    UnderWay,
    /// The channel is being made, but the process has not answered for `TIMEOUT`, so no
    /// notification follows. The channel is found once it exists.
    Silent,
    /// There is no such process; nothing was done.
    NoProcess,
}

struct PendingConnects<Q> {
    waiting: HashMap<Identity, WaitingQueuePairs<Q>>,
    /// Processes that have not answered in time and may yet, and since when.
    silent: HashMap<Identity, u64>,
    /// Processes that a message was sent to, and their process ids in the PID namespace of this
    /// one.
    asked: HashMap<Identity, u32>,
}

/// Processes to which channels are requested, and the queue pairs that wait for them.
pub struct ConnectRequests<Q> {
    pending: Mutex<PendingConnects<Q>>,
    /// Set when a process was added since the progress thread last looked.
    is_new: AtomicBool,
}

impl<Q> Default for ConnectRequests<Q> {
    fn default() -> ConnectRequests<Q> {
        let pending = PendingConnects {
            waiting: HashMap::new(),
            silent: HashMap::new(),
            asked: HashMap::new(),
        };
        ConnectRequests {
            pending: Mutex::new(pending),
            is_new: AtomicBool::new(false),
        }
    }
}

impl<Q> ConnectRequests<Q> {
    fn lock(&self) -> MutexGuard<'_, PendingConnects<Q>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns its result, and whether it is the first for that process.
    pub(super) fn add(&self, identity: Identity, waiter: Option<Arc<Q>>) -> (ConnectStatus, bool) {
        let mut pending = self.lock();
        if pending.silent.contains_key(&identity) {
            return (ConnectStatus::Silent, false);
        }
        let mut is_new = false;
        let entry = pending.waiting.entry(identity).or_insert_with(|| {
            is_new = true;
            WaitingQueuePairs {
                queue_pairs: Vec::new(),
                notify_at: clock::now() + TIMEOUT,
            }
        });
        entry.queue_pairs.extend(waiter);
        if is_new {
            self.is_new.store(true, Ordering::Release);
        }
        (ConnectStatus::UnderWay, is_new)
    }

    /// Notes the process that a message was sent to; none if there is none any more.
    pub(super) fn note_asked(&self, identity: Identity, pid: Option<u32>) {
        let asked = &mut self.lock().asked;
        match pid {
            Some(pid) => asked.insert(identity, pid),
            None => asked.remove(&identity),
        };
    }

    /// Returns a process that was asked and has not answered in time: since when, and its process
    /// id.
    pub(super) fn silent(&self, identity: Identity) -> Option<(u64, u32)> {
        let pending = self.lock();
        let since = pending.silent.get(&identity)?;
        Some((*since, *pending.asked.get(&identity)?))
    }

    /// Returns all requested processes, or nothing if none was added since the last call.
    pub(super) fn take_new(&self) -> Vec<Identity> {
        if !self.is_new.load(Ordering::Acquire) {
            return Vec::new();
        }
        let pending = self.lock();
        self.is_new.store(false, Ordering::Release);
        pending.waiting.keys().copied().collect()
    }

    /// Returns whether a queue pair waits for a process.
    pub(super) fn is_requested(&self, identity: Identity) -> bool {
        self.lock().waiting.contains_key(&identity)
    }

    /// Returns the processes whose waiting queue pairs have reached their deadline.
    pub(super) fn overdue(&self, now: u64) -> Vec<Identity> {
        self.lock()
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.notify_at <= now)
            .map(|(identity, _)| *identity)
            .collect()
    }

    /// Returns the first of these deadlines, u64::MAX for none.
    pub(super) fn deadline(&self) -> u64 {
        self.lock()
            .waiting
            .values()
            .map(|waiting| waiting.notify_at)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Ends the requests for a process. Returns the queue pairs that waited.
    pub(super) fn end<C>(&self, identity: Identity, outcome: ConnectOutcome<'_, C>) -> Vec<Arc<Q>> {
        let mut pending = self.lock();
        match outcome {
            ConnectOutcome::NoAnswer => {
                pending.silent.entry(identity).or_insert_with(clock::now);
            }
            ConnectOutcome::Made(_) | ConnectOutcome::Gone => {
                pending.silent.remove(&identity);
                pending.asked.remove(&identity);
            }
        }
        let waiting = pending.waiting.remove(&identity);
        waiting.map_or_else(Vec::new, |waiting| waiting.queue_pairs)
    }
}

//! Channel requests: queue pairs that wait for a channel to a process. The progress thread makes
//! the channels (`attempt`); no call blocks for one.

use crate::process::Process;
use crate::process::link::Outbound;
use crate::qp::Qp;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_hca_os::clock;
use verbena_hca_shm::registry::Identity;

/// Nanoseconds after which waiting queue pairs learn that the peer does not answer; it may be
/// stopped. The attempt goes on, so it costs the peer one place in its accept queue, no matter how
/// often it is requested.
pub(crate) const TIMEOUT: u64 = 2_000_000_000;

/// Queue pairs that wait for one process.
struct WaitingQueuePairs {
    queue_pairs: Vec<Arc<Qp>>,
    notify_at: u64,
}

/// Result of a connection attempt.
#[derive(Clone, Copy)]
pub(super) enum ConnectOutcome<'a> {
    /// There is a channel.
    Made(&'a Arc<Outbound>),
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

#[derive(Default)]
struct PendingConnects {
    waiting: HashMap<Identity, WaitingQueuePairs>,
    /// Processes that have not answered in time and may yet.
    silent: HashSet<Identity>,
}

/// Processes to which channels are requested, and the queue pairs that wait for them.
#[derive(Default)]
pub struct ConnectRequests {
    pending: Mutex<PendingConnects>,
    /// Set when a process was added since the progress thread last looked.
    is_new: AtomicBool,
}

impl ConnectRequests {
    fn lock(&self) -> MutexGuard<'_, PendingConnects> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a request. Returns its result, and whether it is the first for that process.
    fn add(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> (ConnectStatus, bool) {
        let mut pending = self.lock();
        if pending.silent.contains(&identity) {
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
}

impl Process {
    /// Requests the channel to a process, unless it exists or is being made, and returns at once.
    /// `waiter` is notified (`connection_attempt_ended`) when there is a channel, when there
    /// is none after `TIMEOUT`, or when there will be none, unless the return value says
    /// otherwise. May be called with any lock held.
    pub fn connect(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> ConnectStatus {
        let (status, is_new) = self.connect_requests.add(identity, waiter);
        if is_new {
            self.doorbell.ring();
        }
        status
    }

    /// As [`Process::connect`], for the owner of a queue pair number. Finds by memory reads alone
    /// that there is no owner.
    pub fn connect_to_owner(&self, number: u32, waiter: Option<Arc<Qp>>) -> ConnectStatus {
        let member = self.member.get();
        match member.and_then(|member| member.registry.owner(number)) {
            Some(owner) => self.connect(owner, waiter),
            None => ConnectStatus::NoProcess,
        }
    }

    /// Notifies all queue pairs that wait for a process of the result.
    pub(super) fn end_connection_attempt(&self, identity: Identity, outcome: ConnectOutcome<'_>) {
        let waiting = {
            let mut pending = self.connect_requests.lock();
            match outcome {
                ConnectOutcome::NoAnswer => pending.silent.insert(identity),
                ConnectOutcome::Made(_) | ConnectOutcome::Gone => pending.silent.remove(&identity),
            };
            pending.waiting.remove(&identity)
        };
        let channel = match outcome {
            ConnectOutcome::Made(channel) => Some(channel),
            ConnectOutcome::Gone | ConnectOutcome::NoAnswer => None,
        };
        self.backlog.end_wait(identity, channel);
        for queue_pair in waiting.into_iter().flat_map(|waiting| waiting.queue_pairs) {
            queue_pair.connection_attempt_ended();
        }
    }
}

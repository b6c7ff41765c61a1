//! Who waits for a channel to whom. The progress thread makes the channels ([`super::attempt`]); nobody waits in a call.

use crate::process::Process;
use crate::process::link::Outbound;
use crate::qp::Qp;
use crate::shm::registry::Identity;
use crate::sys::clock;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Nanoseconds after which those who wait are told that the peer does not answer; it may be stopped. The attempt goes
/// on, so that it costs the peer one place in its queue, however often and by however many it is sought.
pub(crate) const PATIENCE: u64 = 2_000_000_000;

/// Those who wait for one process.
struct Waiting {
    queue_pairs: Vec<Arc<Qp>>,
    tell_at: u64,
}

/// How a search ends.
#[derive(Clone, Copy)]
pub(super) enum Outcome<'a> {
    /// There is a channel.
    Made(&'a Arc<Outbound>),
    /// There is no such process, or nobody seeks it any more.
    Gone,
    /// Not yet: the process does not answer.
    NoAnswer,
}

/// What seeking a process promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// The channel is being made; who waits will be told.
    UnderWay,
    /// It is being made, but the process has not answered for so long that nobody is told any more. The channel is there
    /// when it is found.
    Silent,
    /// There is no such process; nothing was done.
    Nobody,
}

#[derive(Default)]
struct Sought {
    waiting: HashMap<Identity, Waiting>,
    /// Those who have not answered in time and may yet.
    silent: HashSet<Identity>,
}

/// Processes that are sought, and by whom.
#[derive(Default)]
pub struct Seekers {
    sought: Mutex<Sought>,
    /// Somebody is sought who was not when the progress thread last looked.
    is_new: AtomicBool,
}

impl Seekers {
    fn lock(&self) -> MutexGuard<'_, Sought> {
        self.sought.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one who waits. Returns what that promises, and whether the process was not sought before.
    fn add(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> (Search, bool) {
        let mut sought = self.lock();
        if sought.silent.contains(&identity) {
            return (Search::Silent, false);
        }
        let mut is_new = false;
        let entry = sought.waiting.entry(identity).or_insert_with(|| {
            is_new = true;
            Waiting {
                queue_pairs: Vec::new(),
                tell_at: clock::now() + PATIENCE,
            }
        });
        entry.queue_pairs.extend(waiter);
        if is_new {
            self.is_new.store(true, Ordering::Release);
        }
        (Search::UnderWay, is_new)
    }

    /// Who is sought, if that has changed since the last call.
    pub(super) fn take_new(&self) -> Vec<Identity> {
        if !self.is_new.load(Ordering::Acquire) {
            return Vec::new();
        }
        let sought = self.lock();
        self.is_new.store(false, Ordering::Release);
        sought.waiting.keys().copied().collect()
    }

    /// Whether anybody waits for a process.
    pub(super) fn is_sought(&self, identity: Identity) -> bool {
        self.lock().waiting.contains_key(&identity)
    }

    /// Whose seekers have waited long enough.
    pub(super) fn impatient(&self, now: u64) -> Vec<Identity> {
        self.lock()
            .waiting
            .iter()
            .filter(|(_, waiting)| waiting.tell_at <= now)
            .map(|(identity, _)| *identity)
            .collect()
    }

    /// When the first of those who wait must be told, u64::MAX for never.
    pub(super) fn deadline(&self) -> u64 {
        self.lock()
            .waiting
            .values()
            .map(|waiting| waiting.tell_at)
            .min()
            .unwrap_or(u64::MAX)
    }
}

impl Process {
    /// Has the channel to a process made, if it is not there or on the way, and returns at once. `waiter` is told when
    /// there is one, or when there is none after [`PATIENCE`] or for good ([`Qp::sought`]), unless the answer says
    /// otherwise. May be called with any lock held.
    pub fn seek(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> Search {
        let (search, is_new) = self.seekers.add(identity, waiter);
        if is_new {
            self.doorbell.ring();
        }
        search
    }

    /// As [`Process::seek`], for the owner of a queue pair number. That there is none is seen in memory alone.
    pub fn seek_number(&self, number: u32, waiter: Option<Arc<Qp>>) -> Search {
        let member = self.member.get();
        match member.and_then(|member| member.registry.owner(number)) {
            Some(owner) => self.seek(owner, waiter),
            None => Search::Nobody,
        }
    }

    /// Tells all who wait for a process how the search has ended, or that it has not.
    pub(super) fn end_search(&self, identity: Identity, outcome: Outcome<'_>) {
        let waiting = {
            let mut sought = self.seekers.lock();
            match outcome {
                Outcome::NoAnswer => sought.silent.insert(identity),
                Outcome::Made(_) | Outcome::Gone => sought.silent.remove(&identity),
            };
            sought.waiting.remove(&identity)
        };
        let channel = match outcome {
            Outcome::Made(channel) => Some(channel),
            Outcome::Gone | Outcome::NoAnswer => None,
        };
        self.backlog.end_wait(identity, channel);
        for queue_pair in waiting.into_iter().flat_map(|waiting| waiting.queue_pairs) {
            queue_pair.sought();
        }
    }
}

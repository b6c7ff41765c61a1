//! Who waits for a channel to whom. The progress thread makes the channels ([`super::attempt`]); nobody waits in a call.

use crate::process::Process;
use crate::process::link::Outbound;
use crate::qp::Qp;
use crate::shm::registry::Identity;
use crate::sys::clock;
use std::collections::HashMap;
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

/// Processes that are sought, and by whom.
#[derive(Default)]
pub struct Seekers {
    waiting: Mutex<HashMap<Identity, Waiting>>,
    /// Somebody is sought who was not when the progress thread last looked.
    is_new: AtomicBool,
}

impl Seekers {
    fn lock(&self) -> MutexGuard<'_, HashMap<Identity, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one who waits. Returns whether the process was not sought before.
    fn add(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> bool {
        let mut waiting = self.lock();
        let mut is_new = false;
        let entry = waiting.entry(identity).or_insert_with(|| {
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
        is_new
    }

    /// Who is sought, if that has changed since the last call.
    pub(super) fn take_new(&self) -> Vec<Identity> {
        if !self.is_new.load(Ordering::Acquire) {
            return Vec::new();
        }
        let waiting = self.lock();
        self.is_new.store(false, Ordering::Release);
        waiting.keys().copied().collect()
    }

    /// Whether anybody waits for a process.
    pub(super) fn is_sought(&self, identity: Identity) -> bool {
        self.lock().contains_key(&identity)
    }

    /// Whose seekers have waited long enough.
    pub(super) fn impatient(&self, now: u64) -> Vec<Identity> {
        self.lock()
            .iter()
            .filter(|(_, waiting)| waiting.tell_at <= now)
            .map(|(identity, _)| *identity)
            .collect()
    }

    /// When the first of those who wait must be told, u64::MAX for never.
    pub(super) fn deadline(&self) -> u64 {
        self.lock()
            .values()
            .map(|waiting| waiting.tell_at)
            .min()
            .unwrap_or(u64::MAX)
    }
}

impl Process {
    /// Has the channel to a process made, if it is not there or on the way, and returns at once. `waiter` is told when
    /// there is one, or when there is none after [`PATIENCE`] or for good ([`Qp::sought`]). May be called with any lock
    /// held.
    pub fn seek(&self, identity: Identity, waiter: Option<Arc<Qp>>) {
        if self.seekers.add(identity, waiter) {
            self.doorbell.ring();
        }
    }

    /// As [`Process::seek`], for the owner of a queue pair number. Returns false, with nothing done, when nobody owns it:
    /// that is seen in memory alone.
    pub fn seek_number(&self, number: u32, waiter: Option<Arc<Qp>>) -> bool {
        let Some(member) = self.member.get() else {
            return false;
        };
        let Some(owner) = member.registry.owner(number) else {
            return false;
        };
        self.seek(owner, waiter);
        true
    }

    /// Tells all who wait for a process that there is a channel, or that there is none yet.
    pub(super) fn settle_seekers(
        self: &Arc<Process>,
        identity: Identity,
        channel: Option<&Arc<Outbound>>,
    ) {
        let waiting = self.seekers.lock().remove(&identity);
        self.greetings.settle(identity, channel);
        for queue_pair in waiting.into_iter().flat_map(|waiting| waiting.queue_pairs) {
            queue_pair.sought();
        }
    }
}

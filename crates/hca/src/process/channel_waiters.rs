//! Requests a channel for a queue pair, and notifies the queue pairs that waited for one.

use crate::process::channel_requests::{ConnectOutcome, ConnectStatus};
use crate::process::{Outbound, Process};
use crate::qp::Qp;
use std::sync::Arc;
use verbena_hca_os::clock;
use verbena_hca_os::process_state::is_running;
use verbena_hca_shm::registry::Identity;

/// Nanoseconds for which a process may be too busy to make a channel.
const LONGEST_BUSY: u64 = 60_000_000_000;

impl Process {
    /// Requests the channel to a process, unless it exists or is being made, and returns at once.
    /// `waiter` is notified (`connection_attempt_ended`) when there is a channel, when there
    /// is none after `TIMEOUT`, or when there will be none, unless the return value says
    /// otherwise. May be called with any lock held.
    pub fn connect(&self, identity: Identity, waiter: Option<Arc<Qp>>) -> ConnectStatus {
        let (status, is_new) = self.channels.requests().add(identity, waiter);
        if is_new {
            self.activity.ring();
        }
        status
    }

    /// As [`Process::connect`], for the owner of a queue pair number. Finds by memory reads alone
    /// that there is no owner.
    pub fn connect_to_owner(&self, number: u32, waiter: Option<Arc<Qp>>) -> ConnectStatus {
        match self.membership.owner(number) {
            Some(owner) => self.connect(owner, waiter),
            None => ConnectStatus::NoProcess,
        }
    }

    /// Returns whether the owner of a queue pair number runs, but is too busy to make the channel:
    /// on an adapter it would answer. It must have a message of this process, and takes no longer
    /// than a minute.
    pub fn is_owner_busy(&self, number: u32) -> bool {
        let owner = self.membership.owner(number);
        let silent = owner.and_then(|owner| self.channels.requests().silent(owner));
        silent.is_some_and(|(since, pid)| {
            clock::now().saturating_sub(since) < LONGEST_BUSY && is_running(pid)
        })
    }

    /// Notifies all queue pairs that wait for a process of the result.
    pub(super) fn end_connection_attempt(
        &self,
        identity: Identity,
        outcome: ConnectOutcome<'_, Outbound>,
    ) {
        let channel = match outcome {
            ConnectOutcome::Made(channel) => Some(channel),
            ConnectOutcome::Gone | ConnectOutcome::NoAnswer => None,
        };
        let waiting = self.channels.requests().end(identity, outcome);
        self.backlog.end_wait(identity, |waiting| {
            if let Some(channel) = channel {
                waiting.queue_pair.send_waiting(channel, &waiting);
            }
        });
        for queue_pair in waiting {
            queue_pair.connection_attempt_ended();
        }
    }
}

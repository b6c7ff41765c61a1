//! Requests a channel for a queue pair, and notifies the queue pairs that waited for one.

use crate::process::channel_requests::{ConnectOutcome, ConnectStatus};
use crate::process::{Outbound, Process};
use crate::qp::Qp;
use std::sync::Arc;
use verbena_hca_shm::registry::Identity;

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

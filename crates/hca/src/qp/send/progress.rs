//! Sending pending requests in order, and waiting for the receiver, an answer or a channel.

use super::request::RequestStage;
use super::{Backoff, SendQueue};
use crate::process::channel_requests::ConnectStatus;
use crate::qp::Qp;
use crate::qp::requester::outcome::Outcome;
use crate::qp::terms::{state_of, status_code};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_os::clock;
use verbena_transport::completion::Status;
use verbena_transport::state::Sends;

/// Nanoseconds that a datagram waits for a channel to a process that does not answer.
const DATAGRAM_TIMEOUT: u64 = 2_000_000_000;

/// Longest time, in nanoseconds, between two attempts to send a request that is not answered.
const LONGEST_WAIT: u64 = 20_000_000;

impl Qp {
    /// Sends pending requests, as far as possible.
    pub(in crate::qp) fn transmit(self: &Arc<Qp>, send: &mut SendQueue) {
        while send.begun < send.pending.len() && send.backoff == Backoff::None {
            let position = send.begun;
            let is_started = send.pending.get(position).is_some_and(|one| one.is_started);
            // While the send queue drains, begun requests finish and no others begin.
            match state_of(self.state()).sends() {
                Sends::Start => (),
                Sends::Wait if is_started => (),
                _ => break,
            }
            // A failed request blocks all later ones, until it is completed below and flushes them.
            if send.has_failed() {
                break;
            }
            // Taken out temporarily, because executing needs the queue.
            let Some(one) = send.pending.get_mut(position).map(std::mem::take) else {
                break;
            };
            let mut progress = one.progress;
            let outcome = self.execute(send, &one.request(), one.index, one.psn, &mut progress);
            if let Some(slot) = send.pending.get_mut(position) {
                *slot = one;
                slot.progress = progress;
            }
            if !self.note(send, position, outcome) {
                break;
            }
        }
        self.finish(send);
    }

    /// Records the outcome of the request at `position`. Returns whether the next one may be sent.
    pub(super) fn note(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        position: usize,
        outcome: Outcome,
    ) -> bool {
        let epoch = send.epoch;
        if let Some(one) = send.pending.get_mut(position) {
            one.epoch = epoch;
            one.is_started |=
                outcome == Outcome::Sent || one.progress.bytes > 0 || one.progress.is_placed;
        }
        let stage = match outcome {
            Outcome::Done | Outcome::DoneLater => RequestStage::Finished(IBV_WC_SUCCESS),
            Outcome::Sent => RequestStage::Sent,
            Outcome::Failed(status) => RequestStage::Finished(status),
            Outcome::Order | Outcome::NoRoom => return false,
            Outcome::Wait(until) => {
                send.backoff = Backoff::Link(until);
                self.continue_at(send, until);
                return false;
            }
            Outcome::Connect(number) => match self.connect(send, number) {
                // A missing channel does not count as loss: packets would not need one.
                ConnectStatus::UnderWay => {
                    send.backoff = Backoff::Connecting;
                    return false;
                }
                _ if !self.is_reliable() => {
                    return self.give_up(send, position, IBV_WC_SUCCESS);
                }
                status => {
                    let silent = (status == ConnectStatus::Silent).then_some(number);
                    return self.wait_for_answer(send, position, silent);
                }
            },
            Outcome::NoAnswer => return self.wait_for_answer(send, position, None),
        };
        send.set_stage(position, stage);
        send.begun = send.begun.max(position + 1);
        send.unanswered_since = None;
        true
    }

    /// Schedules another attempt for a request that the peer does not answer, possibly ever, and
    /// gives up after the ACK timeout and all retries (architecture specification, 9.7.6.1.3).
    /// These begin again if the owner of `silent` is too busy to make the channel. Returns whether
    /// it gave up.
    pub(super) fn wait_for_answer(
        &self,
        send: &mut SendQueue,
        position: usize,
        silent: Option<u32>,
    ) -> bool {
        let now = clock::now();
        let since = *send.unanswered_since.get_or_insert(now);
        self.process.counters.shard().lost_retries.add(1);
        // The peer may be about to become ready: check soon, then less often.
        let mut wait = ((now - since) / 4).clamp(200_000, LONGEST_WAIT);
        if self.kind == IBV_QPT_UD && now - since > DATAGRAM_TIMEOUT {
            return self.give_up(send, position, IBV_WC_SUCCESS);
        }
        if let Some(patience) = send.retry_count.patience(send.timeout)
            && self.is_reliable()
            && now - since >= patience
        {
            if !silent.is_some_and(|number| self.process.is_owner_busy(number)) {
                return self.give_up(send, position, status_code(Status::RetryExceeded));
            }
            send.unanswered_since = Some(now);
            wait = LONGEST_WAIT;
        }
        send.backoff = Backoff::NoAnswer(now + wait);
        self.set_timer(now + wait);
        false
    }

    fn give_up(&self, send: &mut SendQueue, position: usize, status: ibv_wc_status) -> bool {
        send.set_stage(position, RequestStage::Finished(status));
        send.begun = send.begun.max(position + 1);
        send.unanswered_since = None;
        true
    }

    pub(super) fn set_timer(&self, deadline: u64) {
        if self.process.timers.set(deadline, self.number) {
            self.process.activity.ring();
        }
    }

    /// Continues after a deadline, or when there is space or a connection.
    pub(crate) fn wake(self: &Arc<Qp>) {
        let mut send = self.lock_send_unsettled();
        if !send.has_timed() {
            send.settle();
        }
        if send.is_off_path
            && let Some(passages) = send.passages()
        {
            passages.woken(clock::now());
        }
        if !send.pending.is_empty() || !send.has_timed() {
            self.wake_pending(&mut send);
        }
        self.continue_timed(&mut send);
    }

    fn wake_pending(self: &Arc<Qp>, send: &mut SendQueue) {
        match send.backoff {
            Backoff::NotReady(until) | Backoff::NoAnswer(until) | Backoff::Link(until)
                if clock::now() < until =>
            {
                // Acknowledgements may have arrived.
                if send.is_off_path {
                    self.finish(send);
                }
                // This may have been an earlier wake, instead of which none was set then.
                if let Backoff::Link(until) = send.backoff {
                    self.continue_at(send, until);
                }
                return;
            }
            _ => send.backoff = Backoff::None,
        }
        self.transmit(send);
    }

    /// Starts connecting to the peer, so that the channel exists when the first request is posted.
    /// Does not wait.
    pub(in crate::qp) fn connect_to_peer(self: &Arc<Qp>) {
        let destination = self.destination();
        if self.process.outbound_to_number(destination).is_none() {
            self.process.connect_to_owner(destination, None);
        }
    }

    /// Starts connecting to the owner of `number`; [`Qp::connection_attempt_ended`] is called at
    /// the end.
    fn connect(self: &Arc<Qp>, send: &mut SendQueue, number: u32) -> ConnectStatus {
        if send.connecting == Some(number) {
            return ConnectStatus::UnderWay;
        }
        let status = self.process.connect_to_owner(number, Some(self.clone()));
        send.connecting = (status == ConnectStatus::UnderWay).then_some(number);
        status
    }

    /// Continues after connecting has succeeded or failed.
    pub(crate) fn connection_attempt_ended(self: &Arc<Qp>) {
        let mut send = self.lock_send();
        send.connecting = None;
        if matches!(send.backoff, Backoff::Connecting | Backoff::NoAnswer(_)) {
            send.backoff = Backoff::None;
        }
        self.transmit(&mut send);
    }
}

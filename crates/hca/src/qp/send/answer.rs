//! Handling of answers: acknowledgement, RNR NAK, failure, or no answer.

use super::request::{PendingRequest, RequestStage};
use super::{Backoff, SendQueue};
use crate::capture;
use crate::qp::Qp;
use crate::qp::terms::{is_answered, status_code};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_os::clock;
use verbena_transport::fault::Answer;
use verbena_transport::retry::Reaction;
use verbena_wire::RnrTimer;

impl Qp {
    /// Handles the acknowledgement of a request.
    pub(crate) fn acknowledged(self: &Arc<Qp>, index: u64, epoch: u32) {
        let mut send = self.lock_send();
        if self.complete_oldest(&mut send, index, epoch) {
            return;
        }
        self.acknowledge(&mut send, index, epoch);
    }

    /// As [`Qp::acknowledged`], for any kind of request.
    pub(super) fn acknowledge(self: &Arc<Qp>, send: &mut SendQueue, index: u64, epoch: u32) {
        let Some(position) = send.find_sent(index, epoch) else {
            return;
        };
        send.rnr_retries.reload();
        if capture::is_on() {
            self.capture_acknowledged(send, position);
        }
        let Some(one) = send.pending.get_mut(position) else {
            return;
        };
        if is_answered(one.opcode) && one.opcode != IBV_WR_FLUSH {
            // The position passes such a request only after its answer. A responder that omits the
            // answer violates the protocol.
            self.fail(send, position, IBV_WC_REM_OP_ERR);
            return;
        }
        if self.kind == IBV_QPT_XRC_SEND
            && one.opcode == IBV_WR_RDMA_WRITE_WITH_IMM
            && !one.progress.is_placed
        {
            // The bytes are in place; now the owner of the receive is notified.
            one.progress.is_placed = true;
            send.set_stage(position, RequestStage::Waiting);
            send.begun = send.begun.min(position);
            self.transmit(send);
            return;
        }
        send.set_stage(position, RequestStage::Finished(IBV_WC_SUCCESS));
        self.finish(send);
        if send.begun < send.pending.len() {
            self.transmit(send);
        }
    }

    /// Handles the peer's death with a request in flight: the request times out like any other
    /// without an answer.
    pub(crate) fn peer_died(self: &Arc<Qp>, index: u64, epoch: u32) {
        let mut send = self.lock_send();
        let Some(position) = send.find_sent(index, epoch) else {
            return;
        };
        if !self.is_reliable() {
            // Unreliable: the requester is not informed.
            send.set_stage(position, RequestStage::Finished(IBV_WC_SUCCESS));
        } else {
            send.go_back(position);
            self.wait_for_answer(&mut send, position, None);
        }
        self.finish(&mut send);
    }

    /// Fails a request that was sent.
    pub(in crate::qp) fn fail(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        position: usize,
        status: ibv_wc_status,
    ) {
        if !self.is_reliable() {
            // Unreliable: the requester is not informed.
            send.set_stage(position, RequestStage::Finished(IBV_WC_SUCCESS));
            self.finish(send);
            return;
        }
        send.go_back(position + 1);
        send.set_stage(position, RequestStage::Finished(status));
        send.begun = send.begun.max(position + 1);
        self.finish(send);
    }

    /// Handles the answer that the request with this PSN was not executed. `timer` is that of an
    /// RNR NAK.
    pub(in crate::qp) fn not_executed(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        psn: u32,
        answer: Answer,
        timer: RnrTimer,
    ) {
        let Some(position) = send.find_by_psn(psn) else {
            return;
        };
        if answer == Answer::RnrNak {
            self.process.counters.shard().rnr_retries.add(1);
        }
        let reaction = match (answer, planted::is(Bug::RnrCount)) {
            (Answer::RnrNak, true) => Reaction::Wait,
            _ => send.rnr_retries.react(answer),
        };
        match reaction {
            Reaction::Fail(status) => self.fail(send, position, status_code(status)),
            Reaction::Wait => {
                send.go_back(position);
                let until = clock::now() + timer.nanoseconds();
                send.backoff = Backoff::NotReady(until);
                self.set_timer(until);
            }
            Reaction::Repeat => {
                send.go_back(position);
                self.wait_for_answer(send, position, None);
                self.finish(send);
            }
        }
    }

    pub(in crate::qp) fn failed(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        psn: u32,
        status: ibv_wc_status,
    ) {
        if let Some(position) = send.find_by_psn(psn) {
            self.fail(send, position, status);
        }
    }

    /// Returns the request with this PSN that awaits an answer with data.
    pub(in crate::qp) fn awaiting(send: &mut SendQueue, psn: u32) -> Option<&mut PendingRequest> {
        let position = send.find_by_psn(psn)?;
        send.pending
            .get_mut(position)
            .filter(|one| is_answered(one.opcode))
    }

    /// Completes a request whose answer is complete.
    pub(in crate::qp) fn answer_is_whole(self: &Arc<Qp>, send: &mut SendQueue, psn: u32) {
        let Some(position) = send.find_by_psn(psn) else {
            return;
        };
        if capture::is_on() {
            self.capture_answered(send, psn);
        }
        send.set_stage(position, RequestStage::Finished(IBV_WC_SUCCESS));
        self.finish(send);
        self.transmit(send);
    }
}

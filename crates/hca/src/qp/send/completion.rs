//! Completion of finished requests in the order of posting, and flushing after a failure.

use super::SendQueue;
use super::request::{PendingRequest, RequestStage};
use crate::capture;
use crate::cq::{Completion, Retired, Taking};
use crate::process::Process;
use crate::qp::Qp;
use crate::qp::terms::vendor_error;
use std::sync::Arc;
use verbena_abi::*;

impl Qp {
    /// Fast path for plain messages: completes the oldest request, if it is the acknowledged one.
    /// Returns false, without effect, if it is of another kind, or if other requests, a drain
    /// notification, a rule or a capture wait for it.
    #[inline]
    pub(super) fn complete_oldest(
        self: &Arc<Qp>,
        send: &mut SendQueue,
        index: u64,
        epoch: u32,
    ) -> bool {
        let Some(one) = send.pending.front() else {
            return false;
        };
        if one.index != index
            || one.epoch != epoch
            || one.opcode != IBV_WR_SEND
            || one.stage != RequestStage::Sent
            || send.begun < send.pending.len()
            || send.completes_generally
            || capture::is_on()
        {
            return false;
        }
        if self.is_signalled(one.flags) {
            let (wr_id, length) = (one.wr_id, one.sges.length());
            self.push_send(send, wr_id, IBV_WR_SEND, length, index, IBV_WC_SUCCESS);
        }
        send.rnr_retries.reload();
        send.pending.remove_front();
        send.begun -= 1;
        send.sent -= 1;
        if send
            .pending
            .front()
            .is_some_and(|next| next.stage != RequestStage::Sent)
        {
            self.finish(send);
        }
        true
    }

    /// Completes finished requests, in order.
    pub(super) fn finish(self: &Arc<Qp>, send: &mut SendQueue) {
        while let Some(one) = send.pending.front()
            && let RequestStage::Finished(mut status) = one.stage
        {
            if send.is_off_path {
                let index = one.index;
                let Some(returned) = self.returned(send, index, status) else {
                    break;
                };
                status = returned;
            }
            let Some(one) = send.pending.front() else {
                break;
            };
            if status != IBV_WC_SUCCESS {
                self.finish_failed(send, status);
                break;
            }
            self.complete_send(send, one, IBV_WC_SUCCESS);
            send.pending.remove_front();
            send.begun -= 1;
        }
        self.check_drained(send);
        if send.packets.is_some() {
            self.transmit_packets(send);
        }
    }

    /// Handles the failure of the oldest request: reliable queue pairs enter the error state,
    /// others the send queue error state. The state changes first, because a program that sees the
    /// completion may query it at once.
    #[cold]
    fn finish_failed(&self, send: &mut SendQueue, status: ibv_wc_status) {
        send.settle();
        let before = self.state();
        let after = self.rule_kind().after_failed_send() as u32;
        self.set_state(send, after);
        if let Some(one) = send.pending.front() {
            self.report_failed(send, one, status);
            self.note_planted(send, one.index, status);
            self.complete_send(send, one, status);
        }
        send.pending.remove_front();
        send.begun -= 1;
        if after == IBV_QPS_ERR {
            self.enter_error_from(before, send);
            return;
        }
        for flushed in send.take_pending() {
            self.complete_send(send, &flushed, IBV_WC_WR_FLUSH_ERR);
        }
    }

    pub(in crate::qp) fn check_drained(&self, send: &mut SendQueue) {
        if send.notify_drained && self.state() == IBV_QPS_SQD && send.is_drained() {
            send.set_notify_drained(false);
            self.raise(IBV_EVENT_SQ_DRAINED);
        }
    }

    /// Returns whether a successful request with these flags has a completion.
    #[inline]
    pub(super) fn is_signalled(&self, flags: u32) -> bool {
        self.signal_all || flags & IBV_SEND_SIGNALED != 0
    }

    pub(in crate::qp) fn complete_send(
        &self,
        send: &SendQueue,
        one: &PendingRequest,
        status: ibv_wc_status,
    ) {
        if self.is_signalled(one.flags) || status != IBV_WC_SUCCESS {
            let length = one.sges.length();
            self.push_send(send, one.wr_id, one.opcode, length, one.index, status);
        }
    }

    #[inline(always)]
    pub(super) fn push_send(
        &self,
        send: &SendQueue,
        wr_id: u64,
        opcode: ibv_wr_opcode,
        length: u64,
        index: u64,
        status: ibv_wc_status,
    ) {
        self.push_sent(&send.retired, wr_id, opcode, length, index, status, None);
    }

    /// As [`Qp::push_send`], given the counter of the send queue, for a thread that may be polling.
    #[inline(always)]
    #[expect(clippy::too_many_arguments, reason = "inlined")]
    pub(super) fn push_sent(
        &self,
        retired: &Arc<Retired>,
        wr_id: u64,
        opcode: ibv_wr_opcode,
        length: u64,
        index: u64,
        status: ibv_wc_status,
        taking: Option<&mut Taking<'_, Process>>,
    ) {
        if status != IBV_WC_SUCCESS {
            self.process.counters.shard().failed_completions.add(1);
        }
        let wc = ibv_wc {
            wr_id,
            status,
            opcode: completion_opcode(opcode),
            byte_len: length as u32,
            qp_num: self.number,
            vendor_err: vendor_error(status),
            ..ibv_wc::default()
        };
        if let Some(cq) = &self.send_cq {
            cq.push_or_take(Completion::sent(wc, retired, index + 1), false, taking);
        }
    }
}

fn completion_opcode(opcode: ibv_wr_opcode) -> ibv_wc_opcode {
    match opcode {
        IBV_WR_RDMA_WRITE | IBV_WR_RDMA_WRITE_WITH_IMM => IBV_WC_RDMA_WRITE,
        IBV_WR_RDMA_READ => IBV_WC_RDMA_READ,
        IBV_WR_ATOMIC_CMP_AND_SWP => IBV_WC_COMP_SWAP,
        IBV_WR_ATOMIC_FETCH_AND_ADD => IBV_WC_FETCH_ADD,
        IBV_WR_LOCAL_INV => IBV_WC_LOCAL_INV,
        IBV_WR_BIND_MW => IBV_WC_BIND_MW,
        IBV_WR_ATOMIC_WRITE => IBV_WC_ATOMIC_WRITE,
        IBV_WR_FLUSH => IBV_WC_FLUSH,
        _ => IBV_WC_SEND,
    }
}

//! Queue pair states and the effects of transitions (10.3.1, `ibv_modify_qp(3)`).

use super::choice::Choices;
use super::memory::Bytes;
use super::object::{Answer, Phase, Qp, State, World, Wqe};
use super::outcome::{Carried, Completion, Event, EventKind, FLUSHED, Side, Statuses, Subject};
use crate::program::{CqId, Operation, QpId, RecvWr, Service};
use verbena_abi as abi;

impl Operation {
    /// Returns the opcode of the requester's completion.
    pub fn completion(&self) -> abi::ibv_wc_opcode {
        match self {
            Operation::Send {} | Operation::SendImm { .. } | Operation::SendInv { .. } => {
                abi::IBV_WC_SEND
            }
            Operation::Write { .. } | Operation::WriteImm { .. } => abi::IBV_WC_RDMA_WRITE,
            Operation::Read { .. } => abi::IBV_WC_RDMA_READ,
            Operation::CmpSwap { .. } => abi::IBV_WC_COMP_SWAP,
            Operation::FetchAdd { .. } => abi::IBV_WC_FETCH_ADD,
            Operation::LocalInv { .. } => abi::IBV_WC_LOCAL_INV,
            Operation::BindMw { .. } => abi::IBV_WC_BIND_MW,
        }
    }
}

impl Qp {
    /// Returns whether the service detects packet loss.
    pub fn reliable(&self) -> bool {
        !matches!(self.service, Service::Uc | Service::Ud)
    }

    /// Returns whether it accepts packets from its peer (10.3.1: RTR and later, not in error).
    pub fn receives(&self) -> bool {
        matches!(
            self.state,
            State::Rtr | State::Rts | State::Sqd | State::Sqe
        )
    }
}

impl World {
    /// Completes a send request.
    pub fn complete_send(&mut self, id: QpId, wqe: &Wqe, statuses: Statuses) {
        let Some(cq) = self.qp(id).send_cq else {
            return;
        };
        let completion = Completion {
            cq,
            id: wqe.wr.id,
            statuses,
            opcode: wqe.wr.operation.completion(),
            byte_len: None,
            carried: Carried::Nothing,
            datagram: false,
            places: Vec::new(),
            content: Bytes::default(),
        };
        self.complete(id, Side::Send, completion);
    }

    /// Completes a receive request with an error.
    pub fn fail_receive(&mut self, id: QpId, cq: CqId, wr: &RecvWr, statuses: Statuses) {
        let completion = Completion {
            cq,
            id: wr.id,
            statuses,
            opcode: abi::IBV_WC_RECV,
            byte_len: None,
            carried: Carried::Nothing,
            datagram: false,
            places: Vec::new(),
            content: Bytes::default(),
        };
        self.complete(id, Side::Receive, completion);
    }

    /// Enters the error state: outstanding requests are flushed, in order (10.3.1.7).
    pub fn to_error(&mut self, id: QpId) {
        let qp = self.qp(id);
        if qp.state == State::Err {
            return;
        }
        qp.state = State::Err;
        qp.draining = None;
        self.flush(id);
        let qp = self.qp(id);
        let event = Event {
            process: qp.owner,
            kind: EventKind::LastWqe,
            subject: Subject::Qp(id),
        };
        if qp.srq.is_some() {
            self.raise(event);
        } else if qp.service == Service::XrcReceive {
            self.perhaps(event);
        }
    }

    /// Flushes unsignaled requests that have ended but may be unknown to the requester.
    pub fn flush_silent(&mut self, id: QpId, choices: &mut Choices) {
        let silent = std::mem::take(&mut self.qp(id).silent);
        if self.qp(id).state == State::Err || silent.is_empty() {
            return;
        }
        let first = choices.pick(silent.len() + 1);
        for wqe in &silent[first..] {
            self.complete_send(id, wqe, FLUSHED);
        }
    }

    /// Flushes both queues of a queue pair in the error state.
    pub fn flush(&mut self, id: QpId) {
        self.flush_sends(id);
        let qp = self.qp(id);
        let (current, queue) = (qp.current.take(), std::mem::take(&mut qp.rq));
        let recv_cq = qp.recv_cq;
        if let Some(current) = current {
            self.fail_receive(id, current.cq, &current.wr, FLUSHED);
        }
        for wr in queue {
            self.fail_receive(id, recv_cq.expect("has a receive queue"), &wr, FLUSHED);
        }
    }

    /// Flushes the send queue. A refused request may have its error status instead.
    pub fn flush_sends(&mut self, id: QpId) {
        for wqe in std::mem::take(&mut self.qp(id).sq) {
            let statuses = match wqe.phase {
                Phase::Answered(Answer::Failed(refused)) => refused.or(abi::IBV_WC_WR_FLUSH_ERR),
                Phase::Answered(Answer::Executed(_)) => {
                    self.lose_answer(id, &wqe);
                    FLUSHED
                }
                _ => FLUSHED,
            };
            self.complete_send(id, &wqe, statuses);
        }
    }

    /// Handles a send request that ended in error: all later ones are flushed. An unreliable
    /// service enters SQE and continues to receive (10.3.1.6).
    pub fn send_queue_error(&mut self, id: QpId) {
        if self.qp(id).reliable() {
            self.to_error(id);
        } else {
            self.qp(id).state = State::Sqe;
            self.qp(id).silent.clear();
            self.flush_sends(id);
        }
    }

    /// Enters the reset state: outstanding requests are dropped, and unpolled completions may
    /// disappear (11.2.5.3; providers remove them from the queue).
    pub fn reset(&mut self, id: QpId, choices: &mut Choices) {
        self.forget_completions(id, choices);
        let qp = self.qp(id);
        qp.state = State::Reset;
        qp.sq.clear();
        qp.silent.clear();
        qp.rq.clear();
        qp.current = None;
        qp.peer = None;
        qp.draining = None;
    }

    /// Removes completions of a queue pair that is reset or destroyed, from some point on.
    pub fn forget_completions(&mut self, id: QpId, choices: &mut Choices) {
        for side in [Side::Send, Side::Receive] {
            let Some(queue) = self.outbox.completions.get_mut(&(id, side)) else {
                continue;
            };
            let keep = queue.len() - choices.pick(queue.len() + 1);
            queue.truncate(keep);
        }
        self.outbox.completions.retain(|_, queue| !queue.is_empty());
    }

    /// Begins draining: requests that have begun end; of the others, the requester may have begun
    /// any number (10.3.1.5).
    pub fn drain(&mut self, id: QpId, choices: &mut Choices) {
        let qp = self.qp(id);
        let begun = qp
            .sq
            .iter()
            .take_while(|wqe| !matches!(wqe.phase, Phase::Queued | Phase::Postponed { .. }))
            .count();
        let more = qp.sq.len() - begun;
        let may_end = begun + choices.pick(more + 1);
        let qp = self.qp(id);
        qp.state = State::Sqd;
        qp.draining = Some(may_end);
        self.drained(id);
    }

    /// Raises the drained event if no request is under way.
    pub fn drained(&mut self, id: QpId) {
        let qp = self.qp(id);
        if qp.state == State::Sqd && qp.draining == Some(0) {
            qp.draining = None;
            let process = qp.owner;
            self.raise(Event {
                process,
                kind: EventKind::Drained,
                subject: Subject::Qp(id),
            });
        }
    }
}

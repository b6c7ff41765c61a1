//! The requester: processing of a work request from its queue to its completion (9.7.3 to 9.7.7,
//! 9.9.2).

use super::choice::Choices;
use super::memory::{Bytes, Source};
use super::object::{Answer, Phase, State, World, Wqe};
use super::outcome::{FLUSHED, SUCCESS, Statuses};
use crate::program::{Access, Flags, Key, Operation, PdId, ProcessId, QpId, SendWr, Service, Sge};
use verbena_abi as abi;

/// A possible next action of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The next request begins.
    Begin(QpId),
    /// The answer to an unsignaled request was lost, and the responder no longer exists. Optional.
    LoseSilent(QpId),
    /// The request that has begun is answered.
    Finish(QpId),
    /// The answer to the oldest request arrives.
    Acknowledge(QpId),
    /// The answer to the oldest request is lost, because the responder no longer exists.
    Lose(QpId),
    /// A late message of an unreliable service arrives. Optional.
    Arrive(usize),
}

/// The validity of a request's local memory.
enum Local {
    /// The adapter may access all of it.
    Valid,
    /// It may not.
    Invalid,
}

/// Returns whether an operation needs a receive request at the responder.
pub fn takes_receive(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Send {}
            | Operation::SendImm { .. }
            | Operation::SendInv { .. }
            | Operation::WriteImm { .. }
    )
}

/// Returns whether an operation concerns local objects only.
pub fn is_local(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::LocalInv { .. } | Operation::BindMw { .. }
    )
}

/// Returns whether an operation returns data.
pub fn brings_back(operation: &Operation) -> bool {
    matches!(
        operation,
        Operation::Read { .. } | Operation::CmpSwap { .. } | Operation::FetchAdd { .. }
    )
}

impl SendWr {
    /// Returns the length of its local memory in bytes.
    pub fn length(&self) -> u32 {
        self.sges.iter().map(|sge| sge.len).sum()
    }
}

impl World {
    /// Returns all possible next actions.
    pub fn moves(&self) -> Vec<Move> {
        self.qps.keys().flat_map(|id| self.moves_of(*id)).collect()
    }

    /// Returns the optional actions.
    pub fn optional_moves(&self) -> Vec<Move> {
        let gone = |(id, qp): &(&QpId, &super::object::Qp)| {
            let last = qp.silent.last();
            qp.reliable()
                && matches!(qp.state, State::Rts | State::Sqd)
                && last.is_some_and(|wqe| {
                    self.responder(**id, &wqe.wr).is_none() || self.may_lose(**id)
                })
        };
        let lost = self.qps.iter().filter(gone);
        let lost = lost.map(|(id, _)| Move::LoseSilent(*id));
        let refused = self.qps.keys().filter(|id| self.may_fail_first(**id));
        let refused = refused.map(|id| Move::Begin(*id));
        let late = (0..self.late.len()).filter(|index| self.can_arrive(*index));
        lost.chain(refused).chain(late.map(Move::Arrive)).collect()
    }

    fn moves_of(&self, id: QpId) -> Vec<Move> {
        let qp = &self.qps[&id];
        let mut moves = Vec::new();
        if !matches!(qp.state, State::Rts | State::Sqd) {
            return moves;
        }
        if let Some(Wqe {
            phase: Phase::Answered(answer),
            ..
        }) = qp.sq.front()
        {
            moves.push(Move::Acknowledge(id));
            let executed = matches!(answer, Answer::Executed(_));
            let is_gone = || self.responder(id, &qp.sq[0].wr).is_none();
            if executed && qp.reliable() && (is_gone() || self.may_lose(id)) {
                moves.push(Move::Lose(id));
            }
        }
        let Some(index) = self.first_unanswered(id) else {
            return moves;
        };
        match qp.sq[index].phase {
            Phase::Begun(_) => moves.push(Move::Finish(id)),
            _ if self.may_begin(id, index) && !self.waits_for_receive(id, index) => {
                moves.push(Move::Begin(id));
            }
            _ => {}
        }
        moves
    }

    /// Returns the next request that can proceed; none if an earlier one is about to end the queue.
    fn first_unanswered(&self, id: QpId) -> Option<usize> {
        let sq = &self.qps[&id].sq;
        let answered = |wqe: &Wqe| matches!(wqe.phase, Phase::Answered(_));
        let failed = |wqe: &Wqe| matches!(wqe.phase, Phase::Answered(Answer::Failed(_)));
        let index = sq.iter().position(|wqe| !answered(wqe))?;
        (!sq.iter().take(index).any(failed)).then_some(index)
    }

    /// Returns whether a request that lacks a receive may fail before: it would also be refused,
    /// and the responder may check either first (9.7.4.1), or its transmissions may be lost.
    fn may_fail_first(&self, id: QpId) -> bool {
        let qp = &self.qps[&id];
        let Some(index) = self.first_unanswered(id) else {
            return false;
        };
        let wr = &qp.sq[index].wr;
        matches!(qp.state, State::Rts | State::Sqd)
            && !matches!(qp.sq[index].phase, Phase::Begun(_))
            && self.waits_for_receive(id, index)
            && self.may_begin(id, index)
            && (self.may_lose(id)
                || self
                    .responder(id, wr)
                    .is_some_and(|responder| self.remote_fault(responder, wr).is_some()))
    }

    /// Returns whether a request can be sent now.
    pub fn is_sent(&self, id: QpId, index: usize) -> bool {
        let operation = &self.qps[&id].sq[index].wr.operation;
        let valid = matches!(self.local_side(id, &self.qps[&id].sq[index]), Local::Valid);
        valid
            && self.planted_locally(id).is_none()
            && !is_local(operation)
            && self.may_begin(id, index)
            && !self.waits_for_receive(id, index)
    }

    fn may_begin(&self, id: QpId, index: usize) -> bool {
        let qp = &self.qps[&id];
        let wqe = &qp.sq[index];
        if qp.state == State::Sqd && qp.draining.is_none_or(|may| index >= may) {
            return false;
        }
        let invalid = matches!(self.local_side(id, wqe), Local::Invalid);
        let planted = self.planted_locally(id).is_some();
        let alone = is_local(&wqe.wr.operation) || invalid || planted;
        if alone && index > 0 {
            return false;
        }
        // A fence waits only for earlier reads and atomics (10.8.3.3).
        let fetches = |before: &Wqe| brings_back(&before.wr.operation);
        !wqe.wr.flags.has(Flags::FENCE) || !qp.sq.iter().take(index).any(fetches)
    }

    /// Returns whether the responder answers RNR and the requester retries without limit.
    fn waits_for_receive(&self, id: QpId, index: usize) -> bool {
        let qp = &self.qps[&id];
        let wqe = &qp.sq[index];
        let wr = &wqe.wr;
        // A request whose local memory is invalid is never sent, so it needs no receive.
        let invalid = matches!(self.local_side(id, wqe), Local::Invalid)
            || self.planted_locally(id).is_some();
        if invalid || !qp.reliable() || qp.rnr_retry < 7 || !takes_receive(&wr.operation) {
            return false;
        }
        let Some(responder) = self.responder(id, wr) else {
            return false;
        };
        let refused = self.remote_fault(responder, wr).is_some();
        !self.has_receive(responder, wr) && (refused || !self.disturbs_while_waiting(responder, wr))
    }

    /// Returns the queue pair that receives this one's packets: its peer, if that exists, is in a
    /// receiving state, and is connected to this incarnation.
    pub fn responder(&self, id: QpId, wr: &SendWr) -> Option<QpId> {
        let qp = &self.qps[&id];
        if self.is_never_answered(id) {
            return None;
        }
        if qp.service == Service::Ud {
            let to = wr.to?;
            let peer = self.qps.get(&to)?;
            return (peer.service == Service::Ud && peer.receives()).then_some(to);
        }
        let peer_id = qp.peer?;
        let peer = self.qps.get(&peer_id)?;
        let services = match qp.service {
            Service::XrcSend => peer.service == Service::XrcReceive,
            service => peer.service == service,
        };
        let connected = peer.peer == Some(id) && peer.rq_psn == qp.sq_psn;
        (services && connected && peer.receives()).then_some(peer_id)
    }

    /// Returns whether the adapter may use a scatter/gather entry for this process and domain.
    pub fn may_use(&self, owner: ProcessId, pd: PdId, sge: &Sge, write: bool) -> bool {
        let Key::Mr(mr) = sge.key else { return false };
        let Some(mr) = self.mrs.get(&mr) else {
            return false;
        };
        mr.owner == owner
            && mr.pd == pd
            && mr.at <= sge.at
            && u64::from(sge.at) + u64::from(sge.len) <= u64::from(mr.at) + u64::from(mr.len)
            && (!write || mr.access.has(Access::LOCAL_WRITE))
    }

    fn local_side(&self, id: QpId, wqe: &Wqe) -> Local {
        let qp = &self.qps[&id];
        let (owner, write) = (qp.owner, brings_back(&wqe.wr.operation));
        let Some(pd) = qp.pd else {
            return Local::Invalid;
        };
        let valid = wqe.wr.flags.has(Flags::INLINE)
            || wqe
                .wr
                .sges
                .iter()
                .all(|sge| sge.len == 0 || self.may_use(owner, pd, sge, write));
        if valid { Local::Valid } else { Local::Invalid }
    }

    /// Returns the bytes that a request sends: those unchanged since it was posted or its fence
    /// opened, because the adapter may read them at any time from then on; inline data as of the
    /// post.
    pub fn gather(&self, id: QpId, wqe: &Wqe) -> Bytes {
        let inline = wqe.wr.flags.has(Flags::INLINE);
        if inline && !wqe.is_behind_others {
            return wqe.posted.clone();
        }
        self.local_bytes(id, wqe).where_equal(&wqe.posted)
    }

    /// Returns the current bytes of its local memory.
    fn local_bytes(&self, id: QpId, wqe: &Wqe) -> Bytes {
        let memory = &self.memory[usize::from(self.qps[&id].owner.0)];
        let mut data = Bytes::default();
        for sge in &wqe.wr.sges {
            data.extend(&memory.slice(sge.at..sge.at + sge.len));
        }
        data
    }

    /// Updates the data of later fenced requests after a read or atomic has returned its data
    /// (10.8.3.3).
    fn open_fences(&mut self, id: QpId) {
        let sends = |wqe: &Wqe| !brings_back(&wqe.wr.operation);
        let behind = self.qps[&id].sq.iter().take_while(|wqe| sends(wqe));
        let open: Vec<(usize, Bytes)> = behind
            .enumerate()
            .filter(|(_, wqe)| wqe.wr.flags.has(Flags::FENCE))
            .filter(|(_, wqe)| !wqe.wr.flags.has(Flags::INLINE))
            .map(|(index, wqe)| (index, self.local_bytes(id, wqe)))
            .collect();
        for (index, bytes) in open {
            self.qp(id).sq[index].posted = bytes;
        }
    }

    /// Writes bytes to the entries of a scatter list, in order.
    pub fn scatter(&mut self, owner: ProcessId, sges: &[Sge], data: &Bytes) {
        let mut at = 0;
        for sge in sges {
            let part = data.slice(at..(at + sge.len).min(data.len()).max(at));
            self.arena(owner).replace(sge.at, &part);
            at += part.len();
        }
    }

    /// Executes an action. With `whole`, a request that begins may be answered at once.
    pub fn advance(&mut self, next: Move, whole: bool, choices: &mut Choices) {
        match next {
            Move::Begin(id) => self.begin(id, whole, choices),
            Move::Finish(id) => self.finish(id, choices),
            Move::Acknowledge(id) => self.acknowledge(id),
            Move::Arrive(index) => self.arrive(index, choices),
            Move::LoseSilent(id) => {
                let silent = std::mem::take(&mut self.qp(id).silent);
                let first = choices.pick(silent.len());
                self.complete_send(id, &silent[first], Statuses::of(abi::IBV_WC_RETRY_EXC_ERR));
                for wqe in &silent[first + 1..] {
                    self.complete_send(id, wqe, FLUSHED);
                }
                self.send_queue_error(id);
            }
            Move::Lose(id) => {
                let wqe = self.qp(id).sq.pop_front().expect("an answered request");
                self.lose_answer(id, &wqe);
                self.complete_send(id, &wqe, Statuses::of(abi::IBV_WC_RETRY_EXC_ERR));
                self.send_queue_error(id);
            }
        }
    }

    /// Handles a request that ends while its answer is under way: some of the data may have
    /// arrived.
    pub fn lose_answer(&mut self, id: QpId, wqe: &Wqe) {
        if brings_back(&wqe.wr.operation) {
            let unknown = Bytes::of(wqe.wr.length(), Source::Unknown);
            let owner = self.qp(id).owner;
            self.scatter(owner, &wqe.wr.sges, &unknown);
        }
    }

    fn next_index(&mut self, id: QpId) -> usize {
        let answered = |wqe: &Wqe| matches!(wqe.phase, Phase::Answered(_));
        self.qp(id)
            .sq
            .iter()
            .position(|wqe| !answered(wqe))
            .expect("a request that can move")
    }

    fn answer(&mut self, id: QpId, index: usize, answer: Answer) {
        // The responder may be the same queue pair, or the requester may have failed with it.
        if let Some(wqe) = self.qp(id).sq.get_mut(index) {
            match answer {
                Answer::Postponed if matches!(wqe.phase, Phase::Postponed { .. }) => {}
                Answer::Postponed => wqe.phase = Phase::Postponed { changed: false },
                answer => wqe.phase = Phase::Answered(answer),
            }
        }
    }

    fn begin(&mut self, id: QpId, whole: bool, choices: &mut Choices) {
        let index = self.next_index(id);
        let wqe = self.qp(id).sq[index].clone();
        if let Some(statuses) = self.planted_locally(id) {
            self.qp(id).sq.pop_front();
            self.complete_send(id, &wqe, statuses);
            return self.send_queue_error(id);
        }
        if is_local(&wqe.wr.operation) {
            return self.execute_locally(id, &wqe, choices);
        }
        if matches!(self.local_side(id, &wqe), Local::Invalid) {
            return self.begin_invalid(id, &wqe, choices);
        }
        let data = if brings_back(&wqe.wr.operation) {
            Bytes::default()
        } else {
            self.gather(id, &wqe)
        };
        let data = match self.was_changed_meanwhile(id, &wqe) {
            true => {
                self.qp(id).sq[index].phase = Phase::Postponed { changed: true };
                Bytes::of(data.len(), Source::Unknown)
            }
            false => data,
        };
        let Some(responder) = self.responder(id, &wqe.wr) else {
            self.keep_as_late(id, &wqe.wr, &data);
            let answer = self.unanswered(id);
            return self.answer(id, index, answer);
        };
        if self.may_lose(id) && choices.pick(2) == 1 {
            self.keep_as_late(id, &wqe.wr, &data);
            let answer = self.unanswered(id);
            return self.answer(id, index, answer);
        }
        // An unreliable message completes when it is sent; with concurrent calls it may still be in
        // flight then.
        if !whole && !self.qp(id).reliable() && choices.pick(2) == 1 {
            self.keep_as_late(id, &wqe.wr, &data);
            return self.answer(id, index, Answer::Executed(None));
        }
        if let Err(answer) = self.accept(id, responder, &wqe.wr, whole, choices) {
            if answer != Answer::Postponed {
                self.keep_as_late(id, &wqe.wr, &data);
            }
            return self.answer(id, index, answer);
        }
        self.overtake(id, responder);
        if whole {
            let answer = self.execute(id, responder, &wqe.wr, &data, choices);
            let answer = self.as_overtaken(id, index, responder, answer);
            return self.answer(id, index, answer);
        }
        let captured = match &wqe.wr.operation {
            Operation::Read { from } => {
                let unknown = Bytes::of(wqe.wr.length(), Source::Unknown);
                let owner = self.qp(id).owner;
                self.scatter(owner, &wqe.wr.sges, &unknown);
                self.read_remote(responder, from, wqe.wr.length())
            }
            _ => data,
        };
        self.disturb(responder, &wqe.wr);
        self.qp(id).sq[index].phase = Phase::Begun(captured);
    }

    /// Returns whether the data that a request placed before it waited for a receive was changed
    /// since: it need not be placed again.
    fn was_changed_meanwhile(&self, id: QpId, wqe: &Wqe) -> bool {
        let Phase::Postponed { changed } = wqe.phase else {
            return false;
        };
        changed
            || self
                .responder(id, &wqe.wr)
                .is_some_and(|responder| self.disturbs_while_waiting(responder, &wqe.wr))
    }

    /// Returns the result of a request without an answer: an unreliable service does not wait for
    /// one.
    fn unanswered(&mut self, id: QpId) -> Answer {
        if self.qp(id).reliable() {
            Answer::Failed(Statuses::of(abi::IBV_WC_RETRY_EXC_ERR))
        } else {
            Answer::Executed(None)
        }
    }

    /// Handles a request with invalid local memory. The effect of its valid part at the responder
    /// is open (10.6.3.? and 9.9.2.3: the memory's content is undefined).
    fn begin_invalid(&mut self, id: QpId, wqe: &Wqe, choices: &mut Choices) {
        let mut statuses = Statuses::of(abi::IBV_WC_LOC_PROT_ERR);
        if let Some(responder) = self.responder(id, &wqe.wr) {
            let fault = self.remote_fault(responder, &wqe.wr);
            let atomic = matches!(
                wqe.wr.operation,
                Operation::CmpSwap { .. } | Operation::FetchAdd { .. }
            );
            match fault {
                // The data returns before the adapter detects that it cannot place it.
                Some(fault) if brings_back(&wqe.wr.operation) && choices.pick(2) == 1 => {
                    self.responder_error(responder, &fault, None, choices);
                    statuses = fault.statuses;
                }
                Some(_) => {}
                None if atomic && choices.pick(2) == 1 => {
                    self.execute(id, responder, &wqe.wr, &Bytes::default(), choices);
                }
                None if wqe.wr.sges.len() > 1 => self.disturb_memory(responder, &wqe.wr),
                None => {}
            }
        }
        self.qp(id).sq.pop_front();
        self.complete_send(id, wqe, statuses);
        self.send_queue_error(id);
    }

    fn finish(&mut self, id: QpId, choices: &mut Choices) {
        let index = self.next_index(id);
        let wqe = self.qp(id).sq[index].clone();
        let Phase::Begun(captured) = &wqe.phase else {
            unreachable!("it has begun")
        };
        if matches!(self.local_side(id, &wqe), Local::Invalid) && !brings_back(&wqe.wr.operation) {
            if index == 0 {
                self.qp(id).sq.pop_front();
                self.complete_send(id, &wqe, Statuses::of(abi::IBV_WC_LOC_PROT_ERR));
                return self.send_queue_error(id);
            }
            return self.answer(
                id,
                index,
                Answer::Failed(Statuses::of(abi::IBV_WC_LOC_PROT_ERR)),
            );
        }
        let Some(responder) = self.responder(id, &wqe.wr) else {
            let answer = self.unanswered(id);
            return self.answer(id, index, answer);
        };
        let now = match &wqe.wr.operation {
            Operation::Read { from } => self.read_remote(responder, from, wqe.wr.length()),
            operation if brings_back(operation) => Bytes::default(),
            _ => self.gather(id, &wqe),
        };
        let data = now.where_equal(captured);
        let answer = self.execute(id, responder, &wqe.wr, &data, choices);
        let answer = self.as_overtaken(id, index, responder, answer);
        self.answer(id, index, answer);
    }

    fn acknowledge(&mut self, id: QpId) {
        let wqe = self.qp(id).sq.pop_front().expect("an answered request");
        let Phase::Answered(answer) = &wqe.phase else {
            unreachable!("it is answered")
        };
        if let Some(may) = &mut self.qp(id).draining {
            *may = may.saturating_sub(1);
        }
        match answer {
            Answer::Failed(statuses) => {
                let statuses = *statuses;
                self.complete_send(id, &wqe, statuses);
                return self.send_queue_error(id);
            }
            Answer::Postponed => unreachable!("it is not answered"),
            Answer::Executed(back) => {
                if let Some(data) = back {
                    if matches!(self.local_side(id, &wqe), Local::Invalid) {
                        self.complete_send(id, &wqe, Statuses::of(abi::IBV_WC_LOC_PROT_ERR));
                        return self.send_queue_error(id);
                    }
                    let owner = self.qp(id).owner;
                    self.scatter(owner, &wqe.wr.sges, data);
                    self.open_fences(id);
                }
                if wqe.signaled {
                    self.qp(id).silent.clear();
                    self.complete_send(id, &wqe, SUCCESS);
                } else {
                    self.qp(id).silent.push(wqe.clone());
                }
                // An unreliable service's completion means that the message was sent, not that it
                // arrived.
                self.outbox.silent |= !wqe.signaled || !self.qp(id).reliable();
            }
        }
        self.drained(id);
    }
}

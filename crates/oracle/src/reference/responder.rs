//! The responder: what an arriving request is checked for and what it does (9.7.4, 9.7.5, 9.9.3).

use super::choice::Choices;
use super::memory::{Bytes, Source};
use super::object::{Answer, Current, World};
use super::outcome::{Carried, Completion, Event, EventKind, SUCCESS, Side, Statuses, Subject};
use super::requester::takes_receive;
use crate::program::{Access, Key, Operation, PdId, QpId, RecvWr, Remote, SendWr, Service, SrqId};
use verbena_abi as abi;

/// Bytes of a packet on every connection of a program.
const PATH_MTU: u32 = 1024;
const ATOMIC_BYTES: u32 = 8;
/// A datagram's receive buffer begins with space for a global route header.
pub const GRH_BYTES: u32 = 40;

/// Why a responder refuses a request.
pub struct Fault {
    /// What the requester may be told.
    pub statuses: Statuses,
    /// The responder's own event.
    pub event: EventKind,
}

/// Where a message of this length lies in a receive request.
pub fn places_of(wr: &RecvWr, len: u32) -> Vec<(u32, u32)> {
    let mut left = len;
    let mut places = Vec::new();
    for sge in &wr.sges {
        let part = sge.len.min(left);
        left -= part;
        if part > 0 {
            places.push((sge.at, part));
        }
    }
    places
}

fn invalid_request() -> Fault {
    Fault {
        statuses: Statuses::of(abi::IBV_WC_REM_INV_REQ_ERR),
        event: EventKind::QpRequestError,
    }
}

fn access_violation() -> Fault {
    Fault {
        statuses: Statuses::of(abi::IBV_WC_REM_ACCESS_ERR),
        event: EventKind::QpAccessError,
    }
}

/// What an operation asks of remote memory: where, how much, which right.
fn target(wr: &SendWr) -> Option<(&Remote, u32, Access)> {
    match &wr.operation {
        Operation::Write { to } | Operation::WriteImm { to, .. } => {
            Some((to, wr.length(), Access::REMOTE_WRITE))
        }
        Operation::Read { from } => Some((from, wr.length(), Access::REMOTE_READ)),
        Operation::CmpSwap { at, .. } | Operation::FetchAdd { at, .. } => {
            Some((at, ATOMIC_BYTES, Access::REMOTE_ATOMIC))
        }
        _ => None,
    }
}

impl World {
    /// Whether an operation on remote memory is refused.
    pub fn remote_fault(&self, responder: QpId, wr: &SendWr) -> Option<Fault> {
        let xrc = self.qps[&responder].service == Service::XrcReceive;
        if xrc && self.named_srq(responder, wr).is_none() {
            let mut fault = invalid_request();
            fault.statuses = fault.statuses.or(abi::IBV_WC_REM_OP_ERR);
            return Some(fault);
        }
        let (remote, len, right) = target(wr)?;
        let qp = &self.qps[&responder];
        if !qp.access.has(right) {
            return Some(invalid_request());
        }
        if right == Access::REMOTE_ATOMIC && remote.at % ATOMIC_BYTES != 0 {
            // Both may be wrong at once; either is then told.
            let mut fault = invalid_request();
            if !self.may_reach(responder, wr, remote, len, right) {
                fault.statuses = fault.statuses.or(abi::IBV_WC_REM_ACCESS_ERR);
            }
            return Some(fault);
        }
        // The key of a request without data is not looked at (9.7.4.1.5, C9-88).
        (len > 0 && !self.may_reach(responder, wr, remote, len, right)).then(access_violation)
    }

    /// Whether a key grants this right to these bytes through this queue pair (9.4.1.1.2, 10.6).
    fn may_reach(
        &self,
        responder: QpId,
        wr: &SendWr,
        remote: &Remote,
        len: u32,
        right: Access,
    ) -> bool {
        let domain = self.domain(responder, wr);
        let qp = &self.qps[&responder];
        let within = |at: u32, length: u32| {
            at <= remote.at
                && u64::from(remote.at) + u64::from(len) <= u64::from(at) + u64::from(length)
        };
        match remote.key {
            Key::Bad => false,
            Key::Mr(mr) => self.mrs.get(&mr).is_some_and(|mr| {
                mr.owner == qp.owner
                    && domain == Some(mr.pd)
                    && mr.access.has(right)
                    && within(mr.at, mr.len)
            }),
            Key::Mw(mw) => self.mws.get(&mw).is_some_and(|mw| {
                mw.owner == qp.owner
                    && domain == Some(mw.pd)
                    && mw.binding.as_ref().is_some_and(|binding| {
                        binding.access.has(right)
                            && binding.qp.is_none_or(|bound| bound == responder)
                            && within(binding.at, binding.len)
                            && self.mrs.contains_key(&binding.mr)
                    })
            }),
        }
    }

    /// The domain that keys are checked against. An XRC target has none of its own: it is that of
    /// the shared receive queue that every request names (14.2).
    fn domain(&self, responder: QpId, wr: &SendWr) -> Option<PdId> {
        match self.qps[&responder].service {
            Service::XrcReceive => {
                let srq = self.named_srq(responder, wr)?;
                Some(self.srqs[&srq].pd)
            }
            _ => self.qps[&responder].pd,
        }
    }

    /// The shared receive queue that a request names, if it is one of the target's domain.
    fn named_srq(&self, responder: QpId, wr: &SendWr) -> Option<SrqId> {
        let id = wr.srq?;
        let (own, _) = self.srqs.get(&id)?.xrc?;
        let file = |xrcd| self.xrcds.get(&xrcd).map(|(_, file)| *file);
        let target = self.qps[&responder].xrcd?;
        (file(own).is_some() && file(own) == file(target)).then_some(id)
    }

    /// Whether there is a receive request for this message.
    pub fn has_receive(&self, responder: QpId, wr: &SendWr) -> bool {
        let qp = &self.qps[&responder];
        match self.receive_source(responder, wr) {
            Some(srq) => !self.srqs[&srq].queue.is_empty(),
            None => !qp.rq.is_empty(),
        }
    }

    fn receive_source(&self, responder: QpId, wr: &SendWr) -> Option<SrqId> {
        let qp = &self.qps[&responder];
        if qp.service == Service::XrcReceive {
            self.named_srq(responder, wr)
        } else {
            qp.srq
        }
    }

    /// The first packet: what can be refused is, and a receive request is taken.
    pub fn accept(
        &mut self,
        id: QpId,
        responder: QpId,
        wr: &SendWr,
        choices: &mut Choices,
    ) -> Result<(), Answer> {
        let reliable = self.qps[&responder].reliable();
        let fault = self.remote_fault(responder, wr);
        let wants_receive = takes_receive(&wr.operation);
        let lacks_receive = wants_receive && !self.has_receive(responder, wr);
        let may_wait_for_ever = reliable && self.qps[&id].rnr_retry == 7;
        let fault_first =
            fault.is_some() && (!lacks_receive || may_wait_for_ever || choices.pick(2) == 0);
        if lacks_receive && !fault_first {
            // The data of a write may be there before its immediate finds no receive (9.7.5.2.8).
            self.disturb_memory(responder, wr);
            if may_wait_for_ever {
                return Err(Answer::Postponed);
            }
            return Err(if reliable {
                Answer::Failed(Statuses::of(abi::IBV_WC_RNR_RETRY_EXC_ERR))
            } else {
                Answer::Executed(None)
            });
        }
        if let Some(fault) = fault {
            if !reliable {
                return Err(Answer::Executed(None));
            }
            // A message of several packets is refused at its first one, and takes its receive
            // request at its last.
            let several = wr.length() > PATH_MTU;
            let receive = (wants_receive && !lacks_receive && !(several && choices.pick(2) == 0))
                .then(|| Statuses::of(abi::IBV_WC_LOC_ACCESS_ERR));
            if receive.is_some() {
                self.take_receive(responder, wr);
            }
            self.responder_error(responder, &fault, receive);
            return Err(Answer::Failed(fault.statuses));
        }
        if !wants_receive {
            return Ok(());
        }
        if !reliable && self.too_long(responder, wr) {
            return Err(Answer::Executed(None));
        }
        self.take_receive(responder, wr);
        Ok(())
    }

    /// Whether a request that waits for a receive may still change memory while it waits.
    pub fn disturbs_while_waiting(&self, responder: QpId, wr: &SendWr) -> bool {
        let Operation::WriteImm { to, .. } = &wr.operation else {
            return false;
        };
        let memory = &self.memory[usize::from(self.qps[&responder].owner.0)];
        let len = wr.length();
        memory.slice(to.at..to.at + len) != Bytes::of(len, Source::Unknown)
    }

    fn front_receive(&self, responder: QpId, wr: &SendWr) -> &RecvWr {
        let front = match self.receive_source(responder, wr) {
            Some(srq) => self.srqs[&srq].queue.front(),
            None => self.qps[&responder].rq.front(),
        };
        front.expect("a receive request is there")
    }

    fn too_long(&self, responder: QpId, wr: &SendWr) -> bool {
        let qp = &self.qps[&responder];
        let front = if qp.service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        let room: u32 = self
            .front_receive(responder, wr)
            .sges
            .iter()
            .map(|sge| sge.len)
            .sum();
        !matches!(wr.operation, Operation::WriteImm { .. }) && front + wr.length() > room
    }

    fn take_receive(&mut self, responder: QpId, wr: &SendWr) {
        let source = self.receive_source(responder, wr);
        let qp = self.qp(responder);
        let (recv, cq) = match source {
            None => (qp.rq.pop_front(), qp.recv_cq),
            Some(srq) => {
                let own = qp.recv_cq;
                let srq = self
                    .srqs
                    .get_mut(&srq)
                    .expect("the shared receive queue exists");
                (srq.queue.pop_front(), srq.xrc.map(|(_, cq)| cq).or(own))
            }
        };
        if let Some(srq) = source {
            self.look_at_limit(srq);
        }
        let wr = recv.expect("a receive request is there");
        self.qp(responder).current = Some(Current {
            wr,
            cq: cq.expect("receives complete"),
        });
    }

    /// Raises the limit event if fewer requests are left than the limit, once (10.2.9.1).
    pub fn look_at_limit(&mut self, id: SrqId) {
        let srq = self
            .srqs
            .get_mut(&id)
            .expect("the shared receive queue exists");
        if srq.limit > 0 && (srq.queue.len() as u32) < srq.limit {
            srq.limit = 0;
            let process = srq.owner;
            self.raise(Event {
                process,
                kind: EventKind::SrqLimit,
                subject: Subject::Srq(id),
            });
        }
    }

    /// The responder fails: the receive request in use ends with these statuses, the others are
    /// flushed, and an event may tell why (9.9.3.1, class C).
    pub fn responder_error(&mut self, id: QpId, fault: &Fault, receive: Option<Statuses>) {
        let process = self.qp(id).owner;
        for kind in [fault.event, EventKind::QpFatal] {
            self.perhaps(Event {
                process,
                kind,
                subject: Subject::Qp(id),
            });
        }
        if let (Some(statuses), Some(current)) = (receive, self.qp(id).current.take()) {
            self.fail_receive(id, current.cq, &current.wr, statuses);
        }
        self.to_error(id);
    }

    /// While a request is being executed the bytes that it changes are neither old nor new.
    pub fn disturb(&mut self, responder: QpId, wr: &SendWr) {
        self.disturb_memory(responder, wr);
        let qp = self.qp(responder);
        let front = if qp.service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        let (owner, pd) = (qp.owner, qp.pd);
        let sges = qp
            .current
            .as_ref()
            .map(|current| current.wr.sges.clone())
            .unwrap_or_default();
        if matches!(wr.operation, Operation::WriteImm { .. }) {
            return;
        }
        let mut left = front + wr.length();
        for sge in sges {
            let part = sge.len.min(left);
            left -= part;
            if pd.is_some_and(|pd| self.may_use(owner, pd, &sge, true)) {
                self.arena(owner)
                    .replace(sge.at, &Bytes::of(part, Source::Unknown));
            }
        }
    }

    /// The same for the memory that a write names.
    pub fn disturb_memory(&mut self, responder: QpId, wr: &SendWr) {
        if let Operation::Write { to } | Operation::WriteImm { to, .. } = &wr.operation {
            let owner = self.qp(responder).owner;
            self.arena(owner)
                .replace(to.at, &Bytes::of(wr.length(), Source::Unknown));
        }
    }

    /// Bytes of the responder's memory.
    pub fn read_remote(&mut self, responder: QpId, from: &Remote, len: u32) -> Bytes {
        let owner = self.qp(responder).owner;
        let end = from.at.saturating_add(len).min(self.arena(owner).len());
        self.arena(owner).slice(from.at..end)
    }

    /// The last packet: the request takes effect, if everything still holds.
    pub fn execute(
        &mut self,
        id: QpId,
        responder: QpId,
        wr: &SendWr,
        data: &Bytes,
        choices: &mut Choices,
    ) -> Answer {
        if let Some(fault) = self.remote_fault(responder, wr) {
            if !self.qp(responder).reliable() {
                return Answer::Executed(None);
            }
            let receive = self.qp(responder).current.is_some();
            let receive = receive.then(|| Statuses::of(abi::IBV_WC_LOC_ACCESS_ERR));
            self.responder_error(responder, &fault, receive);
            return Answer::Failed(fault.statuses);
        }
        let owner = self.qp(responder).owner;
        // Nothing says how bytes are moved onto bytes that they overlap.
        let data = &match self.overlaps(id, responder, wr) {
            true => Bytes::of(wr.length(), Source::Unknown),
            false => data.clone(),
        };
        match &wr.operation {
            Operation::Send {} => self.receive(responder, data, Carried::Nothing, choices),
            Operation::SendImm { imm } => {
                self.receive(responder, data, Carried::Immediate(*imm), choices)
            }
            Operation::SendInv { key } => self.receive_invalidating(responder, data, *key, choices),
            Operation::Write { to } => {
                self.arena(owner).replace(to.at, data);
                Answer::Executed(None)
            }
            Operation::WriteImm { to, imm } => {
                self.arena(owner).replace(to.at, data);
                let current = self
                    .qp(responder)
                    .current
                    .take()
                    .expect("a receive was taken");
                let opcode = abi::IBV_WC_RECV_RDMA_WITH_IMM;
                let carried = Carried::Immediate(*imm);
                let places = vec![(to.at, data.len())];
                self.complete_receive(responder, current, opcode, data.len(), carried, places);
                Answer::Executed(None)
            }
            Operation::Read { from } => {
                let data = if data.len() == wr.length() {
                    data.clone()
                } else {
                    self.read_remote(responder, from, wr.length())
                };
                Answer::Executed(Some(data))
            }
            Operation::CmpSwap { at, compare, swap } => {
                self.atomic(
                    responder,
                    at,
                    |old| if old == *compare { *swap } else { old },
                )
            }
            Operation::FetchAdd { at, add } => {
                self.atomic(responder, at, |old| old.wrapping_add(*add))
            }
            Operation::LocalInv { .. } | Operation::BindMw { .. } => {
                unreachable!("{id:?} executes it by itself")
            }
        }
    }

    /// Whether source and destination share bytes, which they can within one process.
    fn overlaps(&self, id: QpId, responder: QpId, wr: &SendWr) -> bool {
        let there = &self.qps[&responder];
        if self.qps[&id].owner != there.owner {
            return false;
        }
        let current = there.current.iter().flat_map(|current| &current.wr.sges);
        let mut ranges: Vec<(u32, u32)> = current.map(|sge| (sge.at, sge.len)).collect();
        if let Some((remote, len, _)) = target(wr) {
            ranges.push((remote.at, len));
        }
        wr.sges.iter().any(|sge| {
            ranges
                .iter()
                .any(|(at, len)| sge.at < at + len && *at < sge.at + sge.len)
        })
    }

    fn atomic(&mut self, responder: QpId, at: &Remote, change: impl Fn(u64) -> u64) -> Answer {
        let old = self.read_remote(responder, at, ATOMIC_BYTES);
        let new = match old.number() {
            Some(number) => Source::Number(change(number), 0),
            None => Source::Unknown,
        };
        let owner = self.qp(responder).owner;
        self.arena(owner)
            .replace(at.at, &Bytes::of(ATOMIC_BYTES, new));
        Answer::Executed(Some(old))
    }

    fn complete_receive(
        &mut self,
        responder: QpId,
        current: Current,
        opcode: abi::ibv_wc_opcode,
        len: u32,
        carried: Carried,
        places: Vec<(u32, u32)>,
    ) {
        let datagram = self.qp(responder).service == Service::Ud;
        let owner = self.qp(responder).owner;
        let mut content = Bytes::default();
        for (at, len) in &places {
            let part = self.arena(owner).slice(*at..*at + *len);
            content.extend(&part);
        }
        let completion = Completion {
            cq: current.cq,
            id: current.wr.id,
            statuses: SUCCESS,
            opcode,
            byte_len: Some(len + if datagram { GRH_BYTES } else { 0 }),
            carried,
            datagram,
            places,
            content,
        };
        self.complete(responder, Side::Receive, completion);
    }

    /// A message goes into the receive request that was taken for it.
    fn receive(
        &mut self,
        responder: QpId,
        data: &Bytes,
        carried: Carried,
        choices: &mut Choices,
    ) -> Answer {
        match self.place(responder, data, choices) {
            Err(answer) => answer,
            Ok(current) => {
                let (opcode, places) = (abi::IBV_WC_RECV, places_of(&current.wr, data.len()));
                self.complete_receive(responder, current, opcode, data.len(), carried, places);
                Answer::Executed(None)
            }
        }
    }

    /// Places a message, or fails as the specification says for what is wrong with the request.
    fn place(
        &mut self,
        responder: QpId,
        data: &Bytes,
        choices: &mut Choices,
    ) -> Result<Current, Answer> {
        let qp = self.qp(responder);
        let (owner, pd, reliable, srq) = (qp.owner, qp.pd, qp.reliable(), qp.srq);
        let front = if qp.service == Service::Ud {
            GRH_BYTES
        } else {
            0
        };
        let current = qp.current.clone().expect("a receive was taken");
        // The keys of a shared receive queue's requests are checked against its own domain.
        let pd = srq
            .map(|srq| self.srqs[&srq].pd)
            .or(pd)
            .or_else(|| self.domain_of(&current));
        let whole = Bytes::of(front, Source::Unknown);
        let mut whole = whole;
        whole.extend(data);
        let room: u32 = current.wr.sges.iter().map(|sge| sge.len).sum();
        let valid = |sge: &crate::program::Sge| {
            sge.len == 0 || pd.is_some_and(|pd| self.may_use(owner, pd, sge, true))
        };
        let mut before = 0;
        let (mut touched_bad, mut untouched_bad) = (false, false);
        for sge in &current.wr.sges {
            touched_bad |= before < whole.len() && !valid(sge);
            untouched_bad |= before >= whole.len() && !valid(sge);
            before += sge.len;
        }
        let too_long = whole.len() > room;
        let bad = touched_bad || untouched_bad && choices.pick(2) == 1;
        if !too_long && !bad {
            self.qp(responder).current = None;
            self.scatter(owner, &current.wr.sges, &whole);
            return Ok(current);
        }
        let unknown = Bytes::of(room.min(whole.len()), Source::Unknown);
        let usable: Vec<_> = current.wr.sges.iter().copied().filter(valid).collect();
        self.scatter(owner, &usable, &unknown);
        let length_first = too_long && (!bad || choices.pick(2) == 0);
        let (receive, send) = if length_first {
            (abi::IBV_WC_LOC_LEN_ERR, abi::IBV_WC_REM_INV_REQ_ERR)
        } else {
            (abi::IBV_WC_LOC_PROT_ERR, abi::IBV_WC_REM_OP_ERR)
        };
        let fault = Fault {
            statuses: Statuses::of(send),
            event: EventKind::QpRequestError,
        };
        self.responder_error(responder, &fault, Some(Statuses::of(receive)));
        Err(if reliable {
            Answer::Failed(fault.statuses)
        } else {
            Answer::Executed(None)
        })
    }

    fn domain_of(&self, current: &Current) -> Option<PdId> {
        // XRC: the request came from the shared receive queue that completes there.
        let of = |srq: &&super::object::Srq| srq.xrc.is_some_and(|(_, cq)| cq == current.cq);
        self.srqs.values().find(of).map(|srq| srq.pd)
    }

    /// A message that also invalidates a window. If it may not, the receive request fails and the
    /// requester is not told by a NAK: its acknowledgement may have gone before (class J).
    fn receive_invalidating(
        &mut self,
        responder: QpId,
        data: &Bytes,
        key: Key,
        choices: &mut Choices,
    ) -> Answer {
        let current = match self.place(responder, data, choices) {
            Ok(current) => current,
            Err(answer) => return answer,
        };
        if self.invalidate(responder, key, choices) {
            let carried = Carried::Invalidated;
            let (opcode, places) = (abi::IBV_WC_RECV, places_of(&current.wr, data.len()));
            self.complete_receive(responder, current, opcode, data.len(), carried, places);
            return Answer::Executed(None);
        }
        let statuses = Statuses::of(abi::IBV_WC_LOC_QP_OP_ERR)
            .or(abi::IBV_WC_LOC_PROT_ERR)
            .or(abi::IBV_WC_LOC_ACCESS_ERR)
            .or(abi::IBV_WC_MW_BIND_ERR)
            .or(abi::IBV_WC_REM_INV_REQ_ERR)
            .or(abi::IBV_WC_REM_ACCESS_ERR)
            .or(abi::IBV_WC_WR_FLUSH_ERR);
        self.qp(responder).current = Some(current);
        self.responder_error(responder, &access_violation(), Some(statuses));
        match choices.pick(2) {
            0 => Answer::Executed(None),
            _ => Answer::Failed(Statuses::of(abi::IBV_WC_RETRY_EXC_ERR)),
        }
    }
}

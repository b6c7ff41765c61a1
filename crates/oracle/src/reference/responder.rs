//! The responder: checks and execution of an inbound request (9.7.4, 9.7.5, 9.9.3).

use super::access::target;
use super::choice::Choices;
use super::memory::{Bytes, Source};
use super::object::{Answer, Current, Phase, World, Wqe};
use super::outcome::{Carried, Event, EventKind, Statuses, Subject};
use super::requester::takes_receive;
use crate::program::{Operation, ProcessId, QpId, RecvWr, Remote, SendWr, Service, SrqId};
use verbena_abi as abi;

/// Path MTU of every connection in bytes.
const PATH_MTU: u32 = 1024;
/// Operand size of atomics in bytes.
pub const ATOMIC_BYTES: u32 = 8;
/// A datagram's receive buffer begins with space for a global route header.
pub const GRH_BYTES: u32 = 40;

/// Why a responder refuses a request.
pub struct Fault {
    /// The statuses that the requester may get.
    pub statuses: Statuses,
    /// The responder's event.
    pub event: EventKind,
}

/// Returns the fault of an operation that the queue pair does not permit.
pub fn invalid_request() -> Fault {
    Fault {
        statuses: Statuses::of(abi::IBV_WC_REM_INV_REQ_ERR),
        event: EventKind::QpRequestError,
    }
}

/// Returns the fault of an access that the key does not permit.
pub fn access_violation() -> Fault {
    Fault {
        statuses: Statuses::of(abi::IBV_WC_REM_ACCESS_ERR),
        event: EventKind::QpAccessError,
    }
}

impl World {
    /// Returns whether there is a receive request for this message.
    pub fn has_receive(&self, responder: QpId, wr: &SendWr) -> bool {
        let qp = &self.qps[&responder];
        match self.receive_source(responder, wr) {
            Some(srq) => !self.srqs[&srq].queue.is_empty(),
            None => !qp.rq.is_empty(),
        }
    }

    /// Returns the receive requests available to a request.
    pub fn receives_for(&self, responder: QpId, wr: &SendWr) -> impl Iterator<Item = &RecvWr> {
        match self.receive_source(responder, wr) {
            Some(srq) => self.srqs[&srq].queue.iter(),
            None => self.qps[&responder].rq.iter(),
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

    /// Handles the first packet: checks the request and takes a receive request. With `alone`
    /// nothing else happens before the answer.
    ///
    /// # Errors
    ///
    /// The answer to a request that is refused or must be retried.
    pub fn accept(
        &mut self,
        id: QpId,
        responder: QpId,
        wr: &SendWr,
        alone: bool,
        choices: &mut Choices,
    ) -> Result<(), Answer> {
        let reliable = self.qps[&responder].reliable();
        let fault = self.remote_fault(responder, wr);
        let wants_receive = takes_receive(&wr.operation);
        let lacks_receive = wants_receive && !self.has_receive(responder, wr);
        let may_wait_for_ever = reliable && self.qps[&id].rnr_retry == 7;
        let places = matches!(wr.operation, Operation::WriteImm { .. });
        if places && fault.is_none() && !alone && choices.pick(2) == 1 {
            // The data may be written before the last packet needs a receive, and the responder may
            // end in between.
            self.disturb_memory(responder, wr);
            return Err(Answer::Postponed);
        }
        let fault_first =
            fault.is_some() && (!lacks_receive || may_wait_for_ever || choices.pick(2) == 0);
        if lacks_receive && !fault_first {
            // A write's data may be written before its immediate finds no receive (9.7.5.2.8).
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
            // A message of several packets is refused at its first packet, and takes its receive
            // request at its last. The shared queue of an XRC request may belong to another
            // process, which is notified when the data is complete: the specification does not
            // require that it loses a receive before.
            let late = wr.length() > PATH_MTU || wr.srq.is_some();
            // An operation that the queue pair does not permit may be refused before the check for
            // a receive request (9.7.4.1 checks the operation first, and so does rxe), or after it,
            // like other writes.
            let may_keep = late || fault.statuses.allows(abi::IBV_WC_REM_INV_REQ_ERR);
            let receive = (wants_receive && !lacks_receive && !(may_keep && choices.pick(2) == 0))
                .then(|| Statuses::of(abi::IBV_WC_LOC_ACCESS_ERR));
            if receive.is_some() {
                self.take_receive(responder, wr);
            }
            self.responder_error(responder, &fault, receive, choices);
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

    /// Returns whether a request that waits for a receive may still change memory.
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

    /// Returns whether a message does not fit the receive request that it would take.
    pub fn too_long(&self, responder: QpId, wr: &SendWr) -> bool {
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

    /// Raises the limit event once, if fewer requests are left than the limit (10.2.9.1).
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

    /// Fails the responder: the current receive request completes with these statuses, the others
    /// are flushed, and an event may report the reason (9.9.3.1, class C).
    pub fn responder_error(
        &mut self,
        id: QpId,
        fault: &Fault,
        receive: Option<Statuses>,
        choices: &mut Choices,
    ) {
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
        self.make_requests_late(id);
        self.flush_silent(id, choices);
        self.to_error(id);
    }

    /// Makes the bytes that a request changes undefined while it is executed.
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

    /// Makes the memory of a write undefined.
    pub fn disturb_memory(&mut self, responder: QpId, wr: &SendWr) {
        if let Operation::Write { to } | Operation::WriteImm { to, .. } = &wr.operation {
            let owner = self.qp(responder).owner;
            self.arena(owner)
                .replace(to.at, &Bytes::of(wr.length(), Source::Unknown));
        }
    }

    /// Returns bytes of the responder's memory.
    pub fn read_remote(&mut self, responder: QpId, from: &Remote, len: u32) -> Bytes {
        let owner = self.qp(responder).owner;
        let end = from.at.saturating_add(len).min(self.arena(owner).len());
        self.arena(owner).slice(from.at..end)
    }

    /// Handles the last packet: executes the request, if all checks still pass.
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
            self.responder_error(responder, &fault, receive, choices);
            return Answer::Failed(fault.statuses);
        }
        let owner = self.qp(responder).owner;
        // The result of a transfer between overlapping ranges is not specified.
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
                self.change(owner, to.at, data);
                Answer::Executed(None)
            }
            Operation::WriteImm { to, imm } => {
                self.change(owner, to.at, data);
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

    /// Returns whether source and destination overlap, which is possible within one process.
    fn overlaps(&self, id: QpId, responder: QpId, wr: &SendWr) -> bool {
        let there = &self.qps[&responder];
        // The sender of a late message may no longer exist.
        if self
            .qps
            .get(&id)
            .is_none_or(|here| here.owner != there.owner)
        {
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
        self.change(owner, at.at, &Bytes::of(ATOMIC_BYTES, new));
        Answer::Executed(Some(old))
    }

    /// Changes memory by a peer's request. A write that has placed its data and waits for a receive
    /// need not place it again, so after its completion the bytes are undefined even if this change
    /// is known.
    fn change(&mut self, owner: ProcessId, at: u32, bytes: &Bytes) {
        self.arena(owner).replace(at, bytes);
        let end = at + bytes.len();
        let waits = |id: &QpId, wqe: &Wqe| {
            let Operation::WriteImm { to, .. } = &wqe.wr.operation else {
                return false;
            };
            let responder = self.responder(*id, &wqe.wr);
            matches!(wqe.phase, Phase::Postponed { changed: false })
                && to.at < end
                && at < to.at + wqe.wr.length()
                && responder.is_some_and(|responder| self.qps[&responder].owner == owner)
        };
        let requests = self
            .qps
            .iter()
            .flat_map(|(id, qp)| qp.sq.iter().enumerate().map(move |at| (*id, at)));
        let waiting: Vec<(QpId, usize)> = requests
            .filter(|(id, (_, wqe))| waits(id, wqe))
            .map(|(id, (index, _))| (id, index))
            .collect();
        for (id, index) in waiting {
            self.qp(id).sq[index].phase = Phase::Postponed { changed: true };
        }
    }
}

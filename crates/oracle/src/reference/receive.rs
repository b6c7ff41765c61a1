//! Delivery of a message into the receive request taken for it (9.7.5.1, 9.9.3).

use super::choice::Choices;
use super::memory::{Bytes, Source};
use super::object::{Answer, Current, World};
use super::outcome::{Carried, Completion, EventKind, SUCCESS, Side, Statuses};
use super::responder::{Fault, GRH_BYTES, access_violation};
use crate::program::{Key, PdId, QpId, RecvWr, Service};
use verbena_abi as abi;

/// Returns the ranges of a message of this length in a receive request.
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

impl World {
    /// Completes a receive request with success; `places` are the message's ranges.
    pub fn complete_receive(
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

    /// Delivers a message into its receive request.
    pub fn receive(
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

    /// Places a message, or fails as the specification requires for an invalid request.
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
        // The keys of a shared receive queue's requests are checked against its domain.
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
        self.responder_error(responder, &fault, Some(Statuses::of(receive)), choices);
        Err(if reliable {
            Answer::Failed(fault.statuses)
        } else {
            Answer::Executed(None)
        })
    }

    fn domain_of(&self, current: &Current) -> Option<PdId> {
        // XRC: the request came from the shared receive queue with this completion queue.
        let of = |srq: &&super::object::Srq| srq.xrc.is_some_and(|(_, cq)| cq == current.cq);
        self.srqs.values().find(of).map(|srq| srq.pd)
    }

    /// Delivers a message that also invalidates a window. If that is not permitted, the receive
    /// request fails without a NAK to the requester, because the acknowledgement may have been sent
    /// before (class J).
    pub fn receive_invalidating(
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
        self.responder_error(responder, &access_violation(), Some(statuses), choices);
        match choices.pick(2) {
            0 => Answer::Executed(None),
            _ => Answer::Failed(Statuses::of(abi::IBV_WC_RETRY_EXC_ERR)),
        }
    }
}

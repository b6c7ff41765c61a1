//! Messages that nobody waits for any more, and that may still arrive.
//!
//! Of unreliable services: those that found nobody to take them, or no receive request, may be lost, and they may only be
//! late; so may those that are complete for their sender while others make calls. Nothing tells how long a fabric keeps a
//! packet, so such a message may still arrive in a later step, as long as its sender's later messages have not overtaken
//! it: a path delivers in order.
//!
//! Of reliable ones: what is on its way to the peer when its queue pair fails as a responder is flushed, and may have been
//! executed or not (10.3.1.7: what flushed requests have done is not known). That is so within a step of concurrent calls.

use super::choice::Choices;
use super::memory::Bytes;
use super::object::{Answer, Phase, World};
use super::requester::{brings_back, takes_receive};
use crate::program::{QpId, SendWr, Service};

/// More are not followed: then the oldest is lost.
const MOST: usize = 4;

/// A message that may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    /// Who sent it, which may be gone since.
    from: QpId,
    /// Where it goes.
    to: QpId,
    service: Service,
    /// The first packet number of its connection.
    psn: u32,
    wr: SendWr,
    /// What it carries.
    data: Bytes,
    /// Whether the responder has begun with it: then it has its receive request.
    begun: bool,
}

impl World {
    /// A message that nobody has taken may be taken later, if its service lets it be lost.
    pub fn perhaps_later(&mut self, id: QpId, wr: &SendWr, data: &Bytes) {
        let qp = &self.qps[&id];
        let to = match qp.service {
            Service::Ud => wr.to,
            Service::Uc => qp.peer,
            _ => None,
        };
        let Some(to) = to.filter(|to| self.qps.contains_key(to)) else {
            return;
        };
        let late = Late {
            from: id,
            to,
            service: qp.service,
            psn: qp.sq_psn,
            wr: wr.clone(),
            data: data.clone(),
            begun: false,
        };
        self.late
            .retain(|earlier| self.qps.contains_key(&earlier.to));
        if self.late.len() == MOST {
            self.late.remove(0);
        }
        self.late.push(late);
    }

    /// A queue pair is about to be flushed, for it has failed as a responder: what it has sent is on its way.
    pub fn leave_on_the_way(&mut self, id: QpId) {
        let qp = &self.qps[&id];
        let answered = |phase: &Phase| matches!(phase, Phase::Answered(_));
        let failed = |phase: &Phase| matches!(phase, Phase::Answered(Answer::Failed(_)));
        if !qp.reliable() || qp.sq.iter().any(|wqe| failed(&wqe.phase)) {
            return;
        }
        let first = qp.sq.iter().take_while(|wqe| answered(&wqe.phase)).count();
        let mut sent = Vec::new();
        for index in first..qp.sq.len().min(first + MOST) {
            let wqe = &qp.sq[index];
            let Some(to) = self
                .responder(id, &wqe.wr)
                .filter(|_| self.is_sent(id, index))
            else {
                break;
            };
            let (begun, data) = match &wqe.phase {
                Phase::Begun(captured) => (true, captured.clone()),
                _ if brings_back(&wqe.wr.operation) => (false, Bytes::default()),
                _ => (false, self.gather(id, wqe)),
            };
            sent.push(Late {
                from: id,
                to,
                service: qp.service,
                psn: qp.sq_psn,
                wr: wqe.wr.clone(),
                data,
                begun,
            });
        }
        self.late.extend(sent);
    }

    /// A step is over, and with it everything of a reliable service that was on its way.
    pub fn nothing_is_on_the_way(&mut self) {
        self.late.retain(|late| !late.is_reliable());
    }

    /// A message of a sender has arrived: what was on its way before is lost.
    pub fn overtake(&mut self, from: QpId, to: QpId) {
        self.late.retain(|late| late.from != from || late.to != to);
    }

    /// Whether a message would do anything if it arrived now.
    pub fn can_arrive(&self, index: usize) -> bool {
        let late = &self.late[index];
        let Some(there) = self.qps.get(&late.to) else {
            return false;
        };
        if late.is_reliable() {
            let before = &self.late[..index];
            let is_next = before
                .iter()
                .all(|other| (other.from, other.to) != (late.from, late.to));
            let connected = there.peer == Some(late.from) && there.rq_psn == late.psn;
            let received = match late.begun {
                true => !takes_receive(&late.wr.operation) || there.current.is_some(),
                false => !takes_receive(&late.wr.operation) || self.has_receive(late.to, &late.wr),
            };
            return is_next && connected && there.receives() && received;
        }
        let connected = late.service == Service::Ud
            || there.peer == Some(late.from) && there.rq_psn == late.psn;
        there.receives()
            && there.service == late.service
            && connected
            && self.remote_fault(late.to, &late.wr).is_none()
            && (!takes_receive(&late.wr.operation)
                || self.has_receive(late.to, &late.wr) && !self.too_long(late.to, &late.wr))
    }

    /// It arrives.
    pub fn arrive(&mut self, index: usize, choices: &mut Choices) {
        let Late {
            from,
            to,
            wr,
            data,
            begun,
            ..
        } = self.late.remove(index);
        let mut before = index;
        self.late.retain(|other| {
            let is_before = before > 0;
            before = before.saturating_sub(1);
            !(is_before && other.from == from && other.to == to)
        });
        if begun || self.accept(from, to, &wr, true, choices).is_ok() {
            self.execute(from, to, &wr, &data, choices);
        }
    }
}

impl Late {
    fn is_reliable(&self) -> bool {
        !matches!(self.service, Service::Ud | Service::Uc)
    }
}

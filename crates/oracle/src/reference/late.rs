//! Late messages: no request waits for them any more, but they may still arrive.
//!
//! Unreliable services: a message without a responder or a receive may be lost, or may only be
//! late; so may a message whose sender has completed it while other calls are made. The time that a
//! fabric keeps a packet is not bounded, so such a message may still arrive in a later step, until
//! a later message of the same sender overtakes it: a path delivers in order.
//!
//! Reliable services: if a queue pair fails as a responder, its requests in flight to the peer are
//! flushed, and may have been executed or not (10.3.1.7: the effect of flushed requests is
//! unknown). This applies within a step of concurrent calls. Such a message may also end in the
//! middle: then the buffers of the next receive have some of its bytes, and the receive is still
//! posted (its buffers are undefined until it completes).

use super::choice::Choices;
use super::memory::Bytes;
use super::object::{Answer, Phase, World};
use super::requester::{brings_back, takes_receive};
use crate::program::{QpId, SendWr, Service};

/// Limit of late messages; beyond it the oldest is lost.
const MOST: usize = 4;

/// A late message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Late {
    /// The sender, which may no longer exist.
    from: QpId,
    /// The destination.
    to: QpId,
    service: Service,
    /// The connection's initial PSN.
    psn: u32,
    wr: SendWr,
    /// Its data.
    data: Bytes,
    /// Whether the responder has begun it and so has taken its receive request.
    begun: bool,
}

impl World {
    /// Makes a message that was not received a late one, if its service may lose it.
    pub fn keep_as_late(&mut self, id: QpId, wr: &SendWr, data: &Bytes) {
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

    /// Makes the requests in flight of a queue pair late messages, before it is flushed because it
    /// failed as a responder.
    pub fn make_requests_late(&mut self, id: QpId) {
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

    /// Drops late messages of reliable services at the end of a step.
    pub fn drop_late_reliable(&mut self) {
        self.late.retain(|late| !late.is_reliable());
    }

    /// Drops the sender's earlier late messages to this destination: a newer one has arrived.
    pub fn overtake(&mut self, from: QpId, to: QpId) {
        self.late.retain(|late| late.from != from || late.to != to);
    }

    /// Returns whether a message would have an effect if it arrived now.
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

    /// Delivers a late message.
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
        let may_end = !begun && !matches!(self.qps[&to].service, Service::Ud | Service::Uc);
        if may_end && choices.pick(2) == 1 {
            return self.end_in_the_middle(from, to, &wr, choices);
        }
        if begun || self.accept(from, to, &wr, true, choices).is_ok() {
            self.execute(from, to, &wr, &data, choices);
        }
    }
}

impl World {
    /// Ends a message while it arrives: only memory may have changed, and no later message of the
    /// sender arrives.
    fn end_in_the_middle(&mut self, from: QpId, to: QpId, wr: &SendWr, choices: &mut Choices) {
        self.overtake(from, to);
        let mut begun = self.clone();
        if begun.accept(from, to, wr, true, choices).is_ok() {
            begun.disturb(to, wr);
            self.memory = begun.memory;
        }
    }
}

impl Late {
    fn is_reliable(&self) -> bool {
        !matches!(self.service, Service::Ud | Service::Uc)
    }
}

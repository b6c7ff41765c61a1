//! Messages of unreliable services that found nobody to take them, or no receive request: they may be lost, and they may
//! only be late. Nothing tells how long a fabric keeps a packet, so such a message may still arrive in a later step, as
//! long as its sender's later messages have not overtaken it: a path delivers in order.

use super::choice::Choices;
use super::memory::Bytes;
use super::object::World;
use super::requester::takes_receive;
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
        };
        self.late
            .retain(|earlier| self.qps.contains_key(&earlier.to));
        if self.late.len() == MOST {
            self.late.remove(0);
        }
        self.late.push(late);
    }

    /// A message of a sender has arrived: what was on its way before is lost.
    pub fn overtake(&mut self, from: QpId, to: QpId) {
        self.late.retain(|late| late.from != from || late.to != to);
    }

    /// Whether a message would do anything if it arrived now.
    pub fn can_arrive(&self, late: &Late) -> bool {
        let Some(there) = self.qps.get(&late.to) else {
            return false;
        };
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
            from, to, wr, data, ..
        } = self.late.remove(index);
        let mut before = index;
        self.late.retain(|other| {
            let is_before = before > 0;
            before = before.saturating_sub(1);
            !(is_before && other.from == from && other.to == to)
        });
        if self.accept(from, to, &wr, true, choices).is_ok() {
            self.execute(from, to, &wr, &data, choices);
        }
    }
}

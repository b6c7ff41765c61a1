//! Bursts of short messages over reliable connections, one after the other and in lists, sometimes
//! beside a call that ends the connection. An adapter may have a faster way for them once a
//! connection has sent some, so they need programs that stay on one connection.

use super::{Class, Generator, MOST_OUTSTANDING, Pair, RECEIVES};
use crate::program::{Action, Call, Flags, Operation, QpId, RecvWr, SendWr, Service, Sge, Step};
use crate::program::{Key, ProcessId, Target};
use crate::reference::object::{Qp, State};

/// Most bytes of a message.
const LONGEST: u32 = 60;
/// Bytes of a receive buffer.
const SPACE: u32 = 64;

impl Generator {
    /// Adds a burst.
    pub(super) fn short(&mut self) {
        let connected = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            let peer = qp.peer.and_then(|peer| self.world.qps.get(&peer));
            qp.service == Service::Rc
                && peer.is_some_and(|peer| peer.srq.is_none() && peer.state == State::Rts)
        };
        let ready = self.qps_in(&[State::Rts]);
        let ready: Vec<QpId> = ready.into_iter().filter(connected).collect();
        let Some(qp) = self.random.among(&ready) else {
            return self.reconnect();
        };
        let peer = self.world.qps[&qp].peer.expect("it is connected");
        let (by, to) = (self.owner(qp), self.owner(peer));
        self.burst((by, qp), (to, peer));
        self.replace_after(qp, peer);
    }

    /// Replaces the connection behind a burst, sometimes, while the receiver is stopped: its next
    /// connection finds a message of the old one.
    fn replace_after(&mut self, qp: QpId, peer: QpId) {
        let allowed = self.allows(Class::Pauses) && self.allows(Class::Resets);
        let is_idle = |id: &QpId, queue: fn(&Qp) -> bool| {
            let found = self.world.qps.get(id);
            found.is_some_and(|qp| qp.state == State::Rts && queue(qp))
        };
        let are_idle = is_idle(&qp, |qp| qp.sq.is_empty())
            && is_idle(&peer, |qp| qp.rq.is_empty() && qp.sq.is_empty());
        if !allowed || self.lost || !are_idle || self.owner(qp) == self.owner(peer) {
            return;
        }
        if self.random.percent(30) {
            let pair = Pair {
                first: qp,
                second: peer,
                service: Service::Rc,
            };
            self.replace(pair, Vec::new());
        }
    }

    fn burst(&mut self, (by, qp): (ProcessId, QpId), (to, peer): (ProcessId, QpId)) {
        for _ in 0..1 + self.random.below(6) {
            let is_used = |qp: &QpId| match self.world.qps.get(qp) {
                Some(qp) => qp.state != State::Rts || qp.sq.len() + 4 > MOST_OUTSTANDING,
                None => true,
            };
            if self.lost || is_used(&qp) || is_used(&peer) {
                return;
            }
            let count = 1 + self.random.below(3);
            let is_late = self.allows(Class::Rnr) && self.random.percent(10);
            if !is_late && self.world.qps[&peer].rq.len() + 3 <= MOST_OUTSTANDING {
                let wrs = (0..count).map(|_| self.short_receive(to)).collect();
                self.write(to, Action::PostRecv { qp: peer, wrs });
            }
            let wrs = (0..count).map(|_| self.short_send(by)).collect();
            let action = Action::PostSend { qp, wrs };
            match self.end_of_connection((by, qp), (to, peer)) {
                None => self.write(by, action),
                Some(end) => {
                    let send = Call { by, action };
                    let calls = vec![send, end];
                    return self.write_step(Step { calls });
                }
            }
        }
    }

    /// Returns a call that ends a connection, seldom.
    fn end_of_connection(
        &mut self,
        sender: (ProcessId, QpId),
        receiver: (ProcessId, QpId),
    ) -> Option<Call> {
        if !self.allows(Class::Together) || !self.random.percent(12) {
            return None;
        }
        let (by, qp) = match self.random.percent(50) {
            true => sender,
            false => receiver,
        };
        let to = match self.random.percent(50) {
            true if self.allows(Class::Errors) => Target::Err,
            false if self.allows(Class::Resets) => Target::Reset,
            _ => return None,
        };
        let action = Action::Modify { qp, to };
        Some(Call { by, action })
    }

    fn short_receive(&mut self, by: ProcessId) -> RecvWr {
        let id = self.request();
        let at = RECEIVES + (id as u32 % SPACE) * SPACE;
        let key = Key::Mr(self.basics[usize::from(by.0)].mr);
        RecvWr {
            id,
            sges: vec![Sge {
                at,
                len: SPACE,
                key,
            }],
        }
    }

    fn short_send(&mut self, by: ProcessId) -> SendWr {
        let len = 1 + self.random.below(LONGEST);
        let at = self.random.below(RECEIVES - SPACE);
        let key = Key::Mr(self.basics[usize::from(by.0)].mr);
        let operation = match self.random.percent(70) {
            true => Operation::Send {},
            false => Operation::SendImm {
                imm: self.random.number() as u32,
            },
        };
        let mut flags = Flags::NONE;
        for (cases, flag) in [
            (80, Flags::SIGNALED),
            (10, Flags::SOLICITED),
            (50, Flags::INLINE),
        ] {
            if self.random.percent(cases) && (flag != Flags::INLINE || self.allows(Class::Inline)) {
                flags = flags | flag;
            }
        }
        SendWr {
            id: self.request(),
            operation,
            sges: vec![Sge { at, len, key }],
            flags,
            to: None,
            srq: None,
        }
    }
}

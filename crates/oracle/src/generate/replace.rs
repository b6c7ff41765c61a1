//! Connections that are replaced while the peer is stopped: messages of the old connection must not
//! arrive on the new one.

use super::together::LARGE;
use super::{ARENA, EVERYTHING, Generator, Pair};
use crate::program::{
    Action, Call, Flags, Key, Operation, ProcessId, QpId, RecvWr, SendWr, Service, Sge, Step,
    Target,
};
use crate::reference::object::State;

impl Generator {
    /// Replaces a connection; the peer finds the message as soon as it continues.
    pub(super) fn replace_connection(&mut self) {
        let found = self.idle_connections();
        let Some(pair) = self.random.among(&found) else {
            return;
        };
        self.begin_without_receives(pair);
        self.replace(pair, Vec::new());
    }

    /// Replaces a connection while the peer handles a long message, so that it finds the message
    /// behind it after it has replaced the connection.
    pub(super) fn replace_behind_a_long_message(&mut self) {
        let found = self.idle_connections();
        let Some(pair) = self.random.among(&found) else {
            return;
        };
        let beside = |other: &&Pair| {
            other.first != pair.first
                && self.owner(other.first) == self.owner(pair.first)
                && self.owner(other.second) == self.owner(pair.second)
                && self.world.qps[&other.second].rq.is_empty()
        };
        let others: Vec<Pair> = found.iter().filter(beside).copied().collect();
        let Some(busy) = self.random.among(&others) else {
            return;
        };
        self.begin_without_receives(pair);
        let (from, to) = (self.owner(busy.first), self.owner(busy.second));
        let recv = RecvWr {
            id: self.request(),
            sges: self.half(to, ARENA + LARGE / 2),
        };
        self.write(
            to,
            Action::PostRecv {
                qp: busy.second,
                wrs: vec![recv],
            },
        );
        let long = SendWr {
            id: self.request(),
            operation: Operation::Send {},
            sges: self.half(from, ARENA),
            flags: Flags::SIGNALED,
            to: None,
            srq: None,
        };
        let call = Call {
            by: from,
            action: Action::PostSend {
                qp: busy.first,
                wrs: vec![long],
            },
        };
        self.replace(pair, vec![call]);
    }

    /// Returns half of the bytes for large transfers.
    fn half(&self, owner: ProcessId, at: u32) -> Vec<Sge> {
        let key = Key::Mr(self.basics[usize::from(owner.0)].mr);
        let len = LARGE / 2;
        vec![Sge { at, len, key }]
    }

    /// Returns reliable connections between different processes with nothing outstanding.
    fn idle_connections(&self) -> Vec<Pair> {
        let is_idle = |pair: &&Pair| {
            let ends = (
                self.world.qps.get(&pair.first),
                self.world.qps.get(&pair.second),
            );
            let (Some(first), Some(second)) = ends else {
                return false;
            };
            pair.service == Service::Rc
                && first.owner != second.owner
                && first.state == State::Rts
                && second.state == State::Rts
                && first.sq.is_empty()
                && second.sq.is_empty()
                && second.srq.is_none()
        };
        self.pairs.iter().filter(is_idle).copied().collect()
    }

    /// Reconnects a pair without receives, so that messages stay in flight.
    fn begin_without_receives(&mut self, pair: Pair) {
        for qp in [pair.first, pair.second] {
            let by = self.owner(qp);
            let to = Target::Reset;
            self.write(by, Action::Modify { qp, to });
        }
        self.connect(pair.first, pair.second);
    }

    /// Adds one step: while the peer is stopped, `before` is executed, a message is sent, and both
    /// queue pairs are reconnected.
    pub(super) fn replace(&mut self, pair: Pair, before: Vec<Call>) {
        if self.world.qps[&pair.first].state != State::Rts {
            return;
        }
        let (awake, asleep) = (self.owner(pair.first), self.owner(pair.second));
        let sent = self.send_action(pair.first, Some(0));
        let received = self.receive_action(asleep, pair.second);
        let (one, two) = (self.random.below(1 << 24), self.random.below(1 << 24));
        let mut calls = vec![Call {
            by: asleep,
            action: Action::Pause {},
        }];
        calls.extend(before);
        calls.push(Call {
            by: awake,
            action: sent,
        });
        calls.extend(again(awake, pair.first, pair.second, two, one));
        calls.extend(again(asleep, pair.second, pair.first, one, two));
        calls.push(Call {
            by: asleep,
            action: received,
        });
        self.write_step(Step { calls });
    }
}

/// Moves a queue pair through RESET to RTS.
fn again(by: ProcessId, qp: QpId, peer: QpId, receive: u32, send: u32) -> [Call; 4] {
    let to = Target::Reset;
    let (rnr_timer, retry, rnr_retry) = (1, 2, 7);
    [
        Action::Modify { qp, to },
        Action::Init {
            qp,
            access: EVERYTHING,
        },
        Action::Rtr {
            qp,
            peer,
            psn: receive,
            rnr_timer,
        },
        Action::Rts {
            qp,
            psn: send,
            retry,
            rnr_retry,
        },
    ]
    .map(|action| Call { by, action })
}

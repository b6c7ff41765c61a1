//! Steps of several concurrent calls.

use super::{ARENA, Class, Generator, MOST_OUTSTANDING};
use crate::program::{
    Action, Call, Flags, Key, MrId, Operation, ProcessId, QpId, Remote, SendWr, Service, Sge, Step,
    Target,
};
use crate::reference::object::State;

/// Additional bytes in a program of large transfers: half are sources, half targets.
pub const LARGE: u32 = 8 << 20;

/// Number of separate byte ranges for concurrent calls.
const STRIPES: u32 = 8;

impl Generator {
    /// Adds two or three concurrent calls on separate bytes.
    pub(super) fn together(&mut self) {
        let sleeps = self.allows(Class::Pauses) && self.allows(Class::Resets);
        if sleeps && self.random.percent(15) {
            return self.replace_connection();
        }
        let count = 2 + self.random.below(2);
        let mut calls: Vec<Call> = Vec::new();
        let mut stripe = self.random.below(STRIPES);
        for _ in 0..count {
            stripe = (stripe + 1) % STRIPES;
            if let Some(call) = self.concurrent_call(stripe, &calls) {
                calls.push(call);
            }
        }
        if self.allows(Class::Pauses)
            && self.random.percent(15)
            && let Some(by) = self.process()
            && !calls.iter().any(|call| call.by == by)
        {
            calls.push(Call {
                by,
                action: Action::Pause {},
            });
        }
        if calls.len() > 1 {
            self.write_step(Step { calls });
        }
    }

    fn concurrent_call(&mut self, stripe: u32, others: &[Call]) -> Option<Call> {
        let ready = self.qps_in(&[State::Rts]);
        let usable = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            qp.service != Service::XrcReceive && qp.sq.len() < MOST_OUTSTANDING
        };
        let ready: Vec<QpId> = ready.into_iter().filter(usable).collect();
        let qp = self.random.among(&ready)?;
        let by = self.owner(qp);
        let own_queue = self.world.qps[&qp].srq.is_none()
            && !matches!(self.world.qps[&qp].service, Service::XrcSend);
        let action = match self.random.below(10) {
            0..=5 => self.send_action(qp, Some(stripe)),
            6..=7 if own_queue => self.receive_action(by, qp),
            8 if self.allows(Class::Errors) => Action::Modify {
                qp,
                to: Target::Err,
            },
            _ if self.random.percent(10) && self.allows(Class::Regions) => {
                let (pd, mr) = (self.basics[usize::from(by.0)].pd, MrId(self.number()));
                Action::RegMr {
                    mr,
                    pd,
                    at: 0,
                    len: 4096,
                    access: super::EVERYTHING,
                }
            }
            _ if self.random.percent(20) => self.new_qp(by),
            _ if self.random.percent(5) && self.allows(Class::Kills) && self.living().len() > 1 => {
                Action::Kill {}
            }
            9 if self.allows(Class::Resets) => Action::Modify {
                qp,
                to: Target::Reset,
            },
            _ => return None,
        };
        let same = |call: &&Call| {
            call.action.name() == action.name() && !matches!(action, Action::PostSend { .. })
        };
        if others.iter().any(|call| same(&call)) {
            return None;
        }
        Some(Call { by, action })
    }

    fn new_qp(&mut self, by: ProcessId) -> Action {
        let basics = self.basics[usize::from(by.0)].clone();
        Action::CreateQp {
            qp: QpId(self.number()),
            service: Service::Rc,
            pd: basics.pd,
            send_cq: basics.cqs[0],
            recv_cq: basics.cqs[0],
            srq: None,
            all_signaled: false,
        }
    }

    /// Adds large transfers that another call interrupts. The interrupting process then writes to
    /// the memory at once; after that, peers must not.
    pub(super) fn races(&mut self) {
        let rounds = 1 + self.random.below(4);
        for _ in 0..rounds {
            match self.random.below(10) {
                0..=5 => self.race(),
                6..=7 => self.large_message(),
                _ if self.allows(Class::Pauses) && self.allows(Class::Resets) => {
                    self.replace_behind_a_long_message();
                }
                _ => {}
            }
            self.reconnect();
        }
    }

    fn race(&mut self) {
        let connected = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            let peer = qp.peer.and_then(|peer| self.world.qps.get(&peer));
            qp.service == Service::Rc && peer.is_some_and(|peer| peer.owner != qp.owner)
        };
        let ready: Vec<QpId> = self
            .qps_in(&[State::Rts])
            .into_iter()
            .filter(connected)
            .collect();
        let Some(qp) = self.random.among(&ready) else {
            return;
        };
        let peer = self.world.qps[&qp].peer.expect("it is connected");
        let (by, target) = (self.owner(qp), self.owner(peer));
        let half = LARGE / 2;
        let extra = self.large_region(target);
        let wr = SendWr {
            id: self.request(),
            operation: Operation::Write {
                to: Remote {
                    at: ARENA + half,
                    key: Key::Mr(extra),
                },
            },
            sges: vec![Sge {
                at: ARENA,
                len: half,
                key: Key::Mr(self.basics[usize::from(by.0)].mr),
            }],
            flags: Flags::SIGNALED,
            to: None,
            srq: None,
        };
        let write = Action::PostSend { qp, wrs: vec![wr] };
        let ends = [
            Action::Modify {
                qp: peer,
                to: Target::Err,
            },
            Action::Modify {
                qp: peer,
                to: Target::Reset,
            },
            Action::SetAccess {
                qp: peer,
                access: crate::program::Access::REMOTE_READ,
            },
            Action::DeregMr { mr: extra },
            Action::DestroyQp { qp: peer },
        ];
        let end = self.random.among(&ends).expect("there are some");
        let tag = 100 + self.random.below(1 << 20);
        let fill = Action::Fill {
            at: ARENA + half,
            len: half,
            tag,
        };
        let mut calls = vec![Call { by, action: write }];
        let us = self.random.below(300);
        calls.push(Call {
            by: target,
            action: Action::Spin { us },
        });
        calls.push(Call {
            by: target,
            action: end,
        });
        calls.push(Call {
            by: target,
            action: fill,
        });
        self.write_step(Step { calls });
    }

    /// Adds a message of a megabyte that the receiver reads as soon as its completion arrives.
    fn large_message(&mut self) {
        let connected = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            let peer = qp.peer.and_then(|peer| self.world.qps.get(&peer));
            let fits = |peer: &crate::reference::object::Qp| {
                peer.owner != qp.owner && peer.srq.is_none() && peer.rq.is_empty()
            };
            qp.service == Service::Rc && peer.is_some_and(fits)
        };
        let ready: Vec<QpId> = self
            .qps_in(&[State::Rts])
            .into_iter()
            .filter(connected)
            .collect();
        let Some(qp) = self.random.among(&ready) else {
            return;
        };
        let peer = self.world.qps[&qp].peer.expect("it is connected");
        let (by, target) = (self.owner(qp), self.owner(peer));
        let half = LARGE / 2;
        let len = half >> self.random.below(8);
        let tag = 100 + self.random.below(1 << 20);
        self.write(
            by,
            Action::Fill {
                at: ARENA,
                len,
                tag,
            },
        );
        let place = |at, owner: &ProcessId| {
            let key = Key::Mr(self.basics[usize::from(owner.0)].mr);
            vec![Sge { at, len, key }]
        };
        let (from, to) = (place(ARENA, &by), place(ARENA + half, &target));
        let wr = crate::program::RecvWr {
            id: self.request(),
            sges: to,
        };
        self.write(
            target,
            Action::PostRecv {
                qp: peer,
                wrs: vec![wr],
            },
        );
        let imm = self.random.number() as u32;
        let key = Key::Mr(self.basics[usize::from(target.0)].mr);
        let to = Remote {
            at: ARENA + half,
            key,
        };
        let operation = match self.random.below(2) {
            0 => Operation::Send {},
            _ => Operation::WriteImm { to, imm },
        };
        let flags = Flags::SIGNALED;
        let wr = SendWr {
            id: self.request(),
            operation,
            sges: from,
            flags,
            to: None,
            srq: None,
        };
        self.write(by, Action::PostSend { qp, wrs: vec![wr] });
    }

    /// Registers a region of the target half alone, so that the first region stays.
    fn large_region(&mut self, by: ProcessId) -> crate::program::MrId {
        let mr = crate::program::MrId(self.number());
        let pd = self.basics[usize::from(by.0)].pd;
        let half = LARGE / 2;
        self.write(
            by,
            Action::RegMr {
                mr,
                pd,
                at: ARENA + half,
                len: half,
                access: super::EVERYTHING,
            },
        );
        mr
    }
}

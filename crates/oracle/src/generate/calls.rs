//! Steps of one call.

use super::{ARENA, Class, EVERYTHING, Generator, LOOSE, TARGETS};
use crate::program::{
    Access, Action, Flags, Key, MrId, MwId, Operation, PdId, ProcessId, QpId, SendWr, Service,
    Target, WindowType,
};
use crate::reference::object::State;

impl Generator {
    /// Adds one step, or a few that belong together.
    pub(super) fn any_step(&mut self) {
        if self.lost || self.living().is_empty() {
            return;
        }
        match self.random.below(100) {
            0..=9 if self.allows(Class::Short) => self.short(),
            0..=49 => self.send(),
            50..=64 => self.receive(),
            65..=71 => self.change_state(),
            72..=75 if self.allows(Class::Regions) => self.region(),
            76..=77 if self.allows(Class::Rereg) => self.reregister(),
            78..=83 if self.allows(Class::Windows) => self.window(),
            84..=85 if self.allows(Class::Srq) => self.limit(),
            86..=87 if self.allows(Class::Destroy) => self.destroy(),
            88 => self.add_pair(),
            89 => self.process_event(),
            90..=95 if self.allows(Class::Together) => self.together(),
            96..=97 => self.fill(),
            _ => self.reconnect(),
        }
    }

    fn fill(&mut self) {
        let Some(by) = self.process() else { return };
        let len = 1 + self.random.below(512);
        let at = match self.random.below(4) {
            0 => self.program.arena - LOOSE + self.random.below(LOOSE - len),
            _ => self.random.below(ARENA / 2),
        };
        let tag = 100 + self.random.below(1 << 20);
        self.write(by, Action::Fill { at, len, tag });
    }

    fn process_event(&mut self) {
        let Some(by) = self.process() else { return };
        let last = self.living().len() < 2;
        match self.random.below(4) {
            0 if self.allows(Class::Kills) && !last => self.write(by, Action::Kill {}),
            1 if self.allows(Class::Pages) => {
                let at = self.program.arena - LOOSE + self.random.below(2) * 4096;
                self.write(by, Action::DontNeed { at, len: 4096 });
            }
            2 | 3 if self.allows(Class::Forks) => self.write(by, Action::Fork {}),
            _ => {}
        }
    }

    fn change_state(&mut self) {
        let all: Vec<QpId> = self.world.qps.keys().copied().collect();
        let Some(qp) = self.random.among(&all) else {
            return;
        };
        let by = self.owner(qp);
        let state = self.world.qps[&qp].state;
        let service = self.world.qps[&qp].service;
        match self.random.below(10) {
            0..=1 if self.allows(Class::Errors) => {
                self.write(
                    by,
                    Action::Modify {
                        qp,
                        to: Target::Err,
                    },
                );
            }
            2..=3 if self.allows(Class::Resets) => {
                self.write(
                    by,
                    Action::Modify {
                        qp,
                        to: Target::Reset,
                    },
                );
                if self.random.percent(70) {
                    self.reconnect();
                }
            }
            4..=6 if self.allows(Class::Drains) && service != Service::XrcReceive => {
                let to = if state == State::Rts {
                    Target::Sqd
                } else {
                    Target::Rts
                };
                self.write(by, Action::Modify { qp, to });
            }
            7..=9 if self.allows(Class::Access) && service == Service::Rc => {
                let access = if self.random.percent(50) {
                    EVERYTHING
                } else {
                    Access(self.random.below(8) << 1)
                };
                self.write(by, Action::SetAccess { qp, access });
            }
            _ => {}
        }
    }

    /// Reconnects a pair of which one queue pair is no longer operational.
    pub(super) fn reconnect(&mut self) {
        let broken: Vec<_> = self
            .pairs
            .iter()
            .filter(|pair| {
                let (Some(first), Some(second)) = (
                    self.world.qps.get(&pair.first),
                    self.world.qps.get(&pair.second),
                ) else {
                    return false;
                };
                [first, second]
                    .iter()
                    .any(|qp| matches!(qp.state, State::Reset | State::Err | State::Sqe))
            })
            .copied()
            .collect();
        let Some(pair) = self.random.among(&broken) else {
            if self.random.percent(20) {
                self.add_pair();
            }
            return;
        };
        for qp in [pair.first, pair.second] {
            if self.world.qps[&qp].state != State::Reset {
                let by = self.owner(qp);
                self.write(
                    by,
                    Action::Modify {
                        qp,
                        to: Target::Reset,
                    },
                );
            }
        }
        let _ = pair.service;
        self.connect(pair.first, pair.second);
    }

    fn region(&mut self) {
        let Some(by) = self.process() else { return };
        let extra: Vec<MrId> = self.extra_regions(by);
        if extra.len() >= 4 || self.random.percent(30) {
            if let Some(mr) = self.random.among(&extra) {
                self.write(by, Action::DeregMr { mr });
            }
            return;
        }
        let pd = self.some_domain(by);
        let mr = MrId(self.number());
        let (at, len) = self.part();
        let access = self.region_access();
        self.write(
            by,
            Action::RegMr {
                mr,
                pd,
                at,
                len,
                access,
            },
        );
    }

    fn extra_regions(&self, by: ProcessId) -> Vec<MrId> {
        let basic = self.basics[usize::from(by.0)].mr;
        let own = self
            .world
            .mrs
            .iter()
            .filter(|(id, mr)| mr.owner == by && **id != basic);
        own.map(|(id, _)| *id).collect()
    }

    /// Returns a part of the arena, often whole pages.
    fn part(&mut self) -> (u32, u32) {
        if self.random.percent(35) {
            let pages = 1 + self.random.below(2);
            return (self.program.arena - LOOSE, pages * 4096);
        }
        if self.random.percent(40) {
            let pages = 1 + self.random.below(2);
            let first = self.random.below(ARENA / 4096 - pages + 1);
            return (first * 4096, pages * 4096);
        }
        let at = TARGETS + self.random.below(ARENA - TARGETS - 600);
        (at / 8 * 8, 8 + self.random.below(500))
    }

    fn region_access(&mut self) -> Access {
        if self.random.percent(50) {
            EVERYTHING | Access::MW_BIND
        } else {
            Access(self.random.below(32)) | Access::LOCAL_WRITE
        }
    }

    /// Returns a domain of the process: its first, or another, created when first needed.
    fn some_domain(&mut self, by: ProcessId) -> PdId {
        let own: Vec<PdId> = self
            .world
            .pds
            .iter()
            .filter(|(_, owner)| **owner == by)
            .map(|(pd, _)| *pd)
            .collect();
        if self.allows(Class::Wrong) && own.len() < 2 && self.random.percent(30) {
            let pd = PdId(self.number());
            self.write(by, Action::AllocPd { pd });
            return pd;
        }
        if self.random.percent(80) {
            return self.basics[usize::from(by.0)].pd;
        }
        self.random.among(&own).expect("every process has one")
    }

    fn reregister(&mut self) {
        let Some(by) = self.process() else { return };
        let extra = self.extra_regions(by);
        let Some(mr) = self.random.among(&extra) else {
            return self.region();
        };
        let pd = self.some_domain(by);
        let (at, len) = self.part();
        let access = self.region_access();
        self.write(
            by,
            Action::ReregMr {
                mr,
                pd,
                at,
                len,
                access,
            },
        );
    }

    fn window(&mut self) {
        let Some(by) = self.process() else { return };
        let own: Vec<MwId> = self
            .world
            .mws
            .iter()
            .filter(|(_, mw)| mw.owner == by)
            .map(|(id, _)| *id)
            .collect();
        let choice = self.random.below(10);
        if own.is_empty() || choice == 0 && own.len() < 4 {
            let mw = MwId(self.number());
            let pd = self.some_domain(by);
            let kind = if self.random.percent(50) {
                WindowType::One
            } else {
                WindowType::Two
            };
            return self.write(by, Action::AllocMw { mw, pd, kind });
        }
        let mw = self.random.among(&own).expect("there is one");
        if choice == 1 {
            return self.write(by, Action::DeallocMw { mw });
        }
        let ready = self.qps_in(&[State::Rts]);
        let usable = |qp: &QpId| {
            let qp = &self.world.qps[qp];
            qp.owner == by && matches!(qp.service, Service::Rc | Service::Uc) && qp.sq.is_empty()
        };
        let ready: Vec<QpId> = ready.into_iter().filter(usable).collect();
        let Some(qp) = self.random.among(&ready) else {
            return;
        };
        let window = self.world.mws[&mw].clone();
        if window.kind == WindowType::Two && window.binding.is_some() {
            // A second bind fails and takes the queue pair to the error state: rarely.
            if choice < 8 || !self.allows(Class::Wrong) {
                let bound_on = window.binding.and_then(|binding| binding.qp);
                let bound_on = bound_on.filter(|on| ready.contains(on));
                let other = self.allows(Class::Wrong).then_some(qp);
                let Some(on) = bound_on.or(other) else { return };
                return self.post_local(on, Operation::LocalInv { key: Key::Mw(mw) });
            }
        }
        self.bind(by, qp, mw, window.kind);
    }

    fn bind(&mut self, by: ProcessId, qp: QpId, mw: MwId, kind: WindowType) {
        let own: Vec<MrId> = self
            .world
            .mrs
            .iter()
            .filter(|(_, mr)| mr.owner == by && mr.access.has(Access::MW_BIND))
            .map(|(id, _)| *id)
            .collect();
        let any: Vec<MrId> = self
            .world
            .mrs
            .iter()
            .filter(|(_, mr)| mr.owner == by)
            .map(|(id, _)| *id)
            .collect();
        let wrong = self.allows(Class::Wrong) && self.random.percent(8);
        let Some(mr) = self.random.among(if wrong { &any } else { &own }) else {
            return;
        };
        let region = self.world.mrs[&mr].clone();
        let len = 1 + self.random.below(region.len.min(1024));
        let mut at = region.at + self.random.below(region.len - len + 1);
        if wrong && self.random.percent(50) {
            at = region.at + region.len - len + 1;
        }
        let mut access = Access(self.random.below(8) << 1);
        if access == Access::NONE {
            access = Access::REMOTE_READ;
        }
        if kind == WindowType::One {
            let id = self.request();
            self.write(
                by,
                Action::BindMw {
                    qp,
                    id,
                    mw,
                    mr,
                    at,
                    len,
                    access,
                },
            );
        } else {
            self.post_local(
                qp,
                Operation::BindMw {
                    mw,
                    mr,
                    at,
                    len,
                    access,
                },
            );
        }
    }

    fn post_local(&mut self, qp: QpId, operation: Operation) {
        let id = self.request();
        let flags = if self.random.percent(70) {
            Flags::SIGNALED
        } else {
            Flags::NONE
        };
        let wr = SendWr {
            id,
            operation,
            sges: Vec::new(),
            flags,
            to: None,
            srq: None,
        };
        self.write(self.owner(qp), Action::PostSend { qp, wrs: vec![wr] });
    }

    fn limit(&mut self) {
        let srqs = self.srqs();
        if let Some(srq) = self.random.among(&srqs) {
            let queued = self.world.srqs[&srq].queue.len() as u32;
            let limit = self.random.below(queued + 1);
            let by = self.world.srqs[&srq].owner;
            self.write(by, Action::ArmSrq { srq, limit });
        }
    }

    fn destroy(&mut self) {
        let Some(by) = self.process() else { return };
        let basics = self.basics[usize::from(by.0)].clone();
        let mut actions = vec![Action::DeallocPd { pd: basics.pd }];
        actions.push(Action::DestroyCq { cq: basics.cqs[0] });
        let own = self.world.qps.iter().filter(|(_, qp)| qp.owner == by);
        actions.extend(own.map(|(qp, _)| Action::DestroyQp { qp: *qp }));
        let own = self.world.srqs.iter().filter(|(_, srq)| srq.owner == by);
        actions.extend(own.map(|(srq, _)| Action::DestroySrq { srq: *srq }));
        let own = self
            .world
            .xrcds
            .iter()
            .filter(|(_, (owner, _))| *owner == by);
        actions.extend(own.map(|(xrcd, _)| Action::CloseXrcd { xrcd: *xrcd }));
        let action = self.random.among(&actions).expect("there is one");
        // Programs continue to use a process's first domain and queues.
        let ends = match &action {
            Action::DeallocPd { pd } => !self.world.qps.values().any(|qp| qp.pd == Some(*pd)),
            Action::DestroyCq { cq } => !self
                .world
                .qps
                .values()
                .any(|qp| qp.send_cq == Some(*cq) || qp.recv_cq == Some(*cq)),
            _ => false,
        };
        if !ends {
            self.write(by, action);
        }
    }
}

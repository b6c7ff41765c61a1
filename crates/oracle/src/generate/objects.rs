//! Setup of programs: domains, regions, queues, connected queue pairs.

use super::{Basics, CQ_DEPTH, Class, EVERYTHING, Generator, LOOSE, Pair};
use crate::program::{Access, Action, CqId, MrId, PdId, ProcessId, QpId, Service, SrqId, XrcdId};

impl Generator {
    pub(super) fn begin(&mut self) {
        for process in 0..self.program.processes {
            self.begin_process(ProcessId(process));
        }
        let count = 1 + self.random.below(3);
        for _ in 0..count {
            self.add_pair();
        }
    }

    fn begin_process(&mut self, by: ProcessId) {
        let pd = PdId(self.number());
        self.write(by, Action::AllocPd { pd });
        let mr = MrId(self.number());
        let len = self.program.arena - LOOSE;
        let access = EVERYTHING | Access::MW_BIND;
        self.write(
            by,
            Action::RegMr {
                mr,
                pd,
                at: 0,
                len,
                access,
            },
        );
        let count = 1 + self.random.below(2);
        let mut cqs = Vec::new();
        for _ in 0..count {
            let cq = CqId(self.number());
            self.write(
                by,
                Action::CreateCq {
                    cq,
                    depth: CQ_DEPTH,
                },
            );
            cqs.push(cq);
        }
        self.basics.push(Basics { pd, mr, cqs });
    }

    /// Destroys all remaining objects, in an order in which none is in use.
    pub(super) fn end(&mut self) {
        for by in self.living() {
            let world = self.world.clone();
            let mut actions = Vec::new();
            let own = |owner: &ProcessId| *owner == by;
            let qps = world.qps.iter().filter(|(_, qp)| own(&qp.owner));
            actions.extend(qps.map(|(qp, _)| Action::DestroyQp { qp: *qp }));
            let srqs = world.srqs.iter().filter(|(_, srq)| own(&srq.owner));
            actions.extend(srqs.map(|(srq, _)| Action::DestroySrq { srq: *srq }));
            let mws = world.mws.iter().filter(|(_, mw)| own(&mw.owner));
            actions.extend(mws.map(|(mw, _)| Action::DeallocMw { mw: *mw }));
            let mrs = world.mrs.iter().filter(|(_, mr)| own(&mr.owner));
            actions.extend(mrs.map(|(mr, _)| Action::DeregMr { mr: *mr }));
            let cqs = world.cqs.iter().filter(|(_, owner)| own(owner));
            actions.extend(cqs.map(|(cq, _)| Action::DestroyCq { cq: *cq }));
            let xrcds = world.xrcds.iter().filter(|(_, (owner, _))| own(owner));
            actions.extend(xrcds.map(|(xrcd, _)| Action::CloseXrcd { xrcd: *xrcd }));
            let pds = world.pds.iter().filter(|(_, owner)| own(owner));
            actions.extend(pds.map(|(pd, _)| Action::DeallocPd { pd: *pd }));
            for action in actions {
                self.write(by, action);
            }
        }
    }

    pub(super) fn add_pair(&mut self) {
        let (Some(left), Some(right)) = (self.process(), self.process()) else {
            return;
        };
        let mut services = vec![Service::Rc, Service::Rc, Service::Rc];
        for (class, service) in [
            (Class::Uc, Service::Uc),
            (Class::Ud, Service::Ud),
            (Class::Xrc, Service::XrcSend),
        ] {
            if self.allows(class) {
                services.push(service);
            }
        }
        let service = self.random.among(&services).expect("there is always RC");
        let first = self.add_qp(left, service);
        let second = if service == Service::XrcSend {
            self.add_xrc_target(right)
        } else {
            self.add_qp(right, service)
        };
        self.pairs.push(Pair {
            first,
            second,
            service,
        });
        self.connect(first, second);
    }

    fn add_qp(&mut self, by: ProcessId, service: Service) -> QpId {
        let basics = self.basics[usize::from(by.0)].clone();
        let send_cq = self
            .random
            .among(&basics.cqs)
            .expect("every process has one");
        let recv_cq = self
            .random
            .among(&basics.cqs)
            .expect("every process has one");
        let may_share = self.allows(Class::Srq) && matches!(service, Service::Rc | Service::Ud);
        let srq = (may_share && self.random.percent(30)).then(|| self.own_srq(by));
        let qp = QpId(self.number());
        let all_signaled = self.random.percent(50);
        self.write(
            by,
            Action::CreateQp {
                qp,
                service,
                pd: basics.pd,
                send_cq,
                recv_cq,
                srq,
                all_signaled,
            },
        );
        qp
    }

    /// Returns a shared receive queue of the process; creates one if it has none.
    fn own_srq(&mut self, by: ProcessId) -> SrqId {
        let own = |srq: &SrqId| {
            let srq = &self.world.srqs[srq];
            srq.owner == by && srq.xrc.is_none()
        };
        let found: Vec<SrqId> = self.srqs().into_iter().filter(own).collect();
        if let Some(srq) = self.random.among(&found) {
            return srq;
        }
        let srq = SrqId(self.number());
        let pd = self.basics[usize::from(by.0)].pd;
        self.write(by, Action::CreateSrq { srq, pd, depth: 64 });
        srq
    }

    fn add_xrc_target(&mut self, by: ProcessId) -> QpId {
        let own = self.world.xrcds.iter().find(|(_, (owner, _))| *owner == by);
        let xrcd = match own {
            Some((xrcd, _)) => *xrcd,
            None => {
                let xrcd = XrcdId(self.number());
                let file = self.random.below(2);
                self.write(by, Action::OpenXrcd { xrcd, file });
                let basics = self.basics[usize::from(by.0)].clone();
                let srq = SrqId(self.number());
                let cq = basics.cqs[0];
                self.write(
                    by,
                    Action::CreateXrcSrq {
                        srq,
                        pd: basics.pd,
                        xrcd,
                        cq,
                        depth: 64,
                    },
                );
                xrcd
            }
        };
        let qp = QpId(self.number());
        self.write(by, Action::CreateXrcTarget { qp, xrcd });
        qp
    }

    /// Connects two queue pairs in RESET, with random PSNs.
    pub(super) fn connect(&mut self, first: QpId, second: QpId) {
        let one = self.random.below(1 << 24);
        let two = self.random.below(1 << 24);
        for (qp, peer, receive, send) in [(first, second, two, one), (second, first, one, two)] {
            self.connect_end(qp, peer, receive, send);
        }
    }

    /// Moves one queue pair from RESET to RTS.
    pub(super) fn connect_end(&mut self, qp: QpId, peer: QpId, receive: u32, send: u32) {
        let by = self.owner(qp);
        let datagram = self.world.qps[&qp].service == Service::Ud;
        let access = if datagram { Access::NONE } else { EVERYTHING };
        self.write(by, Action::Init { qp, access });
        self.write(
            by,
            Action::Rtr {
                qp,
                peer,
                psn: receive,
                rnr_timer: 1,
            },
        );
        let rnr_retry = if self.allows(Class::Rnr) && self.random.percent(40) {
            self.random.below(7) as u8
        } else {
            7
        };
        // Without a retry, a rule's losses end requests that are executed.
        let retry = match self.loses(by) && self.random.percent(30) {
            true => 0,
            false => 1 + self.random.below(2) as u8,
        };
        self.write(
            by,
            Action::Rts {
                qp,
                psn: send,
                retry,
                rnr_retry,
            },
        );
    }
}

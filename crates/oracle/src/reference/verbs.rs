//! The verbs: preconditions, effects and return codes of each call (chapter 11, `ibv_*(3)`).

use super::choice::Choices;
use super::memory::{Bytes, Source};
use super::object::{Mr, Mw, Phase, Qp, Srq, State, World, Wqe};
use super::outcome::{Code, Event, EventKind, FLUSHED, Subject};
use crate::program::{
    Access, Action, Call, CqId, Flags, MrId, Operation, PdId, ProcessId, QpId, RecvWr, SendWr,
    Service, SrqId, Target, XrcdId,
};
use std::collections::VecDeque;

fn busy() -> Code {
    // The kernel returns EBUSY; a provider that asks its adapter may return EINVAL.
    Code::Errors(vec![libc::EBUSY, libc::EINVAL])
}

fn invalid() -> Code {
    Code::Errors(vec![libc::EINVAL])
}

impl World {
    /// Makes a call and returns its allowed codes.
    pub fn call(&mut self, call: &Call, choices: &mut Choices) -> Code {
        let by = call.by;
        match &call.action {
            Action::AllocPd { pd } => self.make(|world| world.pds.insert(*pd, by)),
            Action::DeallocPd { pd } => self.dealloc_pd(*pd),
            Action::RegMr {
                mr,
                pd,
                at,
                len,
                access,
            } => {
                let region = Mr {
                    owner: by,
                    pd: *pd,
                    at: *at,
                    len: *len,
                    access: *access,
                };
                self.reg_mr(*mr, region)
            }
            Action::ReregMr {
                mr,
                pd,
                at,
                len,
                access,
            } => {
                if self.windows_on(*mr) {
                    return Code::SomeError;
                }
                let region = Mr {
                    owner: by,
                    pd: *pd,
                    at: *at,
                    len: *len,
                    access: *access,
                };
                self.reg_mr(*mr, region)
            }
            Action::DeregMr { mr } => {
                if self.windows_on(*mr) {
                    return busy();
                }
                self.make(|world| world.mrs.remove(mr))
            }
            Action::AllocMw { mw, pd, kind } => {
                let window = Mw {
                    owner: by,
                    pd: *pd,
                    kind: *kind,
                    binding: None,
                };
                self.make(|world| world.mws.insert(*mw, window))
            }
            Action::DeallocMw { mw } => self.make(|world| world.mws.remove(mw)),
            Action::BindMw { .. } => self.bind_mw(&call.action, choices),
            Action::CreateCq { cq, .. } => self.make(|world| world.cqs.insert(*cq, by)),
            Action::DestroyCq { cq } => self.destroy_cq(*cq),
            Action::CreateSrq { srq, pd, .. } => self.create_srq(by, *srq, *pd, None),
            Action::CreateXrcSrq {
                srq, pd, xrcd, cq, ..
            } => self.create_srq(by, *srq, *pd, Some((*xrcd, *cq))),
            Action::ArmSrq { srq, limit } => self.arm_srq(*srq, *limit),
            Action::DestroySrq { srq } => self.destroy_srq(*srq),
            Action::OpenXrcd { xrcd, file } => {
                self.make(|world| world.xrcds.insert(*xrcd, (by, *file)))
            }
            Action::CloseXrcd { xrcd } => self.close_xrcd(*xrcd),
            Action::CreateQp { .. } | Action::CreateXrcTarget { .. } => {
                self.create_qp(by, &call.action)
            }
            Action::DestroyQp { qp } => {
                self.forget_completions(*qp, choices);
                self.forget_events(Subject::Qp(*qp));
                self.make(|world| world.qps.remove(qp))
            }
            Action::Init { qp, access } => self.transition(*qp, State::Reset, |qp| {
                qp.state = State::Init;
                qp.access = *access;
            }),
            Action::Rtr { qp, peer, psn, .. } => self.rtr(by, *qp, *peer, *psn),
            Action::Rts {
                qp,
                psn,
                retry,
                rnr_retry,
            } => self.transition(*qp, State::Rtr, |qp| {
                qp.state = State::Rts;
                qp.sq_psn = *psn;
                qp.retry = *retry;
                qp.rnr_retry = *rnr_retry;
            }),
            Action::Modify { qp, to } => self.modify(*qp, *to, choices),
            Action::SetAccess { qp, access } => self.set_access(*qp, *access),
            Action::PostSend { qp, wrs } => self.post_send(*qp, wrs),
            Action::PostRecv { qp, wrs } => self.post_recv(*qp, wrs),
            Action::PostSrqRecv { srq, wrs } => {
                let queue = &mut self.srqs.get_mut(srq).expect("applicable").queue;
                queue.extend(wrs.iter().cloned());
                Code::Success
            }
            Action::Fill { at, len, tag } => {
                let bytes = Bytes::of(*len, Source::Pattern(*tag, 0));
                self.arena(by).replace(*at, &bytes);
                Code::Success
            }
            Action::DontNeed { at, len } => self.dont_need(by, *at, *len),
            Action::Spin { .. } | Action::Fork {} | Action::Pause {} => Code::Success,
            Action::Kill {} => self.kill(by),
        }
    }

    fn reg_mr(&mut self, mr: MrId, region: Mr) -> Code {
        if !region_rights(region.access) {
            return Code::SomeError;
        }
        self.make(|world| world.mrs.insert(mr, region))
    }

    fn create_srq(
        &mut self,
        by: ProcessId,
        srq: SrqId,
        pd: PdId,
        xrc: Option<(XrcdId, CqId)>,
    ) -> Code {
        let made = Srq {
            owner: by,
            pd,
            xrc,
            limit: 0,
            queue: VecDeque::new(),
        };
        self.make(|world| world.srqs.insert(srq, made))
    }

    fn create_qp(&mut self, by: ProcessId, action: &Action) -> Code {
        let made = &mut self.made[usize::from(by.0)];
        *made += 1;
        let number = *made;
        match action {
            Action::CreateQp {
                qp,
                service,
                pd,
                send_cq,
                recv_cq,
                srq,
                all_signaled,
            } => {
                let made = Qp {
                    pd: Some(*pd),
                    send_cq: Some(*send_cq),
                    recv_cq: Some(*recv_cq),
                    srq: *srq,
                    all_signaled: *all_signaled,
                    ..blank_qp(by, number, *service)
                };
                self.make(|world| world.qps.insert(*qp, made))
            }
            Action::CreateXrcTarget { qp, xrcd } => {
                let made = Qp {
                    xrcd: Some(*xrcd),
                    ..blank_qp(by, number, Service::XrcReceive)
                };
                self.make(|world| world.qps.insert(*qp, made))
            }
            _ => unreachable!("a call of another kind"),
        }
    }

    fn close_xrcd(&mut self, xrcd: XrcdId) -> Code {
        let used = self.qps.values().any(|qp| qp.xrcd == Some(xrcd))
            || self
                .srqs
                .values()
                .any(|srq| srq.xrc.is_some_and(|(own, _)| own == xrcd));
        if used {
            return busy();
        }
        self.make(|world| world.xrcds.remove(&xrcd))
    }

    fn rtr(&mut self, by: ProcessId, qp: QpId, peer: QpId, psn: u32) -> Code {
        // The first packet may raise an event if it arrives before RTS (11.6.3.1).
        let kind = EventKind::CommunicationEstablished;
        self.perhaps(Event {
            process: by,
            kind,
            subject: Subject::Qp(qp),
        });
        self.transition(qp, State::Init, |qp| {
            qp.state = State::Rtr;
            qp.peer = Some(peer);
            qp.rq_psn = psn;
        })
    }

    fn set_access(&mut self, qp: QpId, access: Access) -> Code {
        // To RTS with IBV_QP_ACCESS_FLAGS, which also leaves SQD.
        let from = if self.qp(qp).state == State::Sqd {
            State::Sqd
        } else {
            State::Rts
        };
        self.transition(qp, from, |qp| {
            qp.state = State::Rts;
            qp.draining = None;
            qp.access = access;
        })
    }

    fn dont_need(&mut self, by: ProcessId, at: u32, len: u32) -> Code {
        // While the adapter holds the pages, their contents for the process are undefined.
        let held = self
            .mrs
            .values()
            .any(|mr| mr.owner == by && mr.at < at + len && at < mr.at + mr.len);
        let bytes = Bytes::of(len, if held { Source::Unknown } else { Source::Zero });
        self.arena(by).replace(at, &bytes);
        Code::Success
    }

    fn make<T>(&mut self, change: impl FnOnce(&mut World) -> T) -> Code {
        change(self);
        Code::Success
    }

    fn dealloc_pd(&mut self, pd: PdId) -> Code {
        let used = self.mrs.values().any(|mr| mr.pd == pd)
            || self.mws.values().any(|mw| mw.pd == pd)
            || self.qps.values().any(|qp| qp.pd == Some(pd))
            || self.srqs.values().any(|srq| srq.pd == pd);
        if used {
            return busy();
        }
        self.make(|world| world.pds.remove(&pd))
    }

    fn destroy_cq(&mut self, cq: CqId) -> Code {
        let used = self
            .qps
            .values()
            .any(|qp| qp.send_cq == Some(cq) || qp.recv_cq == Some(cq))
            || self
                .srqs
                .values()
                .any(|srq| srq.xrc.is_some_and(|(_, own)| own == cq));
        if used {
            return busy();
        }
        for queue in self.outbox.completions.values_mut() {
            queue.retain(|completion| completion.cq != cq);
        }
        self.outbox.completions.retain(|_, queue| !queue.is_empty());
        self.make(|world| world.cqs.remove(&cq))
    }

    fn destroy_srq(&mut self, srq: SrqId) -> Code {
        if self.qps.values().any(|qp| qp.srq == Some(srq)) {
            return busy();
        }
        self.forget_events(Subject::Srq(srq));
        self.make(|world| world.srqs.remove(&srq))
    }

    /// Makes an object's unread events optional when it is destroyed.
    fn forget_events(&mut self, subject: Subject) {
        let mut kept = Vec::new();
        for event in std::mem::take(&mut self.outbox.events) {
            if event.subject == subject {
                self.perhaps(event);
            } else {
                kept.push(event);
            }
        }
        self.outbox.events = kept;
    }

    fn arm_srq(&mut self, id: SrqId, limit: u32) -> Code {
        let srq = self.srqs.get_mut(&id).expect("applicable");
        srq.limit = limit;
        if (srq.queue.len() as u32) < limit {
            // Adapters raise it at once, because they compare levels.
            self.look_at_limit(id);
        }
        Code::Success
    }

    fn windows_on(&self, mr: crate::program::MrId) -> bool {
        self.mws
            .values()
            .any(|mw| mw.binding.as_ref().is_some_and(|binding| binding.mr == mr))
    }

    fn transition(&mut self, qp: QpId, from: State, change: impl FnOnce(&mut Qp)) -> Code {
        if self.qp(qp).state != from {
            return invalid();
        }
        change(self.qp(qp));
        Code::Success
    }

    fn modify(&mut self, id: QpId, to: Target, choices: &mut Choices) -> Code {
        let state = self.qp(id).state;
        match to {
            Target::Reset => self.reset(id, choices),
            // The kernel's table has no transition from RESET to ERR; the specification has.
            Target::Err if state == State::Reset => match choices.pick(2) {
                0 => return invalid(),
                _ => self.to_error(id),
            },
            Target::Err => {
                self.flush_silent(id, choices);
                self.to_error(id);
            }
            Target::Sqd if state == State::Rts => self.drain(id, choices),
            Target::Rts if matches!(state, State::Sqd | State::Sqe) => {
                self.qp(id).state = State::Rts;
                self.qp(id).draining = None;
            }
            Target::Sqd if state == State::Sqd => {}
            Target::Rts if state == State::Rts => {}
            Target::Sqd | Target::Rts => return invalid(),
        }
        Code::Success
    }

    fn post_send(&mut self, id: QpId, wrs: &[SendWr]) -> Code {
        let state = self.qp(id).state;
        if matches!(state, State::Reset | State::Init | State::Rtr) {
            return Code::SomeError;
        }
        for (index, wr) in wrs.iter().enumerate() {
            let owner = self.qp(id).owner;
            let mut posted = Bytes::default();
            for sge in &wr.sges {
                posted.extend(&self.arena(owner).slice(sge.at..sge.at + sge.len));
            }
            let signaled = self.qp(id).all_signaled || wr.flags.has(Flags::SIGNALED);
            self.enqueue(
                id,
                Wqe {
                    wr: self.with_planted_keys(id, wr.clone()),
                    signaled,
                    posted,
                    is_behind_others: index > 0,
                    phase: Phase::Queued,
                },
            );
        }
        Code::Success
    }

    fn enqueue(&mut self, id: QpId, wqe: Wqe) {
        if matches!(self.qp(id).state, State::Err | State::Sqe) {
            self.complete_send(id, &wqe, FLUSHED);
        } else {
            self.qp(id).sq.push_back(wqe);
        }
    }

    fn post_recv(&mut self, id: QpId, wrs: &[RecvWr]) -> Code {
        let qp = self.qp(id);
        match qp.state {
            State::Reset => return Code::SomeError,
            State::Err => {
                let cq = qp.recv_cq.expect("has a receive queue");
                wrs.iter()
                    .for_each(|wr| self.fail_receive(id, cq, wr, FLUSHED));
            }
            _ => qp.rq.extend(wrs.iter().cloned()),
        }
        Code::Success
    }

    /// `ibv_bind_mw`: checked during the post, or at execution.
    fn bind_mw(&mut self, action: &Action, choices: &mut Choices) -> Code {
        let Action::BindMw {
            qp,
            id,
            mw,
            mr,
            at,
            len,
            access,
        } = action
        else {
            unreachable!()
        };
        let state = self.qp(*qp).state;
        if matches!(state, State::Reset | State::Init | State::Rtr) {
            return Code::SomeError;
        }
        let one = self.mws[mw].kind == crate::program::WindowType::One;
        if !one || !self.may_bind(*qp, *mw, *mr, *at, *len, *access) && choices.pick(2) == 0 {
            return Code::SomeError;
        }
        let operation = Operation::BindMw {
            mw: *mw,
            mr: *mr,
            at: *at,
            len: *len,
            access: *access,
        };
        let wr = SendWr {
            id: *id,
            operation,
            sges: Vec::new(),
            flags: Flags::SIGNALED,
            to: None,
            srq: None,
        };
        self.enqueue(
            *qp,
            Wqe {
                wr,
                signaled: true,
                posted: Bytes::default(),
                is_behind_others: false,
                phase: Phase::Queued,
            },
        );
        Code::Success
    }

    /// Ends a process and its objects. Peers detect it themselves.
    fn kill(&mut self, process: ProcessId) -> Code {
        self.alive[usize::from(process.0)] = false;
        self.pds.retain(|_, owner| *owner != process);
        self.mrs.retain(|_, mr| mr.owner != process);
        self.mws.retain(|_, mw| mw.owner != process);
        self.srqs.retain(|_, srq| srq.owner != process);
        self.xrcds.retain(|_, (owner, _)| *owner != process);
        self.qps.retain(|_, qp| qp.owner != process);
        let cqs: Vec<CqId> = self
            .cqs
            .iter()
            .filter(|(_, owner)| **owner == process)
            .map(|(cq, _)| *cq)
            .collect();
        for queue in self.outbox.completions.values_mut() {
            queue.retain(|completion| !cqs.contains(&completion.cq));
        }
        self.outbox.completions.retain(|_, queue| !queue.is_empty());
        self.cqs.retain(|_, owner| *owner != process);
        self.outbox.events.retain(|event| event.process != process);
        Code::Success
    }
}

/// Returns whether the rights are consistent: remote rights to change memory require local write
/// access (`ibv_reg_mr(3)`).
fn region_rights(access: Access) -> bool {
    let changes = access.0 & (Access::REMOTE_WRITE | Access::REMOTE_ATOMIC).0 != 0;
    !changes || access.has(Access::LOCAL_WRITE)
}

fn blank_qp(owner: ProcessId, number: u32, service: Service) -> Qp {
    Qp {
        owner,
        number,
        service,
        pd: None,
        send_cq: None,
        recv_cq: None,
        srq: None,
        xrcd: None,
        all_signaled: false,
        state: State::Reset,
        access: Access::NONE,
        peer: None,
        rq_psn: 0,
        sq_psn: 0,
        retry: 0,
        rnr_retry: 0,
        sq: VecDeque::new(),
        rq: VecDeque::new(),
        current: None,
        draining: None,
        silent: Vec::new(),
    }
}

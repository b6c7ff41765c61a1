//! Applicability of a program's calls.

use super::object::{Qp, World};
use crate::program::{Action, Call, CqId, Operation, PdId, QpId, Service, SrqId};

impl World {
    /// Returns whether the call can be made: its process is alive, the object it creates is new,
    /// and the objects it uses exist and belong to the process. (A peer's object or a key may be
    /// stale.)
    pub fn applicable(&self, call: &Call) -> bool {
        let by = call.by;
        if !self
            .alive
            .get(usize::from(by.0))
            .is_some_and(|alive| *alive)
        {
            return false;
        }
        let pd = |id: &PdId| self.pds.get(id) == Some(&by);
        let cq = |id: &CqId| self.cqs.get(id) == Some(&by);
        let qp = |id: &QpId| self.qps.get(id).is_some_and(|qp| qp.owner == by);
        let mr = |id| self.mrs.get(id).is_some_and(|mr| mr.owner == by);
        let mw = |id| self.mws.get(id).is_some_and(|mw| mw.owner == by);
        let srq = |id: &SrqId| self.srqs.get(id).is_some_and(|srq| srq.owner == by);
        let xrcd = |id| self.xrcds.get(id).is_some_and(|(owner, _)| *owner == by);
        let arena = self.memory[usize::from(by.0)].len();
        let inside = |at: &u32, len: &u32| u64::from(*at) + u64::from(*len) <= u64::from(arena);
        let page = |at: &u32, len: &u32| at.is_multiple_of(4096) && len.is_multiple_of(4096);
        let sges = |wrs: Vec<&crate::program::Sge>| wrs.iter().all(|sge| inside(&sge.at, &sge.len));
        match &call.action {
            Action::AllocPd { pd } => !self.pds.contains_key(pd),
            Action::DeallocPd { pd: id } => pd(id),
            Action::RegMr {
                mr,
                pd: id,
                at,
                len,
                ..
            } => !self.mrs.contains_key(mr) && pd(id) && inside(at, len) && *len > 0,
            Action::ReregMr {
                mr: id,
                pd: domain,
                at,
                len,
                ..
            } => mr(id) && pd(domain) && inside(at, len) && *len > 0,
            Action::DeregMr { mr: id } => mr(id),
            Action::AllocMw { mw, pd: id, .. } => !self.mws.contains_key(mw) && pd(id),
            Action::DeallocMw { mw: id } => mw(id),
            Action::BindMw {
                qp: on,
                mw: window,
                mr: region,
                ..
            } => qp(on) && mw(window) && mr(region),
            Action::CreateCq { cq, .. } => !self.cqs.contains_key(cq),
            Action::DestroyCq { cq: id } => cq(id),
            Action::CreateSrq { srq, pd: id, .. } => !self.srqs.contains_key(srq) && pd(id),
            Action::CreateXrcSrq {
                srq,
                pd: id,
                xrcd: domain,
                cq: queue,
                ..
            } => !self.srqs.contains_key(srq) && pd(id) && xrcd(domain) && cq(queue),
            Action::ArmSrq { srq: id, .. } | Action::DestroySrq { srq: id } => srq(id),
            Action::OpenXrcd { xrcd, .. } => !self.xrcds.contains_key(xrcd),
            Action::CloseXrcd { xrcd: id } => xrcd(id),
            Action::CreateQp {
                qp,
                pd: domain,
                send_cq,
                recv_cq,
                srq: shared,
                ..
            } => {
                !self.qps.contains_key(qp)
                    && pd(domain)
                    && cq(send_cq)
                    && cq(recv_cq)
                    && shared.as_ref().is_none_or(srq)
            }
            Action::CreateXrcTarget { qp, xrcd: id } => !self.qps.contains_key(qp) && xrcd(id),
            Action::DestroyQp { qp: id }
            | Action::Init { qp: id, .. }
            | Action::Rtr { qp: id, .. }
            | Action::Rts { qp: id, .. }
            | Action::Modify { qp: id, .. }
            | Action::SetAccess { qp: id, .. } => qp(id),
            Action::PostSend { qp: id, wrs } => {
                let windows = wrs.iter().all(|wr| match &wr.operation {
                    Operation::BindMw {
                        mw: window,
                        mr: region,
                        ..
                    } => mw(window) && mr(region),
                    _ => true,
                });
                qp(id)
                    && !wrs.is_empty()
                    && windows
                    && self.qps[id].service != Service::XrcReceive
                    && sges(wrs.iter().flat_map(|wr| &wr.sges).collect())
            }
            Action::PostRecv { qp: id, wrs } => {
                let own = |qp: &Qp| {
                    qp.srq.is_none()
                        && !matches!(qp.service, Service::XrcSend | Service::XrcReceive)
                };
                qp(id)
                    && !wrs.is_empty()
                    && own(&self.qps[id])
                    && sges(wrs.iter().flat_map(|wr| &wr.sges).collect())
            }
            Action::PostSrqRecv { srq: id, wrs } => {
                srq(id) && !wrs.is_empty() && sges(wrs.iter().flat_map(|wr| &wr.sges).collect())
            }
            Action::Fill { at, len, .. } => inside(at, len),
            Action::DontNeed { at, len } => inside(at, len) && page(at, len),
            Action::Spin { .. } | Action::Fork {} | Action::Kill {} | Action::Pause {} => true,
        }
    }
}

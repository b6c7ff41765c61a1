//! Access that a key and a queue pair grant to a peer (9.4.1.1.2, 9.7.4.1.5, 10.6).

use super::object::World;
use super::responder::{ATOMIC_BYTES, Fault, access_violation, invalid_request};
use crate::program::{Access, Key, Operation, PdId, QpId, Remote, SendWr, Service, SrqId};
use verbena_abi as abi;

/// Returns the remote memory of an operation: address, length, required right.
pub fn target(wr: &SendWr) -> Option<(&Remote, u32, Access)> {
    match &wr.operation {
        Operation::Write { to } | Operation::WriteImm { to, .. } => {
            Some((to, wr.length(), Access::REMOTE_WRITE))
        }
        Operation::Read { from } => Some((from, wr.length(), Access::REMOTE_READ)),
        Operation::CmpSwap { at, .. } | Operation::FetchAdd { at, .. } => {
            Some((at, ATOMIC_BYTES, Access::REMOTE_ATOMIC))
        }
        _ => None,
    }
}

impl World {
    /// Returns the fault of an operation on remote memory, if it is refused.
    pub fn remote_fault(&self, responder: QpId, wr: &SendWr) -> Option<Fault> {
        let xrc = self.qps[&responder].service == Service::XrcReceive;
        if xrc && self.named_srq(responder, wr).is_none() {
            let mut fault = invalid_request();
            fault.statuses = fault.statuses.or(abi::IBV_WC_REM_OP_ERR);
            return Some(fault);
        }
        let (remote, len, right) = target(wr)?;
        let qp = &self.qps[&responder];
        if !qp.access.has(right) {
            return Some(invalid_request());
        }
        if right == Access::REMOTE_ATOMIC && remote.at % ATOMIC_BYTES != 0 {
            // Both checks may fail; either may be reported.
            let mut fault = invalid_request();
            if !self.may_reach(responder, wr, remote, len, right) {
                fault.statuses = fault.statuses.or(abi::IBV_WC_REM_ACCESS_ERR);
            }
            return Some(fault);
        }
        // The key of a request without data is not checked (9.7.4.1.5, C9-88).
        (len > 0 && !self.may_reach(responder, wr, remote, len, right)).then(access_violation)
    }

    /// Returns whether a key grants this right to these bytes through this queue pair (9.4.1.1.2,
    /// 10.6).
    pub fn may_reach(
        &self,
        responder: QpId,
        wr: &SendWr,
        remote: &Remote,
        len: u32,
        right: Access,
    ) -> bool {
        let domain = self.domain(responder, wr);
        let qp = &self.qps[&responder];
        let within = |at: u32, length: u32| {
            at <= remote.at
                && u64::from(remote.at) + u64::from(len) <= u64::from(at) + u64::from(length)
        };
        match remote.key {
            Key::Bad => false,
            Key::Mr(mr) => self.mrs.get(&mr).is_some_and(|mr| {
                mr.owner == qp.owner
                    && domain == Some(mr.pd)
                    && mr.access.has(right)
                    && within(mr.at, mr.len)
            }),
            Key::Mw(mw) => self.mws.get(&mw).is_some_and(|mw| {
                mw.owner == qp.owner
                    && domain == Some(mw.pd)
                    && mw.binding.as_ref().is_some_and(|binding| {
                        binding.access.has(right)
                            && binding.qp.is_none_or(|bound| bound == responder)
                            && within(binding.at, binding.len)
                            && self.mrs.contains_key(&binding.mr)
                    })
            }),
        }
    }

    /// Returns the domain that keys are checked against. An XRC target has no domain: that of the
    /// shared receive queue in the request applies (14.2).
    pub fn domain(&self, responder: QpId, wr: &SendWr) -> Option<PdId> {
        match self.qps[&responder].service {
            Service::XrcReceive => {
                let srq = self.named_srq(responder, wr)?;
                Some(self.srqs[&srq].pd)
            }
            _ => self.qps[&responder].pd,
        }
    }

    /// Returns the shared receive queue of a request, if it is in the target's XRC domain.
    pub fn named_srq(&self, responder: QpId, wr: &SendWr) -> Option<SrqId> {
        let id = wr.srq?;
        let (own, _) = self.srqs.get(&id)?.xrc?;
        let file = |xrcd| self.xrcds.get(&xrcd).map(|(_, file)| *file);
        let target = self.qps[&responder].xrcd?;
        (file(own).is_some() && file(own) == file(target)).then_some(id)
    }
}

//! Memory windows: binding and invalidating (10.6.6, 10.6.7).

use super::choice::Choices;
use super::object::{Binding, World, Wqe};
use super::outcome::{SUCCESS, Statuses};
use crate::program::{Access, Key, MrId, MwId, Operation, QpId, WindowType};
use verbena_abi as abi;

impl World {
    /// Executes a request that does not involve the peer.
    pub fn execute_locally(&mut self, id: QpId, wqe: &Wqe, choices: &mut Choices) {
        let statuses = match &wqe.wr.operation {
            Operation::LocalInv { key } if self.invalidate(id, *key, choices) => SUCCESS,
            Operation::LocalInv { .. } => Statuses::of(abi::IBV_WC_LOC_QP_OP_ERR)
                .or(abi::IBV_WC_LOC_PROT_ERR)
                .or(abi::IBV_WC_LOC_ACCESS_ERR)
                .or(abi::IBV_WC_MW_BIND_ERR),
            Operation::BindMw {
                mw,
                mr,
                at,
                len,
                access,
            } => {
                if self.bind(id, *mw, *mr, *at, *len, *access) {
                    SUCCESS
                } else {
                    Statuses::of(abi::IBV_WC_MW_BIND_ERR)
                        .or(abi::IBV_WC_LOC_PROT_ERR)
                        .or(abi::IBV_WC_LOC_QP_OP_ERR)
                }
            }
            other => unreachable!("{other:?} goes to the peer"),
        };
        self.qp(id).sq.pop_front();
        if let Some(may) = &mut self.qp(id).draining {
            *may = may.saturating_sub(1);
        }
        let success = statuses == SUCCESS;
        if wqe.signaled || !success {
            self.complete_send(id, wqe, statuses);
        }
        if !success {
            self.send_queue_error(id);
        }
        self.drained(id);
    }

    /// Unbinds a type 2 window, if this queue pair may; returns whether it succeeded.
    pub fn invalidate(&mut self, qp: QpId, key: Key, choices: &mut Choices) -> bool {
        let (owner, pd) = (self.qp(qp).owner, self.qp(qp).pd);
        let Key::Mw(mw) = key else { return false };
        let Some(mw) = self.mws.get_mut(&mw) else {
            return false;
        };
        let own = mw.owner == owner && pd == Some(mw.pd) && mw.kind == WindowType::Two;
        if own && mw.binding.is_none() {
            // The specification does not define invalidation of an unbound window; adapters differ.
            return choices.pick(2) == 0;
        }
        let bound_here = mw
            .binding
            .as_ref()
            .is_some_and(|binding| binding.qp == Some(qp));
        if !own || !bound_here {
            return false;
        }
        mw.binding = None;
        true
    }

    /// Returns whether a window may be bound with these parameters, regardless of its current
    /// binding.
    pub fn may_bind(
        &self,
        qp: QpId,
        mw: MwId,
        mr: MrId,
        at: u32,
        len: u32,
        access: Access,
    ) -> bool {
        let (Some(mw), Some(mr)) = (self.mws.get(&mw), self.mrs.get(&mr)) else {
            return false;
        };
        let qp = &self.qps[&qp];
        let changes = access.0 & (Access::REMOTE_WRITE | Access::REMOTE_ATOMIC).0 != 0;
        mw.owner == qp.owner
            && mr.owner == qp.owner
            && Some(mw.pd) == qp.pd
            && mr.pd == mw.pd
            && mr.access.has(Access::MW_BIND)
            && (!changes || mr.access.has(Access::LOCAL_WRITE))
            && mr.at <= at
            && u64::from(at) + u64::from(len) <= u64::from(mr.at) + u64::from(mr.len)
    }

    fn bind(&mut self, qp: QpId, mw: MwId, mr: MrId, at: u32, len: u32, access: Access) -> bool {
        if !self.may_bind(qp, mw, mr, at, len, access) {
            return false;
        }
        let window = self.mws.get_mut(&mw).expect("it may be bound");
        let two = window.kind == WindowType::Two;
        // A window of type 2 must be invalidated before it is bound again.
        if two && window.binding.is_some() {
            return false;
        }
        window.binding = Some(Binding {
            mr,
            at,
            len,
            access,
            qp: two.then_some(qp),
        });
        true
    }
}

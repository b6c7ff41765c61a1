//! Converts the program's requests to the library's structures and posts them.

use super::message::Fact;
use super::objects::{NOTHING, Objects};
use crate::program::{Access, Flags, Operation, QpId, RecvWr, SendWr, Service, Sge, SrqId};
use std::ptr;
use verbena_abi as abi;

/// The Q_Key of every datagram queue pair.
pub const QKEY: u32 = 0x1111_1111;

/// Returns access rights as bits of the verbs.
pub fn access_bits(access: Access) -> u32 {
    let bits = [
        (Access::LOCAL_WRITE, abi::IBV_ACCESS_LOCAL_WRITE),
        (Access::REMOTE_WRITE, abi::IBV_ACCESS_REMOTE_WRITE),
        (Access::REMOTE_READ, abi::IBV_ACCESS_REMOTE_READ),
        (Access::REMOTE_ATOMIC, abi::IBV_ACCESS_REMOTE_ATOMIC),
        (Access::MW_BIND, abi::IBV_ACCESS_MW_BIND),
    ];
    bits.iter()
        .filter(|(bit, _)| access.has(*bit))
        .map(|(_, value)| value)
        .sum()
}

fn flag_bits(flags: Flags) -> u32 {
    let bits = [
        (Flags::FENCE, abi::IBV_SEND_FENCE),
        (Flags::SIGNALED, abi::IBV_SEND_SIGNALED),
        (Flags::SOLICITED, abi::IBV_SEND_SOLICITED),
        (Flags::INLINE, abi::IBV_SEND_INLINE),
    ];
    bits.iter()
        .filter(|(bit, _)| flags.has(*bit))
        .map(|(_, value)| value)
        .sum()
}

impl Objects {
    fn sges(&self, sges: &[Sge]) -> Vec<abi::ibv_sge> {
        let entry = |sge: &Sge| abi::ibv_sge {
            addr: self.address(sge.at),
            length: sge.len,
            lkey: self.local_key(sge.key),
        };
        sges.iter().map(entry).collect()
    }

    /// `ibv_post_send`. Returns an errno value.
    pub fn post_send(&mut self, id: QpId, wrs: &[SendWr]) -> i32 {
        let mut lists: Vec<Vec<abi::ibv_sge>> = wrs.iter().map(|wr| self.sges(&wr.sges)).collect();
        let mut requests = Vec::with_capacity(wrs.len());
        for (wr, sges) in wrs.iter().zip(&mut lists) {
            requests.push(self.request(id, wr, sges));
        }
        for index in 1..requests.len() {
            let next: *mut abi::ibv_send_wr = &mut requests[index];
            requests[index - 1].next = next;
        }
        let mut bad = ptr::null_mut();
        let Some(post) = self.operations().post_send else {
            return libc::EOPNOTSUPP;
        };
        // SAFETY: the queue pair exists; the list and its entries outlive the call.
        let code = unsafe { post(self.qps[&id].handle, requests.as_mut_ptr(), &mut bad) };
        if code != 0 {
            let refused = |request: &abi::ibv_send_wr| ptr::from_ref(request) == bad.cast_const();
            let first = requests.iter().position(refused).unwrap_or(0);
            for wr in &wrs[first..] {
                self.take_key_back(wr.id);
            }
        }
        code
    }

    fn request(&mut self, id: QpId, wr: &SendWr, sges: &mut Vec<abi::ibv_sge>) -> abi::ibv_send_wr {
        let mut request = abi::ibv_send_wr {
            wr_id: wr.id,
            sg_list: sges.as_mut_ptr(),
            num_sge: sges.len() as i32,
            send_flags: flag_bits(wr.flags),
            ..Default::default()
        };
        let rdma = |remote: &crate::program::Remote| abi::ibv_send_wr_wr {
            rdma: abi::ibv_send_wr_rdma {
                remote_addr: self.address(remote.at),
                rkey: self.remote_key(remote.key),
            },
        };
        let atomic = |remote: &crate::program::Remote, compare_add, swap| abi::ibv_send_wr_wr {
            atomic: abi::ibv_send_wr_atomic {
                remote_addr: self.address(remote.at),
                compare_add,
                swap,
                rkey: self.remote_key(remote.key),
            },
        };
        request.opcode = match &wr.operation {
            Operation::Send {} => abi::IBV_WR_SEND,
            Operation::SendImm { imm } => {
                request.imm.imm_data = imm.to_be();
                abi::IBV_WR_SEND_WITH_IMM
            }
            Operation::SendInv { key } => {
                request.imm.invalidate_rkey = self.remote_key(*key);
                abi::IBV_WR_SEND_WITH_INV
            }
            Operation::Write { to } => {
                request.wr = rdma(to);
                abi::IBV_WR_RDMA_WRITE
            }
            Operation::WriteImm { to, imm } => {
                request.wr = rdma(to);
                request.imm.imm_data = imm.to_be();
                abi::IBV_WR_RDMA_WRITE_WITH_IMM
            }
            Operation::Read { from } => {
                request.wr = rdma(from);
                abi::IBV_WR_RDMA_READ
            }
            Operation::CmpSwap { at, compare, swap } => {
                request.wr = atomic(at, *compare, *swap);
                abi::IBV_WR_ATOMIC_CMP_AND_SWP
            }
            Operation::FetchAdd { at, add } => {
                request.wr = atomic(at, *add, 0);
                abi::IBV_WR_ATOMIC_FETCH_AND_ADD
            }
            Operation::LocalInv { key } => {
                request.imm.invalidate_rkey = self.remote_key(*key);
                abi::IBV_WR_LOCAL_INV
            }
            Operation::BindMw {
                mw,
                mr,
                at,
                len,
                access,
            } => {
                let window = self.mws[mw];
                let key = self.next_key(wr.id, *mw);
                request.extra.bind_mw = abi::ibv_send_wr_bind_mw {
                    mw: window,
                    rkey: key,
                    bind_info: abi::ibv_mw_bind_info {
                        mr: self.mrs[mr],
                        addr: self.address(*at),
                        length: u64::from(*len),
                        mw_access_flags: access_bits(*access),
                    },
                };
                abi::IBV_WR_BIND_MW
            }
        };
        let service = self.qps[&id].service;
        if service == Service::Ud {
            let number = wr.to.map_or(NOTHING, |to| self.fact(Fact::QpNumber, to.0));
            request.wr.ud = abi::ibv_send_wr_ud {
                ah: self.address_handle(id, wr.to.unwrap_or(id)),
                remote_qpn: number,
                remote_qkey: QKEY,
            };
        }
        if service == Service::XrcSend {
            let number = wr
                .srq
                .map_or(NOTHING, |srq| self.fact(Fact::SrqNumber, srq.0));
            request.qp_type.xrc = abi::ibv_send_wr_xrc {
                remote_srqn: number,
            };
        }
        request
    }

    fn receives(&self, wrs: &[RecvWr], lists: &mut [Vec<abi::ibv_sge>]) -> Vec<abi::ibv_recv_wr> {
        let mut requests: Vec<abi::ibv_recv_wr> = wrs
            .iter()
            .zip(lists)
            .map(|(wr, sges)| abi::ibv_recv_wr {
                wr_id: wr.id,
                next: ptr::null_mut(),
                sg_list: sges.as_mut_ptr(),
                num_sge: sges.len() as i32,
            })
            .collect();
        for index in 1..requests.len() {
            let next: *mut abi::ibv_recv_wr = &mut requests[index];
            requests[index - 1].next = next;
        }
        requests
    }

    /// `ibv_post_recv`. Returns an errno value.
    pub fn post_recv(&mut self, id: QpId, wrs: &[RecvWr]) -> i32 {
        let mut lists: Vec<Vec<abi::ibv_sge>> = wrs.iter().map(|wr| self.sges(&wr.sges)).collect();
        let mut requests = self.receives(wrs, &mut lists);
        let mut bad = ptr::null_mut();
        let Some(post) = self.operations().post_recv else {
            return libc::EOPNOTSUPP;
        };
        // SAFETY: the queue pair exists; the list and its entries outlive the call.
        unsafe { post(self.qps[&id].handle, requests.as_mut_ptr(), &mut bad) }
    }

    /// `ibv_post_srq_recv`. Returns an errno value.
    pub fn post_srq_recv(&mut self, id: SrqId, wrs: &[RecvWr]) -> i32 {
        let mut lists: Vec<Vec<abi::ibv_sge>> = wrs.iter().map(|wr| self.sges(&wr.sges)).collect();
        let mut requests = self.receives(wrs, &mut lists);
        let mut bad = ptr::null_mut();
        let Some(post) = self.operations().post_srq_recv else {
            return libc::EOPNOTSUPP;
        };
        // SAFETY: the queue exists; the list and its entries outlive the call.
        unsafe { post(self.srqs[&id], requests.as_mut_ptr(), &mut bad) }
    }

    /// Returns the address handle of the host of queue pair `to`, in the domain of `id`; created
    /// when first needed.
    fn address_handle(&mut self, id: QpId, to: QpId) -> *mut abi::ibv_ah {
        // SAFETY: the queue pair exists, so its domain does.
        let pd = unsafe { (*self.qps[&id].handle).pd };
        let Some((pd_id, _)) = self.pds.iter().find(|(_, own)| **own == pd) else {
            return ptr::null_mut();
        };
        let pd_id = *pd_id;
        let place = (pd_id, self.gid_of(to));
        if let Some(handle) = self.ahs.get(&place) {
            return *handle;
        }
        let mut route = self.route(to);
        // SAFETY: the domain exists and the attributes are valid.
        let handle = unsafe { (self.library.create_ah)(pd, &mut route) };
        self.ahs.insert(place, handle);
        handle
    }
}

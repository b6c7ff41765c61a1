//! Calls about queue pairs.

use super::created::errno;
use super::message::Fact;
use super::objects::QueuePair;
use super::post::access_bits;
use super::queues::MOST_SGES;
use super::worker::Worker;
use crate::program::{Action, QpId, Service, Target};
use verbena_abi as abi;

const QUEUE_DEPTH: u32 = 128;
/// Maximum inline payload of every queue pair, in bytes.
const INLINE_BYTES: u32 = 64;

impl Worker<'_> {
    /// Creates or destroys a queue pair; `None` if a required object does not exist.
    pub(super) fn pair_call(&mut self, action: &Action) -> Option<i32> {
        let objects = &mut self.objects;
        let library = &objects.library;
        Some(match action {
            Action::CreateQp {
                qp,
                service,
                pd,
                send_cq,
                recv_cq,
                srq,
                all_signaled,
            } => {
                let shared = match srq {
                    Some(srq) => *objects.srqs.get(srq)?,
                    None => std::ptr::null_mut(),
                };
                let receives = srq.is_none() && *service != Service::XrcSend;
                let mut init = abi::ibv_qp_init_attr {
                    send_cq: *objects.cqs.get(send_cq)?,
                    recv_cq: *objects.cqs.get(recv_cq)?,
                    srq: shared,
                    cap: abi::ibv_qp_cap {
                        max_send_wr: QUEUE_DEPTH,
                        max_recv_wr: if receives { QUEUE_DEPTH } else { 0 },
                        max_send_sge: MOST_SGES,
                        max_recv_sge: if receives { MOST_SGES } else { 0 },
                        max_inline_data: INLINE_BYTES,
                    },
                    qp_type: match service {
                        Service::Rc => abi::IBV_QPT_RC,
                        Service::Uc => abi::IBV_QPT_UC,
                        Service::Ud => abi::IBV_QPT_UD,
                        Service::XrcSend => abi::IBV_QPT_XRC_SEND,
                        Service::XrcReceive => return None,
                    },
                    sq_sig_all: i32::from(*all_signaled),
                    ..Default::default()
                };
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                let made = unsafe { (library.create_qp)(*objects.pds.get(pd)?, &mut init) };
                self.keep_qp(*qp, *service, srq.is_some(), made)
            }
            Action::CreateXrcTarget { qp, xrcd } => {
                let mut init = abi::ibv_qp_init_attr_ex {
                    qp_type: abi::IBV_QPT_XRC_RECV,
                    comp_mask: abi::IBV_QP_INIT_ATTR_XRCD,
                    xrcd: *objects.xrcds.get(xrcd)?,
                    ..Default::default()
                };
                let create = match objects.extended().map(|extended| extended.create_qp_ex) {
                    Ok(Some(create)) => create,
                    _ => return Some(libc::EOPNOTSUPP),
                };
                // SAFETY: the context is open, handles come from the tables; all arguments outlive
                // the call.
                let made = unsafe { create(objects.context, &mut init) };
                self.keep_qp(*qp, Service::XrcReceive, true, made)
            }
            Action::DestroyQp { qp } => {
                // SAFETY: the handles come from the tables, so they exist; all arguments outlive
                // the call.
                let code = unsafe { (library.destroy_qp)(objects.qps.get(qp)?.handle) };
                if code == 0 {
                    objects.qps.remove(qp);
                }
                code
            }
            _ => unreachable!("a call of another group"),
        })
    }

    /// Changes a queue pair's state; `None` if a required object does not exist.
    pub(super) fn state_call(&mut self, action: &Action) -> Option<i32> {
        Some(match action {
            Action::Init { qp, access } => self.init(*qp, *access)?,
            Action::Rtr {
                qp,
                peer,
                psn,
                rnr_timer,
            } => self.rtr(*qp, *peer, *psn, *rnr_timer)?,
            Action::Rts {
                qp,
                psn,
                retry,
                rnr_retry,
            } => self.rts(*qp, *psn, *retry, *rnr_retry)?,
            Action::Modify { qp, to } => {
                let mut mask = abi::IBV_QP_STATE;
                let mut attributes = abi::ibv_qp_attr {
                    qp_state: match to {
                        Target::Reset => abi::IBV_QPS_RESET,
                        Target::Err => abi::IBV_QPS_ERR,
                        Target::Sqd => abi::IBV_QPS_SQD,
                        Target::Rts => abi::IBV_QPS_RTS,
                    },
                    ..Default::default()
                };
                if *to == Target::Sqd {
                    attributes.en_sqd_async_notify = 1;
                    mask |= abi::IBV_QP_EN_SQD_ASYNC_NOTIFY;
                }
                self.modify(*qp, &mut attributes, mask)?
            }
            Action::SetAccess { qp, access } => {
                let mut attributes = abi::ibv_qp_attr {
                    qp_state: abi::IBV_QPS_RTS,
                    qp_access_flags: access_bits(*access),
                    ..Default::default()
                };
                let mask = abi::IBV_QP_STATE | abi::IBV_QP_ACCESS_FLAGS;
                self.modify(*qp, &mut attributes, mask)?
            }
            _ => unreachable!("a call of another group"),
        })
    }

    fn keep_qp(&mut self, id: QpId, service: Service, shared: bool, made: *mut abi::ibv_qp) -> i32 {
        if made.is_null() {
            return errno();
        }
        self.objects.qps.insert(
            id,
            QueuePair {
                handle: made,
                service,
                shared,
            },
        );
        // SAFETY: it was just created.
        let number = unsafe { (*made).qp_num };
        self.objects
            .facts
            .insert((Fact::QpNumber, id.0), number.into());
        self.objects.learn_gid(id);
        0
    }
}

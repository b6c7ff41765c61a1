//! `ibv_modify_qp` with the required attributes of each transition.

use super::message::Fact;
use super::objects::PORT;
use super::post::{QKEY, access_bits};
use super::worker::Worker;
use crate::program::{Access, QpId, Service};
use verbena_abi as abi;

impl Worker<'_> {
    pub(super) fn modify(
        &mut self,
        qp: QpId,
        attributes: &mut abi::ibv_qp_attr,
        mask: i32,
    ) -> Option<i32> {
        let handle = self.objects.qps.get(&qp)?.handle;
        // SAFETY: the queue pair exists and the attributes are valid.
        Some(unsafe { (self.objects.library.modify_qp)(handle, attributes, mask) })
    }

    pub(super) fn init(&mut self, qp: QpId, access: Access) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_INIT,
            port_num: PORT,
            qkey: QKEY,
            qp_access_flags: access_bits(access),
            ..Default::default()
        };
        let own = if service == Service::Ud {
            abi::IBV_QP_QKEY
        } else {
            abi::IBV_QP_ACCESS_FLAGS
        };
        let mask = abi::IBV_QP_STATE | abi::IBV_QP_PKEY_INDEX | abi::IBV_QP_PORT | own;
        self.modify(qp, &mut attributes, mask)
    }

    pub(super) fn rtr(&mut self, qp: QpId, peer: QpId, psn: u32, rnr_timer: u8) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_RTR,
            path_mtu: abi::IBV_MTU_1024,
            dest_qp_num: self.objects.fact(Fact::QpNumber, peer.0),
            rq_psn: psn,
            ah_attr: self.objects.route(peer),
            max_dest_rd_atomic: 4,
            min_rnr_timer: rnr_timer,
            ..Default::default()
        };
        let connection =
            abi::IBV_QP_AV | abi::IBV_QP_PATH_MTU | abi::IBV_QP_DEST_QPN | abi::IBV_QP_RQ_PSN;
        let reliable = abi::IBV_QP_MAX_DEST_RD_ATOMIC | abi::IBV_QP_MIN_RNR_TIMER;
        let mask = abi::IBV_QP_STATE
            | match service {
                Service::Ud => 0,
                Service::Uc => connection,
                Service::XrcSend => connection,
                Service::Rc | Service::XrcReceive => connection | reliable,
            };
        self.modify(qp, &mut attributes, mask)
    }

    pub(super) fn rts(&mut self, qp: QpId, psn: u32, retry: u8, rnr_retry: u8) -> Option<i32> {
        let service = self.objects.qps.get(&qp)?.service;
        let (timeout, retry_cnt) = self.objects.own.retries(retry);
        let mut attributes = abi::ibv_qp_attr {
            qp_state: abi::IBV_QPS_RTS,
            sq_psn: psn,
            timeout,
            retry_cnt,
            rnr_retry,
            max_rd_atomic: 4,
            ..Default::default()
        };
        let requester =
            abi::IBV_QP_RETRY_CNT | abi::IBV_QP_RNR_RETRY | abi::IBV_QP_MAX_QP_RD_ATOMIC;
        let mask = abi::IBV_QP_STATE
            | abi::IBV_QP_SQ_PSN
            | match service {
                Service::Uc | Service::Ud => 0,
                Service::XrcReceive => abi::IBV_QP_TIMEOUT,
                Service::Rc | Service::XrcSend => abi::IBV_QP_TIMEOUT | requester,
            };
        self.modify(qp, &mut attributes, mask)
    }
}

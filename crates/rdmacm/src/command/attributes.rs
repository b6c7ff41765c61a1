//! Attributes for queue pair transitions: rdma_init_qp_attr.

use super::written::Command;
use crate::abi::{InitQpAttr, QueuePairAttributes};
use crate::identifier::{Identifier, QueuePairKind};
use crate::state::State;
use verbena_abi::*;
use verbena_hca_os::errno::{Errno, Result};

/// The queue key of datagram services: RDMA_UDP_QKEY of `<rdma/rdma_cma.h>`.
pub const QUEUE_KEY: u32 = 0x0123_4567;

/// Answers with the attributes for the transition to a state.
///
/// # Errors
/// EINVAL if the identifier has no device, or for an unsupported state.
///
/// # Safety
/// That of [`super::execute`].
pub unsafe fn init(command: &Command<'_>, state: &mut State) -> Result<()> {
    let wanted: InitQpAttr = command.read()?;
    let identifier = state.identifier(command.channel, wanted.id)?;
    if !identifier.has_device() {
        return Err(Errno::EINVAL);
    }
    let attributes = match wanted.qp_state {
        IBV_QPS_INIT => to_init(identifier),
        IBV_QPS_RTR => to_rtr(identifier),
        IBV_QPS_RTS => to_rts(identifier),
        _ => return Err(Errno::EINVAL),
    };
    // SAFETY: the caller promises valid addresses inside the command.
    unsafe {
        command.answer(
            wanted.response,
            &attributes,
            size_of::<QueuePairAttributes>(),
        )
    }
}

fn to_init(identifier: &Identifier) -> QueuePairAttributes {
    let mut mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    let mut access = IBV_ACCESS_REMOTE_WRITE;
    if identifier.space.is_datagram() {
        mask |= IBV_QP_QKEY;
        access = 0;
    } else {
        mask |= IBV_QP_ACCESS_FLAGS;
        if identifier.agreement.responder_resources > 0 {
            access |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        }
    }
    QueuePairAttributes {
        qp_attr_mask: mask as u32,
        qp_state: IBV_QPS_INIT,
        qkey: QUEUE_KEY,
        qp_access_flags: access,
        port_num: identifier.path.device().1,
        pkey_index: identifier.path.pkey_index,
        ..Default::default()
    }
}

fn to_rtr(identifier: &Identifier) -> QueuePairAttributes {
    let mut mask = IBV_QP_STATE;
    if !identifier.space.is_datagram() {
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if identifier.queue_pair_kind.responds() {
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
    }
    QueuePairAttributes {
        qp_attr_mask: mask as u32,
        qp_state: IBV_QPS_RTR,
        ah_attr: identifier.path.address_vector(),
        path_mtu: identifier.path.mtu.into(),
        dest_qp_num: identifier.agreement.remote_queue_pair,
        rq_psn: identifier.psn,
        max_dest_rd_atomic: identifier.agreement.responder_resources,
        port_num: identifier.path.device().1,
        ..Default::default()
    }
}

fn to_rts(identifier: &Identifier) -> QueuePairAttributes {
    let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    let datagram = identifier.space.is_datagram();
    if !datagram && identifier.queue_pair_kind.requests() {
        mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    if !datagram && identifier.queue_pair_kind != QueuePairKind::Uc {
        mask |= IBV_QP_TIMEOUT;
    }
    QueuePairAttributes {
        qp_attr_mask: mask as u32,
        qp_state: IBV_QPS_RTS,
        sq_psn: if datagram {
            0
        } else {
            identifier.agreement.remote_psn
        },
        timeout: identifier
            .options
            .ack_timeout
            .unwrap_or(identifier.path.ack_timeout),
        retry_cnt: identifier.agreement.retry_count,
        rnr_retry: identifier.agreement.rnr_retry_count,
        max_rd_atomic: identifier.agreement.initiator_depth,
        port_num: identifier.path.device().1,
        ..Default::default()
    }
}

//! Validation of queue pair attributes and receive requests, with a specific error message for each
//! check.

use super::QpInit;
use crate::ah;
use crate::device::{self, Device, port_name};
use std::ffi::c_int;
use std::fmt;
use verbena_abi::*;
use verbena_hca_memory::limits::{MAX_INLINE, MAX_QP_WR, MAX_RD_ATOMIC, MAX_SGE};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

/// Returns the capacities that a new queue pair gets.
///
/// # Errors
/// EINVAL for attributes that are inconsistent or exceed the device's limits; EOPNOTSUPP for types
/// that the device lacks.
pub(super) fn init(init: &QpInit) -> Result<ibv_qp_cap> {
    let mut cap = init.cap;
    let kind = init.kind;
    let sends = kind != IBV_QPT_XRC_RECV;
    let receives = !matches!(kind, IBV_QPT_XRC_RECV | IBV_QPT_XRC_SEND);
    match kind {
        IBV_QPT_RC | IBV_QPT_UC | IBV_QPT_UD | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV => (),
        _ => {
            return Err(refused!(
                EOPNOTSUPP,
                "qp_type is {kind}: the device has IBV_QPT_RC, UC, UD, XRC_SEND and XRC_RECV"
            ));
        }
    }
    given("pd", kind, init.pd.is_some() || !sends)?;
    given("send_cq", kind, init.send_cq.is_some() || !sends)?;
    given("recv_cq", kind, init.recv_cq.is_some() || !receives)?;
    given(
        "xrcd",
        kind,
        init.xrcd.is_some() || kind != IBV_QPT_XRC_RECV,
    )?;
    if let Some(srq) = &init.srq {
        if srq.xrc().is_some() {
            return Err(refused!(
                EINVAL,
                "srq has type IBV_SRQT_XRC, which XRC senders name by number: give a basic one"
            ));
        }
        if !receives {
            return Err(refused!(
                EINVAL,
                "srq is given, and a queue pair of type {kind} takes no receives"
            ));
        }
    }
    if !sends {
        (cap.max_send_wr, cap.max_send_sge, cap.max_inline_data) = (0, 0, 0);
    }
    if !receives || init.srq.is_some() {
        (cap.max_recv_wr, cap.max_recv_sge) = (0, 0);
    }
    let (most, of) = (MAX_QP_WR.as_u32(), "max_qp_wr of ibv_query_device");
    at_most("cap.max_send_wr", cap.max_send_wr, most, of)?;
    at_most("cap.max_recv_wr", cap.max_recv_wr, most, of)?;
    let of = "max_sge of ibv_query_device";
    at_most("cap.max_send_sge", cap.max_send_sge, MAX_SGE.as_u32(), of)?;
    at_most("cap.max_recv_sge", cap.max_recv_sge, MAX_SGE.as_u32(), of)?;
    let (given, most) = (cap.max_inline_data, MAX_INLINE.as_u32());
    at_most(
        "cap.max_inline_data",
        given,
        most,
        "the limit of the device",
    )?;
    // A work request has space for its segments or for inline data in their place: rxe and adapters
    // grant that much inline data even if less is requested, and programs rely on it
    // (rdma_xclient).
    let in_place = cap.max_send_sge * size_of::<ibv_sge>() as u32;
    cap.max_inline_data = cap.max_inline_data.max(in_place.min(most));
    Ok(cap)
}

fn given(name: &str, kind: ibv_qp_type, is_there: bool) -> Result<()> {
    match is_there {
        true => Ok(()),
        false => Err(refused!(
            EINVAL,
            "{name} is NULL, and a queue pair of type {kind} needs one"
        )),
    }
}

fn at_most<T: PartialOrd + fmt::Display>(name: &str, given: T, most: T, of: &str) -> Result<()> {
    if given <= most {
        return Ok(());
    }
    Err(refused!(
        EINVAL,
        "{name} is {given}, and at most {most} are allowed ({of}): request fewer"
    ))
}

/// Checks the port attributes: each port belongs to the device, an address vector to the queue
/// pair's own port (as Linux checks it: `modify_qp` of `uverbs_cmd.c`), the port supports the MTU,
/// and the port does not change while attached to groups.
///
/// # Errors
/// EINVAL if one of these is violated.
pub(super) fn port(
    old: &ibv_qp_attr,
    new: &ibv_qp_attr,
    mask: c_int,
    joined: impl FnOnce() -> Option<u8>,
) -> Result<()> {
    let has = |bit| mask & bit != 0;
    let port = match has(IBV_QP_PORT) {
        true => new.port_num,
        false => old.port_num,
    };
    if has(IBV_QP_AV) && new.ah_attr.port_num != port {
        return Err(refused!(
            EINVAL,
            "ah_attr.port_num is {}, and the queue pair is at {}",
            number(new.ah_attr.port_num),
            port_name(port)
        ));
    }
    if has(IBV_QP_ALT_PATH) && new.alt_ah_attr.port_num != new.alt_port_num {
        return Err(refused!(
            EINVAL,
            "alt_ah_attr.port_num is {}, and alt_port_num is {}",
            number(new.alt_ah_attr.port_num),
            number(new.alt_port_num)
        ));
    }
    let most = device::active_mtu(port);
    if has(IBV_QP_PATH_MTU) && !(IBV_MTU_256..=most).contains(&new.path_mtu) {
        return Err(refused!(
            EINVAL,
            "path_mtu is {} (an enum ibv_mtu): {} has IBV_MTU_256 ({IBV_MTU_256}) \
             to {} bytes ({most}), active_mtu of ibv_query_port",
            new.path_mtu,
            port_name(port),
            device::mtu_bytes(port)
        ));
    }
    if has(IBV_QP_PORT)
        && let Some(joined) = joined().filter(|joined| *joined != port)
    {
        return Err(refused!(
            EINVAL,
            "port_num is {}, and the queue pair is attached to groups at {}: \
             ibv_detach_mcast first",
            number(port),
            port_name(joined)
        ));
    }
    Ok(())
}

/// Returns the number of a port on its device.
fn number(port: u8) -> u8 {
    Device::of_port(port).1
}

/// Checks that numbers are in their ranges and that the address vector is valid.
///
/// # Errors
/// EINVAL for numbers out of range; as [`ah::check`].
pub(super) fn values(new: &ibv_qp_attr, mask: c_int) -> Result<()> {
    const FIVE_BITS: u8 = 31;
    const THREE_BITS: u8 = 7;
    let has = |bit| mask & bit != 0;
    let byte = |bit, name, given: u8, most, of| match has(bit) {
        true => at_most(name, given, most, of),
        false => Ok(()),
    };
    if has(IBV_QP_PKEY_INDEX) {
        let most = device::pkeys() as u16 - 1;
        at_most(
            "pkey_index",
            new.pkey_index,
            most,
            "pkey_tbl_len of ibv_query_port less 1",
        )?;
    }
    let (most, of) = (
        u8::try_from(MAX_RD_ATOMIC.get()).unwrap_or(u8::MAX),
        "max_qp_rd_atom and max_qp_init_rd_atom of ibv_query_device",
    );
    byte(
        IBV_QP_MAX_QP_RD_ATOMIC,
        "max_rd_atomic",
        new.max_rd_atomic,
        most,
        of,
    )?;
    byte(
        IBV_QP_MAX_DEST_RD_ATOMIC,
        "max_dest_rd_atomic",
        new.max_dest_rd_atomic,
        most,
        of,
    )?;
    let of = "5 bits; 4.096 us times 2 to that power";
    byte(IBV_QP_TIMEOUT, "timeout", new.timeout, FIVE_BITS, of)?;
    byte(
        IBV_QP_RETRY_CNT,
        "retry_cnt",
        new.retry_cnt,
        THREE_BITS,
        "3 bits",
    )?;
    byte(
        IBV_QP_RNR_RETRY,
        "rnr_retry",
        new.rnr_retry,
        THREE_BITS,
        "3 bits; 7 retries forever",
    )?;
    byte(
        IBV_QP_MIN_RNR_TIMER,
        "min_rnr_timer",
        new.min_rnr_timer,
        FIVE_BITS,
        "5 bits, a code",
    )?;
    match has(IBV_QP_AV) {
        true => ah::check(&new.ah_attr),
        false => Ok(()),
    }
}

/// Returns the error for a GID that is not a multicast GID.
#[cold]
#[inline(never)]
pub(super) fn no_group() -> Errno {
    refused!(
        EINVAL,
        "the GID is not a multicast GID: these begin with ff or, over RoCE, are the mapped IPv4 \
         address of a group"
    )
}

/// Returns the error for a receive request on a queue pair without a receive queue.
#[cold]
#[inline(never)]
pub(super) fn no_receive_queue() -> Errno {
    refused!(
        EINVAL,
        "the queue pair receives from a shared receive queue, or only sends: post to a shared \
         receive queue with ibv_post_srq_recv"
    )
}

/// Returns the error for a receive request in RESET.
#[cold]
#[inline(never)]
pub(super) fn reset() -> Errno {
    refused!(
        EINVAL,
        "the queue pair is in RESET: move it to INIT with ibv_modify_qp before posting receives"
    )
}

/// Returns the error for too many buffers.
#[cold]
#[inline(never)]
pub(super) fn too_many_buffers(limit: &str, given: usize, allowed: u32) -> Errno {
    refused!(
        EINVAL,
        "num_sge is {given}, and the queue pair was created for {allowed} (cap.{limit})"
    )
}

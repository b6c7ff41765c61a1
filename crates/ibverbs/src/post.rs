//! Posting of work requests: the slots of ibv_post_send(3), ibv_post_recv(3), ibv_post_srq_recv(3)
//! and ibv_bind_mw(3). These are the fast paths: a check of the pointer's tag, one lock for the
//! whole list, and per request a structure of references on the stack.

use libc::c_int;
use verbena_abi::*;
use verbena_hca::qp::SendRequest;
use verbena_hca::qp::send::post::Poster;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::bind::{self, binding, show_key};
use crate::{ah, arguments, mw, outcome, qp, srq};

/// Posts a list of send requests. Stops at the first refused request, and stores its address in
/// `bad`.
///
/// # Safety
/// `qp` must be null or live; `wr` must be a list of valid requests, with live pointers in them;
/// `bad` must be null or valid for writes.
pub unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    wr: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    const CALL: &str = "ibv_post_send";
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        let handle = match qp::of(qp) {
            Ok(handle) => handle,
            Err(error) => return refuse(CALL, error, wr, bad),
        };
        let mut poster = handle.object.qp.poster();
        let mut next = wr;
        while let Some(request) = next.as_ref() {
            if let Err(error) = post_one(&mut poster, handle.object.qp.kind(), request) {
                return refuse(CALL, error, next, bad);
            }
            next = request.next;
        }
    }
    0
}

/// Stores the refused request and returns the error.
#[cold]
#[inline(never)]
unsafe fn refuse<T>(call: &str, error: Errno, wr: *mut T, bad: *mut *mut T) -> c_int {
    // A program that passes NULL does not need it.
    if !bad.is_null() {
        // SAFETY: not null, so valid for writes, as the callers' contracts require.
        unsafe { bad.write(wr) };
    }
    outcome::errno_value(call, Err(error))
}

#[inline]
unsafe fn post_one(poster: &mut Poster<'_>, kind: ibv_qp_type, wr: &ibv_send_wr) -> Result<()> {
    // SAFETY: the program passes valid lists and pointers.
    unsafe {
        let sges = arguments::array(wr.sg_list, wr.num_sge)?;
        if wr.opcode == IBV_WR_RDMA_WRITE && kind == IBV_QPT_RC {
            return post_write(poster, wr, sges);
        }
        let request = request_of(wr, sges);
        match poster.post_by_lane(&request) {
            Some(posted) => posted,
            None => post_otherwise(poster, kind, wr, request),
        }
    }
}

/// Returns a request without the members of its unions but the immediate data.
///
/// # Safety
/// That of [`post_send`].
#[inline(always)]
unsafe fn request_of<'a>(wr: &ibv_send_wr, sges: &'a [ibv_sge]) -> SendRequest<'a> {
    SendRequest {
        wr_id: wr.wr_id,
        opcode: wr.opcode,
        flags: wr.send_flags,
        // SAFETY: the program passes valid requests.
        immediate: unsafe { wr.imm.imm_data },
        sges,
        ..SendRequest::default()
    }
}

/// Posts a write of a reliable queue pair.
///
/// # Safety
/// That of [`post_send`].
#[inline(never)]
unsafe fn post_write(poster: &mut Poster<'_>, wr: &ibv_send_wr, sges: &[ibv_sge]) -> Result<()> {
    // SAFETY: the program passes valid requests; the opcode determines the valid member of the
    // union (ibv_post_send(3)).
    unsafe {
        let request = SendRequest {
            remote_address: wr.wr.rdma.remote_addr,
            rkey: wr.wr.rdma.rkey,
            ..request_of(wr, sges)
        };
        match poster.post_known_write(&request) {
            Some(posted) => posted,
            None => post_otherwise(poster, IBV_QPT_RC, wr, request_of(wr, sges)),
        }
    }
}

/// Posts a request that no lane carries.
///
/// # Safety
/// That of [`post_send`].
#[inline(never)]
unsafe fn post_otherwise(
    poster: &mut Poster<'_>,
    kind: ibv_qp_type,
    wr: &ibv_send_wr,
    mut request: SendRequest<'_>,
) -> Result<()> {
    // SAFETY: the program passes valid lists and pointers; opcode and transport determine the valid
    // member of a union (ibv_post_send(3)).
    unsafe {
        match wr.opcode {
            IBV_WR_RDMA_WRITE
            | IBV_WR_RDMA_WRITE_WITH_IMM
            | IBV_WR_RDMA_READ
            | IBV_WR_ATOMIC_WRITE
            | IBV_WR_FLUSH => {
                request.remote_address = wr.wr.rdma.remote_addr;
                request.rkey = wr.wr.rdma.rkey;
            }
            IBV_WR_ATOMIC_CMP_AND_SWP | IBV_WR_ATOMIC_FETCH_AND_ADD => {
                request.remote_address = wr.wr.atomic.remote_addr;
                request.rkey = wr.wr.atomic.rkey;
                request.compare_add = wr.wr.atomic.compare_add;
                request.swap = wr.wr.atomic.swap;
            }
            IBV_WR_BIND_MW => {
                let wanted = &wr.extra.bind_mw;
                request.bind = Some(bind::bind(wanted.mw, wanted.rkey, &wanted.bind_info)?);
            }
            _ => (),
        }
        match kind {
            IBV_QPT_UD => {
                request.address = Some(ah::of(wr.wr.ud.ah)?);
                request.remote_qpn = wr.wr.ud.remote_qpn;
                request.remote_qkey = wr.wr.ud.remote_qkey;
            }
            IBV_QPT_XRC_SEND => request.srq = wr.qp_type.xrc.remote_srqn,
            _ => (),
        }
        poster.post_otherwise(&request)?;
        if wr.opcode == IBV_WR_BIND_MW {
            show_key(wr.extra.bind_mw.mw, wr.extra.bind_mw.rkey)?;
        }
        Ok(())
    }
}

/// Binds a type 1 window: posts the bind and updates the window's key at once.
///
/// # Safety
/// `qp` and `window` must be null or live; `bind` null or valid, with a live region.
pub unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    window: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_bind_mw", unsafe {
        qp::of(qp).and_then(|handle| {
            let bind = arguments::input(bind)?;
            let object = mw::of(window)?;
            if object.kind() != IBV_MW_TYPE_1 {
                return Err(refused!(
                    EINVAL,
                    "the window has type {}: bind type 2 windows with a work request, \
                     IBV_WR_BIND_MW",
                    object.kind()
                ));
            }
            let key = object.next_key();
            let request = SendRequest {
                wr_id: bind.wr_id,
                opcode: IBV_WR_BIND_MW,
                flags: bind.send_flags,
                immediate: 0,
                sges: &[],
                remote_address: 0,
                rkey: 0,
                compare_add: 0,
                swap: 0,
                srq: 0,
                address: None,
                remote_qpn: 0,
                remote_qkey: 0,
                bind: Some(binding(window, key, &bind.bind_info)?),
            };
            handle.object.qp.poster().post(&request)?;
            (&raw mut (*window).rkey).write(key);
            Ok(())
        })
    })
}

/// Posts a list of receive requests. Stops at the first refused request, and stores its address in
/// `bad`.
///
/// # Safety
/// `qp` must be null or live; `wr` must be a list of valid requests; `bad` must be null or valid
/// for writes.
pub unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        match qp::of(qp) {
            Ok(handle) => {
                let qp = &handle.object.qp;
                post_receives("ibv_post_recv", wr, bad, |wr_id, sges| {
                    qp.post_receive(wr_id, sges)
                })
            }
            Err(error) => refuse("ibv_post_recv", error, wr, bad),
        }
    }
}

/// Like [`post_recv`], for a shared receive queue.
///
/// # Safety
/// That of [`post_recv`].
pub unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        match srq::of(srq) {
            Ok(srq) => post_receives("ibv_post_srq_recv", wr, bad, |wr_id, sges| {
                srq.post(wr_id, sges)
            }),
            Err(error) => refuse("ibv_post_srq_recv", error, wr, bad),
        }
    }
}

#[inline]
unsafe fn post_receives(
    call: &str,
    wr: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
    post: impl Fn(u64, &[ibv_sge]) -> Result<()>,
) -> c_int {
    let mut next = wr;
    // SAFETY: callers promise a list of valid requests.
    unsafe {
        while let Some(request) = next.as_ref() {
            let posted = arguments::array(request.sg_list, request.num_sge)
                .and_then(|sges| post(request.wr_id, sges));
            if let Err(error) = posted {
                return refuse(call, error, next, bad);
            }
            next = request.next;
        }
    }
    0
}

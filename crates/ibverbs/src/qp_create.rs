//! Creation of queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_open_qp(3).

use std::sync::{Arc, Weak};

use verbena_abi::*;
use verbena_hca::qp::multicast_groups::Loopback;
use verbena_hca::qp::{Qp, QpInit};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::acknowledge::Delivered;
use crate::batch::Batch;
use crate::handle::Handle;
use crate::qp::{Opened, QpObject, guard, of, open_queue_pairs};
use crate::{arguments, context, cq, outcome, pd, qp_ex, srq, xrcd};

/// Creates a queue pair; stores its actual sizes in the attributes.
///
/// # Safety
/// `pd` must be null or live; `attributes` must be null or valid, with live pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_qp(
    pd: *mut ibv_pd,
    attributes: *mut ibv_qp_init_attr,
) -> *mut ibv_qp {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_qp", unsafe {
        arguments::in_out(attributes).and_then(|attributes| {
            pd::of(pd)?;
            let mut extended = extend(attributes);
            extended.pd = pd;
            extended.comp_mask = IBV_QP_INIT_ATTR_PD;
            let qp = create(pd::context_of(pd), &mut extended)?;
            attributes.cap = extended.cap;
            Ok(qp)
        })
    })
}

fn extend(plain: &ibv_qp_init_attr) -> ibv_qp_init_attr_ex {
    ibv_qp_init_attr_ex {
        qp_context: plain.qp_context,
        send_cq: plain.send_cq,
        recv_cq: plain.recv_cq,
        srq: plain.srq,
        cap: plain.cap,
        qp_type: plain.qp_type,
        sq_sig_all: plain.sq_sig_all,
        ..Default::default()
    }
}

/// Slot of ibv_create_qp_ex: creates a queue pair with extended attributes.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid, with live pointers.
pub unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_qp_ex", unsafe {
        arguments::in_out(attributes).and_then(|attributes| create(context, attributes))
    })
}

/// # Safety
/// `context` and the pointers in the attributes must be null or live.
unsafe fn create(
    context: *mut ibv_context,
    attributes: &mut ibv_qp_init_attr_ex,
) -> Result<*mut ibv_qp> {
    const KNOWN: u32 = IBV_QP_INIT_ATTR_PD
        | IBV_QP_INIT_ATTR_XRCD
        | IBV_QP_INIT_ATTR_CREATE_FLAGS
        | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    let mask = attributes.comp_mask;
    let has = |bit| mask & bit != 0;
    // SAFETY: the caller promises null, live or valid pointers.
    let opened = unsafe { &context::of(context)?.object.context };
    if mask & !KNOWN != 0 {
        return Err(refused!(
            EOPNOTSUPP,
            "comp_mask requests {:#x}: of the extended attributes, PD, XRCD, CREATE_FLAGS and \
             SEND_OPS_FLAGS are supported (no TSO, no receive hash, no separate work queues)",
            mask & !KNOWN
        ));
    }
    let loopback = match attributes.create_flags {
        _ if !has(IBV_QP_INIT_ATTR_CREATE_FLAGS) => Loopback::Wanted,
        0 => Loopback::Wanted,
        IBV_QP_CREATE_BLOCK_SELF_MCAST_LB if attributes.qp_type == IBV_QPT_UD => Loopback::Blocked,
        flags => {
            return Err(refused!(
                EOPNOTSUPP,
                "create_flags is {flags:#x}: only IBV_QP_CREATE_BLOCK_SELF_MCAST_LB is supported, \
                 for datagram queue pairs"
            ));
        }
    };
    let extended = has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS);
    if extended {
        qp_ex::check_operations(attributes.qp_type, attributes.send_ops_flags)?;
        attributes.cap.max_inline_data = attributes
            .cap
            .max_inline_data
            .max(qp_ex::inline_needed(attributes.send_ops_flags));
    }
    // SAFETY: the caller promises null, live or valid pointers.
    let init = unsafe {
        QpInit {
            kind: attributes.qp_type,
            pd: if has(IBV_QP_INIT_ATTR_PD) {
                Some(pd::of(attributes.pd)?.clone())
            } else {
                None
            },
            send_cq: cq::optional(attributes.send_cq)?.cloned(),
            recv_cq: cq::optional(attributes.recv_cq)?.cloned(),
            srq: srq::optional(attributes.srq)?.cloned(),
            xrcd: if has(IBV_QP_INIT_ATTR_XRCD) {
                Some(xrcd::of(attributes.xrcd)?.clone())
            } else {
                None
            },
            cap: attributes.cap,
            signal_all: attributes.sq_sig_all != 0,
            loopback,
        }
    };
    let qp = Qp::create(opened, init)?;
    attributes.cap = qp.cap();
    let opened = Arc::new(Opened { qp: qp.clone() });
    if qp.kind() == IBV_QPT_XRC_RECV {
        open_queue_pairs().insert(qp.number(), Arc::downgrade(&opened));
    }
    let base = ibv_qp {
        context,
        qp_context: attributes.qp_context,
        pd: if has(IBV_QP_INIT_ATTR_PD) {
            attributes.pd
        } else {
            std::ptr::null_mut()
        },
        send_cq: attributes.send_cq,
        recv_cq: attributes.recv_cq,
        srq: attributes.srq,
        handle: qp.number(),
        qp_num: qp.number(),
        state: IBV_QPS_RESET,
        qp_type: attributes.qp_type,
        ..Default::default()
    };
    let object = QpObject {
        qp,
        opened,
        signal_all: attributes.sq_sig_all != 0,
        asynchronous_events: Delivered::default(),
        batch: extended.then(|| Box::new(Batch::new(attributes.send_ops_flags))),
    };
    let pointer = hand_out(base, object);
    // SAFETY: just created, so it is live.
    unsafe {
        of(pointer)?
            .object
            .qp
            .set_cookie(pointer.expose_provenance())
    };
    Ok(pointer)
}

fn hand_out(qp_base: ibv_qp, object: QpObject) -> *mut ibv_qp {
    let mut c = ibv_qp_ex {
        qp_base,
        ..Default::default()
    };
    qp_ex::fill(&mut c);
    let pointer = Handle::create(c, object).cast::<ibv_qp>();
    // SAFETY: just created, and not in use yet.
    unsafe { guard(pointer).initialise() };
    pointer
}

/// Slot of ibv_open_qp: returns another pointer to an XRC receive queue pair of this process. Its
/// asynchronous events go to the pointer of its creation.
///
/// # Safety
/// `context` must be null or live; `attributes` null or valid, with live pointers.
pub unsafe extern "C" fn open_qp(
    context: *mut ibv_context,
    attributes: *mut ibv_qp_open_attr,
) -> *mut ibv_qp {
    const NEEDED: u32 = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_open_qp", unsafe {
        context::of(context).and_then(|_| {
            let attributes = arguments::input(attributes)?;
            let mask = attributes.comp_mask;
            if mask >= IBV_QP_OPEN_ATTR_RESERVED
                || mask & NEEDED != NEEDED
                || attributes.qp_type != IBV_QPT_XRC_RECV
            {
                return Err(refused!(
                    EINVAL,
                    "comp_mask is {mask:#x} and qp_type {}: IBV_QP_OPEN_ATTR_NUM, _XRCD and _TYPE \
                     are needed, and only IBV_QPT_XRC_RECV can be opened",
                    attributes.qp_type
                ));
            }
            let domain = xrcd::of(attributes.xrcd)?;
            let opened = open_queue_pairs()
                .get(&attributes.qp_num)
                .and_then(Weak::upgrade)
                .filter(|opened| opened.qp.xrcd().is_some_and(|own| own.is_same(domain)))
                .ok_or_else(|| {
                    refused!(
                        ENOENT,
                        "qp_num {:#x} is not an IBV_QPT_XRC_RECV queue pair of this process and \
                         this XRC domain",
                        attributes.qp_num
                    )
                })?;
            opened.qp.note_opened();
            let has_context = mask & IBV_QP_OPEN_ATTR_CONTEXT != 0;
            let base = ibv_qp {
                context,
                qp_context: if has_context {
                    attributes.qp_context
                } else {
                    std::ptr::null_mut()
                },
                handle: attributes.qp_num,
                qp_num: attributes.qp_num,
                state: opened.qp.state(),
                qp_type: attributes.qp_type,
                ..Default::default()
            };
            let object = QpObject {
                qp: opened.qp.clone(),
                opened,
                signal_all: false,
                asynchronous_events: Delivered::default(),
                batch: None,
            };
            Ok(hand_out(base, object))
        })
    })
}

//! Queue pairs: ibv_create_qp(3), ibv_create_qp_ex(3), ibv_open_qp(3), ibv_modify_qp(3),
//! ibv_query_qp(3), ibv_query_qp_data_in_order(3), ibv_attach_mcast(3), ibv_set_ece(3). Every queue
//! pair has the extended structure; posting is in `post` and `qp_ex`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use libc::c_int;
use verbena_abi::*;
use verbena_hca::qp::multicast::Loopback;
use verbena_hca::qp::{Qp, QpInit};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::acknowledge::{Delivered, Guard};
use crate::batch::Batch;
use crate::handle::{Handle, Object};
use crate::{context, cq, door, outcome, pd, qp_ex, srq, xrcd};

/// A queue pair.
pub struct QpObject {
    /// The adapter's object.
    pub qp: Arc<Qp>,
    /// Shared by all pointers to the same queue pair; destroying the last one destroys the queue
    /// pair.
    opened: Arc<Opened>,
    signal_all: bool,
    /// Asynchronous events delivered to the program.
    pub asynchronous_events: Delivered,
    /// The batch of the extended posting interface, if the program requested it.
    pub batch: Option<Box<Batch>>,
}

impl Object for QpObject {
    type C = ibv_qp_ex;
    const TAG: [u8; 4] = *b"qp  ";
}

struct Opened {
    qp: Arc<Qp>,
}

/// Queue pairs that ibv_open_qp can open, by number: the receiving sides of XRC.
static OPEN: Mutex<BTreeMap<u32, Weak<Opened>>> = Mutex::new(BTreeMap::new());

fn open_queue_pairs() -> MutexGuard<'static, BTreeMap<u32, Weak<Opened>>> {
    OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Returns the handle of a queue pair.
///
/// # Errors
/// EINVAL if it is no queue pair.
///
/// # Safety
/// `qp` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(qp: *mut ibv_qp) -> Result<&'a Handle<QpObject>> {
    // SAFETY: null or live, as the caller promises; every queue pair has the extended structure.
    unsafe { Handle::of(qp.cast()) }
}

fn guard(qp: *mut ibv_qp) -> Guard {
    // SAFETY: only addresses are computed, from a live pointer of the caller.
    unsafe { Guard::of(&raw mut (*qp).mutex, &raw mut (*qp).cond) }
}

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
        door::in_out(attributes).and_then(|attributes| {
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
        door::in_out(attributes).and_then(|attributes| create(context, attributes))
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
            let attributes = door::input(attributes)?;
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

/// Returns the extended pointer of a queue pair that was created for it, else NULL.
///
/// # Safety
/// `qp` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the caller promises null, live or valid pointers.
    match unsafe { of(qp) } {
        Ok(handle) if handle.object.batch.is_some() => handle.c(),
        _ => std::ptr::null_mut(),
    }
}

/// Changes state and attributes, all or none.
///
/// # Safety
/// `qp` must be null or live; `attributes` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_qp(
    qp: *mut ibv_qp,
    attributes: *mut ibv_qp_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_modify_qp", unsafe {
        of(qp).and_then(|handle| {
            let attributes = door::input(attributes)?;
            handle.object.qp.modify(attributes, mask)?;
            if mask & IBV_QP_STATE != 0 {
                (&raw mut (*qp).state).write(attributes.qp_state);
            }
            Ok(())
        })
    })
}

/// Returns the current attributes and the initial ones. All are filled in, regardless of the mask.
///
/// # Safety
/// `qp` must be null or live; `attributes` and `init` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_qp(
    qp: *mut ibv_qp,
    attributes: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_qp", unsafe {
        of(qp).and_then(|handle| {
            let now = handle.object.qp.query();
            let made = ibv_qp_init_attr {
                qp_context: (*qp).qp_context,
                send_cq: (*qp).send_cq,
                recv_cq: (*qp).recv_cq,
                srq: (*qp).srq,
                cap: handle.object.qp.cap(),
                qp_type: (*qp).qp_type,
                sq_sig_all: c_int::from(handle.object.signal_all),
            };
            door::output(attributes, now)?;
            door::output(init, made)?;
            (&raw mut (*qp).state).write(now.qp_state);
            Ok(())
        })
    })
}

/// Destroys a queue pair after all its events are acknowledged. Fails while it is attached to a
/// multicast group.
///
/// # Safety
/// `qp` must be null or live, and only be used for acknowledgements afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_destroy_qp",
        unsafe { of(qp) }.and_then(|handle| {
            {
                // The lock prevents that it is opened again meanwhile.
                let mut open = open_queue_pairs();
                if Arc::strong_count(&handle.object.opened) == 1 {
                    handle.object.qp.destroy()?;
                    open.remove(&handle.object.qp.number());
                }
            }
            // SAFETY: live, and not used again once the events are acknowledged.
            unsafe {
                let counter = &raw const (*qp).events_completed;
                guard(qp).wait(counter, &handle.object.asynchronous_events);
                Handle::<QpObject>::destroy(handle.c());
            }
            Ok(())
        }),
    )
}

/// Acknowledges an asynchronous event.
///
/// # Safety
/// `qp` must be null or live.
pub unsafe fn acknowledge_asynchronous(qp: *mut ibv_qp) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if of(qp).is_ok() {
            guard(qp).acknowledge(&raw mut (*qp).events_completed, 1);
        }
    }
}

/// Returns 0: the adapter's copies do not guarantee that the data of a work request appears in
/// memory in order.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_query_qp_data_in_order(
    _qp: *mut ibv_qp,
    _operation: ibv_wr_opcode,
    _flags: u32,
) -> c_int {
    0
}

/// Attaches a datagram queue pair to a multicast group.
///
/// # Safety
/// `qp` must be null or live; `gid` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_attach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_attach_mcast", unsafe {
        of(qp).and_then(|handle| handle.object.qp.attach(*door::input(gid)?))
    })
}

/// Detaches a queue pair from a multicast group.
///
/// # Safety
/// `qp` must be null or live; `gid` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_detach_mcast(
    qp: *mut ibv_qp,
    gid: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_detach_mcast", unsafe {
        of(qp).and_then(|handle| handle.object.qp.detach(*door::input(gid)?))
    })
}

/// Fails: there are no options of enhanced connection establishment. Vendor 0 sets no options,
/// which librdmacm does for each connection: it gets rdma-core's result, without a report of a
/// refusal.
///
/// # Safety
/// `ece` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_set_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    if unsafe { ece.as_ref() }.is_some_and(|ece| ece.vendor_id == 0) {
        outcome::absent(Errno(libc::EOPNOTSUPP));
        return libc::EOPNOTSUPP;
    }
    outcome::errno_value(
        "ibv_set_ece",
        Err(refused!(
            EOPNOTSUPP,
            "the device has no options of enhanced connection establishment: connect without them"
        )),
    )
}

/// Returns vendor 0: there are no options of enhanced connection establishment. Not reported as a
/// refusal, as librdmacm queries every queue pair that it connects.
///
/// # Safety
/// `ece` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_ece(_qp: *mut ibv_qp, ece: *mut ibv_ece) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    match unsafe { door::output(ece, ibv_ece::default()) } {
        Ok(()) => {
            outcome::absent(Errno(libc::EOPNOTSUPP));
            libc::EOPNOTSUPP
        }
        refused => outcome::errno_value("ibv_query_ece", refused),
    }
}

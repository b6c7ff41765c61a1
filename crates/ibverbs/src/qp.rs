//! Queue pairs: ibv_modify_qp(3), ibv_query_qp(3), ibv_query_qp_data_in_order(3),
//! ibv_attach_mcast(3), ibv_set_ece(3). Every queue pair has the extended structure; creation is in
//! `qp_create`, posting in `post` and `qp_ex`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use libc::c_int;
use verbena_abi::*;
use verbena_hca::qp::Qp;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::acknowledge::{Delivered, Guard};
use crate::batch::Batch;
use crate::handle::{Handle, Object};
use crate::{arguments, outcome};

/// A queue pair.
pub struct QpObject {
    /// The adapter's object.
    pub qp: Arc<Qp>,
    /// Shared by all pointers to the same queue pair; destroying the last one destroys the queue
    /// pair.
    pub(crate) opened: Arc<Opened>,
    /// Whether every send request generates a completion.
    pub(crate) signal_all: bool,
    /// Asynchronous events delivered to the program.
    pub asynchronous_events: Delivered,
    /// The batch of the extended posting interface, if the program requested it.
    pub batch: Option<Box<Batch>>,
}

impl Object for QpObject {
    type C = ibv_qp_ex;
    const TAG: [u8; 4] = *b"qp  ";
}

/// The adapter's object behind all pointers to a queue pair.
pub(crate) struct Opened {
    pub(crate) qp: Arc<Qp>,
}

/// Queue pairs that ibv_open_qp can open, by number: the receiving sides of XRC.
static OPEN: Mutex<BTreeMap<u32, Weak<Opened>>> = Mutex::new(BTreeMap::new());

/// Locks the queue pairs that can be opened.
pub(crate) fn open_queue_pairs() -> MutexGuard<'static, BTreeMap<u32, Weak<Opened>>> {
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

/// Returns the lock and the condition variable of a queue pair's acknowledgements.
pub(crate) fn guard(qp: *mut ibv_qp) -> Guard {
    // SAFETY: only addresses are computed, from a live pointer of the caller.
    unsafe { Guard::of(&raw mut (*qp).mutex, &raw mut (*qp).cond) }
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
            let attributes = arguments::input(attributes)?;
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
            arguments::output(attributes, now)?;
            arguments::output(init, made)?;
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
        of(qp).and_then(|handle| handle.object.qp.attach(*arguments::input(gid)?))
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
        of(qp).and_then(|handle| handle.object.qp.detach(*arguments::input(gid)?))
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
    match unsafe { arguments::output(ece, ibv_ece::default()) } {
        Ok(()) => {
            outcome::absent(Errno(libc::EOPNOTSUPP));
            libc::EOPNOTSUPP
        }
        refused => outcome::errno_value("ibv_query_ece", refused),
    }
}

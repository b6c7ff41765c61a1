//! Shared receive queues: ibv_create_srq(3), ibv_create_srq_ex(3), ibv_modify_srq(3),
//! ibv_query_srq(3), ibv_get_srq_num(3), ibv_post_srq_ops(3). Posting of receives is in `post`.

use std::sync::Arc;

use libc::{c_int, c_void};
use verbena_abi::*;
use verbena_hca::srq::Srq;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::acknowledge::{Delivered, Guard};
use crate::handle::{Handle, Object};
use crate::{arguments, context, cq, outcome, pd, xrcd};

/// A shared receive queue.
pub struct SrqObject {
    /// The adapter's object.
    pub srq: Arc<Srq>,
    /// Asynchronous events delivered to the program.
    pub asynchronous_events: Delivered,
}

impl Object for SrqObject {
    type C = ibv_srq;
    const TAG: [u8; 4] = *b"srq ";
}

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no shared receive queue.
///
/// # Safety
/// `srq` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(srq: *mut ibv_srq) -> Result<&'a Arc<Srq>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<SrqObject>::of(srq) }.map(|handle| &handle.object.srq)
}

/// Like [`of`], but returns `None` for null.
///
/// # Errors
/// EINVAL if it is neither null nor a shared receive queue.
///
/// # Safety
/// That of [`of`].
pub unsafe fn optional<'a>(srq: *mut ibv_srq) -> Result<Option<&'a Arc<Srq>>> {
    if srq.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { of(srq) }.map(Some)
}

fn guard(c: *mut ibv_srq) -> Guard {
    // SAFETY: only addresses are computed, from a live pointer of the caller.
    unsafe { Guard::of(&raw mut (*c).mutex, &raw mut (*c).cond) }
}

/// Creates a basic queue; stores its actual size in the attributes.
///
/// # Safety
/// `pd` must be null or live; `attributes` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_srq(
    pd: *mut ibv_pd,
    attributes: *mut ibv_srq_init_attr,
) -> *mut ibv_srq {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_srq", unsafe {
        arguments::in_out(attributes)
            .and_then(|attributes| create(pd, attributes.srq_context, &mut attributes.attr, None))
    })
}

/// Slot of ibv_create_srq_ex: creates a basic or XRC shared receive queue.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid, with live pointers.
pub unsafe extern "C" fn create_srq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_srq_ex", unsafe {
        context::of(context)
            .and_then(|_| arguments::in_out(attributes))
            .and_then(|attributes| create_ex(attributes))
    })
}

unsafe fn create_ex(attributes: &mut ibv_srq_init_attr_ex) -> Result<*mut ibv_srq> {
    const XRC: u32 = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    let mask = attributes.comp_mask;
    let has = |bits| mask & bits == bits;
    if mask >= IBV_SRQ_INIT_ATTR_RESERVED || !has(IBV_SRQ_INIT_ATTR_PD) {
        return Err(refused!(
            EINVAL,
            "comp_mask is {mask:#x}: IBV_SRQ_INIT_ATTR_PD is needed, and no flag above \
             IBV_SRQ_INIT_ATTR_TM is supported"
        ));
    }
    let kind = if has(IBV_SRQ_INIT_ATTR_TYPE) {
        attributes.srq_type
    } else {
        IBV_SRQT_BASIC
    };
    let xrc = match kind {
        IBV_SRQT_BASIC => None,
        IBV_SRQT_XRC if has(XRC) => {
            // SAFETY: callers promise null or live pointers in the attributes.
            let (xrcd, cq) = unsafe {
                (
                    xrcd::of(attributes.xrcd)?,
                    &cq::of(attributes.cq)?.object.cq,
                )
            };
            Some((xrcd.clone(), cq.clone()))
        }
        IBV_SRQT_TM => {
            return Err(refused!(
                EOPNOTSUPP,
                "srq_type is IBV_SRQT_TM, and the device does not match tags (tm_caps): match \
                 them in the program"
            ));
        }
        IBV_SRQT_XRC => {
            return Err(refused!(
                EINVAL,
                "srq_type is IBV_SRQT_XRC, and comp_mask {mask:#x} lacks IBV_SRQ_INIT_ATTR_XRCD or \
                 IBV_SRQ_INIT_ATTR_CQ"
            ));
        }
        _ => {
            return Err(refused!(
                EINVAL,
                "srq_type is {kind}, which is unknown: give IBV_SRQT_BASIC or IBV_SRQT_XRC"
            ));
        }
    };
    // SAFETY: callers promise null or live pointers in the attributes.
    unsafe {
        create(
            attributes.pd,
            attributes.srq_context,
            &mut attributes.attr,
            xrc,
        )
    }
}

type XrcParts = (Arc<verbena_hca::xrcd::Xrcd>, Arc<verbena_hca::process::Cq>);

unsafe fn create(
    pd: *mut ibv_pd,
    srq_context: *mut c_void,
    attributes: &mut ibv_srq_attr,
    xrc: Option<XrcParts>,
) -> Result<*mut ibv_srq> {
    // SAFETY: callers promise a null or live `pd`.
    let (domain, context) = unsafe { (pd::of(pd)?, pd::context_of(pd)) };
    // SAFETY: the context of a live domain is live.
    let adapter = unsafe { &context::of(context)?.object.context };
    let srq = Srq::create(adapter, domain, attributes.max_wr, attributes.max_sge, xrc)?;
    let actual = srq.query();
    attributes.max_wr = actual.max_wr;
    attributes.max_sge = actual.max_sge;
    let c = ibv_srq {
        context,
        srq_context,
        pd,
        handle: srq.number(),
        ..Default::default()
    };
    let object = SrqObject {
        srq,
        asynchronous_events: Delivered::default(),
    };
    let pointer = Handle::create(c, object);
    // SAFETY: just created, so it is live.
    unsafe {
        guard(pointer).initialise();
        of(pointer)?.set_cookie(pointer as usize);
    }
    Ok(pointer)
}

/// Changes size or limit.
///
/// # Safety
/// `srq` must be null or live; `attributes` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_modify_srq(
    srq: *mut ibv_srq,
    attributes: *mut ibv_srq_attr,
    mask: c_int,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_modify_srq", unsafe {
        of(srq).and_then(|srq| {
            let attributes = arguments::input(attributes)?;
            if mask & !(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT) != 0 {
                return Err(refused!(
                    EINVAL,
                    "the mask is {mask:#x}, and only IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT are supported"
                ));
            }
            let max_wr = (mask & IBV_SRQ_MAX_WR != 0).then_some(attributes.max_wr);
            let limit = (mask & IBV_SRQ_LIMIT != 0).then_some(attributes.srq_limit);
            srq.modify(max_wr, limit)
        })
    })
}

/// Returns size, buffers per request and limit.
///
/// # Safety
/// `srq` must be null or live; `attributes` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_srq(srq: *mut ibv_srq, attributes: *mut ibv_srq_attr) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_srq", unsafe {
        of(srq).and_then(|srq| arguments::output(attributes, srq.query()))
    })
}

/// Slot of ibv_get_srq_num: returns the number by which XRC senders address the queue.
///
/// # Safety
/// `srq` must be null or live; `number` must be null or valid for writes.
pub unsafe extern "C" fn get_srq_num(srq: *mut ibv_srq, number: *mut u32) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_get_srq_num", unsafe {
        of(srq).and_then(|srq| match srq.number() {
            0 => Err(refused!(
                EINVAL,
                "a basic shared receive queue has no number: create it with IBV_SRQT_XRC"
            )),
            of_srq => arguments::output(number, of_srq),
        })
    })
}

/// Destroys a queue after all its events are acknowledged. Fails while queue pairs use it.
///
/// # Safety
/// `srq` must be null or live, and only be used for acknowledgements afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_destroy_srq",
        unsafe { Handle::<SrqObject>::of(srq) }.and_then(|handle| {
            handle.object.srq.destroy()?;
            // SAFETY: live, and not used again once the events are acknowledged.
            unsafe {
                let counter = &raw const (*srq).events_completed;
                guard(srq).wait(counter, &handle.object.asynchronous_events);
                Handle::<SrqObject>::destroy(srq);
            }
            Ok(())
        }),
    )
}

/// Acknowledges an asynchronous event.
///
/// # Safety
/// `srq` must be null or live.
pub unsafe fn acknowledge_asynchronous(srq: *mut ibv_srq) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if of(srq).is_ok() {
            guard(srq).acknowledge(&raw mut (*srq).events_completed, 1);
        }
    }
}

/// Slot of ibv_post_srq_ops: refuses the first operation. All are for tag matching, which no queue
/// here supports.
///
/// # Safety
/// `bad` must be null or valid for writes.
pub unsafe extern "C" fn post_srq_ops(
    _srq: *mut ibv_srq,
    operations: *mut ibv_ops_wr,
    bad: *mut *mut ibv_ops_wr,
) -> c_int {
    if !bad.is_null() {
        // SAFETY: not null, so valid for writes, as the caller promises.
        unsafe { bad.write(operations) };
    }
    let error = refused!(
        EOPNOTSUPP,
        "the device does not match tags (tm_caps of ibv_query_device_ex): match them in the program"
    );
    outcome::errno_value("ibv_post_srq_ops", Err(error))
}

//! Creation of completion queues: ibv_create_cq(3), ibv_create_cq_ex(3).

use libc::{c_int, c_void};
use verbena_abi::*;
use verbena_hca::cq::{Cq, CqInit, OnOverrun, Polled, Timestamps};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::acknowledge::Delivered;
use crate::cq::{CqObject, count_in_channel, guard, not_a_size};
use crate::current_completion::Current;
use crate::handle::Handle;
use crate::{arguments, channel, context, cq_ex, outcome, pd};

/// Creates a completion queue.
///
/// # Safety
/// `context` and `channel` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    cqe: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    comp_vector: c_int,
) -> *mut ibv_cq {
    let attributes = u32::try_from(cqe)
        .map_err(|_| not_a_size(cqe))
        .and_then(|cqe| {
            let comp_vector = u32::try_from(comp_vector)
                .map_err(|_| refused!(EINVAL, "comp_vector is {comp_vector}: give 0 or more"))?;
            Ok(ibv_cq_init_attr_ex {
                cqe,
                cq_context,
                channel,
                comp_vector,
                ..Default::default()
            })
        });
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_cq", unsafe {
        attributes
            .and_then(|attributes| create(context, &attributes, Promises::default()))
            .map(|cq| cq.cast())
    })
}

/// Slot of ibv_create_cq_ex: creates an extended completion queue.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid, with live pointers.
pub unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attributes: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    const KNOWN: u32 = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const KNOWN_FLAGS: u32 = IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_create_cq_ex", unsafe {
        arguments::input(attributes).and_then(|attributes| {
            if attributes.comp_mask & !KNOWN != 0 {
                return Err(refused!(
                    EINVAL,
                    "comp_mask is {:#x}, and only IBV_CQ_INIT_ATTR_MASK_FLAGS and _PD are \
                     supported",
                    attributes.comp_mask
                ));
            }
            let unreadable = attributes.wc_flags & !cq_ex::READABLE;
            if unreadable != 0 {
                return Err(refused!(
                    EOPNOTSUPP,
                    "wc_flags requests {unreadable:#x}, which the device does not support (VLAN, \
                     flow tag, tag matching): it supports IBV_WC_STANDARD_FLAGS and both \
                     completion timestamps"
                ));
            }
            let flags = attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
            if flags && attributes.flags & !KNOWN_FLAGS != 0 {
                return Err(refused!(
                    EOPNOTSUPP,
                    "flags is {:#x}, and only IBV_CREATE_CQ_ATTR_SINGLE_THREADED and \
                     _IGNORE_OVERRUN are supported",
                    attributes.flags
                ));
            }
            let mut promises = Promises::default();
            if flags && attributes.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
                promises.polled = Polled::ByOne;
            }
            if flags && attributes.flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN != 0 {
                promises.on_overrun = OnOverrun::Ignore;
            }
            // A queue is not part of the domain, but its thread domain determines the polling
            // threads.
            if attributes.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD != 0
                && pd::is_of_one_thread(attributes.parent_domain)?
            {
                promises.polled = Polled::ByOne;
            }
            create(context, attributes, promises)
        })
    })
}

/// Promises of the program about its use of a queue.
#[derive(Default)]
struct Promises {
    polled: Polled,
    on_overrun: OnOverrun,
}

unsafe fn create(
    context: *mut ibv_context,
    attributes: &ibv_cq_init_attr_ex,
    promises: Promises,
) -> Result<*mut ibv_cq_ex> {
    const TIMES: u64 =
        IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    // SAFETY: callers promise null, live or valid pointers.
    let (opened, vectors) = unsafe {
        (
            &context::of(context)?.object.context,
            (*context).num_comp_vectors,
        )
    };
    if i64::from(attributes.comp_vector) >= i64::from(vectors) {
        return Err(refused!(
            EINVAL,
            "comp_vector is {}, and the context has {vectors} (num_comp_vectors)",
            attributes.comp_vector
        ));
    }
    let channel = if attributes.channel.is_null() {
        None
    } else {
        // SAFETY: callers promise null, live or valid pointers.
        Some(unsafe { channel::of(attributes.channel) }?.clone())
    };
    let times = attributes.wc_flags & TIMES != 0;
    let times = if times {
        Timestamps::On
    } else {
        Timestamps::Off
    };
    let init = CqInit {
        entries: attributes.cqe,
        channel,
        timestamps: times,
        polled: promises.polled,
        on_overrun: promises.on_overrun,
    };
    let cq = Cq::create_with(&opened.process, &opened.events, init)?;
    let mut c = ibv_cq_ex {
        context,
        channel: attributes.channel,
        cq_context: attributes.cq_context,
        cqe: cq.capacity() as c_int,
        ..Default::default()
    };
    cq_ex::fill(&mut c, cq.has_rules());
    let object = CqObject {
        cq,
        completion_events: Delivered::default(),
        asynchronous_events: Delivered::default(),
        current: Current::of(promises.polled),
    };
    let pointer = Handle::create(c, object);
    // SAFETY: just created, so it is live; the channel was checked above.
    unsafe {
        guard(pointer).initialise();
        Handle::<CqObject>::of(pointer)?
            .object
            .cq
            .set_cookie(pointer as usize);
        count_in_channel(attributes.channel, 1);
    }
    Ok(pointer)
}

//! Completion queues: ibv_resize_cq(3), ibv_poll_cq(3), ibv_req_notify_cq(3), ibv_modify_cq(3).
//! Every queue has the extended structure; `cq_ex` has the extended interface, `cq_create` the
//! creation.

use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::cq::Found;
use verbena_hca::process::{Cq, SeenChannels};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::lock::Guard as LockGuard;
use verbena_hca_os::refused;

use crate::acknowledge::{Delivered, Guard};
use crate::current_completion::Current;
use crate::handle::{Handle, Object};
use crate::{arguments, outcome};

/// A completion queue.
pub struct CqObject {
    /// The adapter's object.
    pub cq: Arc<Cq>,
    /// Completion events delivered to the program.
    pub completion_events: Delivered,
    /// Asynchronous events delivered to the program.
    pub asynchronous_events: Delivered,
    /// The current completion of the extended interface.
    pub current: Current,
}

impl Object for CqObject {
    type C = ibv_cq_ex;
    const TAG: [u8; 4] = *b"cq  ";
}

/// Returns the handle of a queue.
///
/// # Errors
/// EINVAL if it is no completion queue.
///
/// # Safety
/// `cq` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(cq: *mut ibv_cq) -> Result<&'a Handle<CqObject>> {
    // SAFETY: null or live, as the caller promises; every queue has the extended structure.
    unsafe { Handle::of(cq.cast()) }
}

/// Like [`of`], but returns `None` for null.
///
/// # Errors
/// EINVAL if it is neither null nor a completion queue.
///
/// # Safety
/// That of [`of`].
pub unsafe fn optional<'a>(cq: *mut ibv_cq) -> Result<Option<&'a Arc<Cq>>> {
    if cq.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { of(cq) }.map(|handle| Some(&handle.object.cq))
}

/// Returns the lock and the condition variable of a queue's acknowledgements.
pub(crate) fn guard(c: *mut ibv_cq_ex) -> Guard {
    // SAFETY: only addresses are computed, from a live pointer of the caller.
    unsafe { Guard::of(&raw mut (*c).mutex, &raw mut (*c).cond) }
}

/// Returns the error for a negative number of entries.
#[cold]
pub(crate) fn not_a_size(cqe: c_int) -> Errno {
    refused!(EINVAL, "cqe is {cqe}: give 1 or more")
}

/// Updates `refcnt`, the number of queues that use a channel.
///
/// # Safety
/// `channel` must be null or live.
pub(crate) unsafe fn count_in_channel(channel: *mut ibv_comp_channel, change: i32) {
    if !channel.is_null() {
        // SAFETY: not null, so live; atomic, as several threads may do this at once.
        unsafe { AtomicI32::from_ptr(&raw mut (*channel).refcnt) }
            .fetch_add(change, Ordering::Relaxed);
    }
}

/// Changes a queue's size.
///
/// # Safety
/// `cq` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_resize_cq(cq: *mut ibv_cq, cqe: c_int) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_resize_cq",
        unsafe { of(cq) }.and_then(|handle| {
            let entries = u32::try_from(cqe).map_err(|_| not_a_size(cqe))?;
            handle.object.cq.resize(entries)?;
            // SAFETY: live, and the program only reads this field.
            unsafe { (&raw mut (*cq).cqe).write(handle.object.cq.capacity() as c_int) };
            Ok(())
        }),
    )
}

/// Destroys a queue after all its events are acknowledged. Fails while queue pairs use it.
///
/// # Safety
/// `cq` must be null or live, and only be used for acknowledgements afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_destroy_cq",
        unsafe { of(cq) }.and_then(|handle| {
            let object = &handle.object;
            object.cq.destroy()?;
            let c = handle.c();
            // SAFETY: live, and not used again once the events are acknowledged.
            unsafe {
                let guard = guard(c);
                guard.wait(
                    &raw const (*c).comp_events_completed,
                    &object.completion_events,
                );
                guard.wait(
                    &raw const (*c).async_events_completed,
                    &object.asynchronous_events,
                );
                count_in_channel((*c).channel, -1);
                Handle::<CqObject>::destroy(c);
            }
            Ok(())
        }),
    )
}

/// Acknowledges an asynchronous event.
///
/// # Safety
/// `cq` must be null or live.
pub unsafe fn acknowledge_asynchronous(cq: *mut ibv_cq) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if let Ok(handle) = of(cq) {
            let c = handle.c();
            guard(c).acknowledge(&raw mut (*c).async_events_completed, 1);
        }
    }
}

/// Slot of ibv_poll_cq: returns up to `count` completions; a negative result is an error.
///
/// # Safety
/// `cq` must be null or live; `wc` must have `count` elements.
pub unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        // Only last calls, with the arguments as they are: nothing to save on the stack.
        match of(cq) {
            Ok(handle) if count > 0 && !wc.is_null() => match handle.object.cq.look() {
                Found::Nothing => 0,
                Found::Lanes(view) => poll_lanes(cq, count, wc, view),
                Found::Work => poll_any(cq, count, wc),
            },
            _ => poll_any(cq, count, wc),
        }
    }
}

/// As [`poll_cq`], for usual arguments, where the queue's lanes have something.
///
/// # Safety
/// As [`poll_cq`], with pointers that are not null.
#[inline(never)]
unsafe fn poll_lanes(
    cq: *mut ibv_cq,
    count: c_int,
    wc: *mut ibv_wc,
    view: LockGuard<'_, SeenChannels>,
) -> c_int {
    // SAFETY: the caller promises live and valid pointers.
    unsafe {
        let target = slice::from_raw_parts_mut(wc, count as usize);
        let handle = Handle::<CqObject>::known(cq.cast());
        handle.object.cq.poll_lanes(view, target) as c_int
    }
}

/// As [`poll_cq`], after a look that found work, or for unusual arguments.
///
/// # Safety
/// That of [`poll_cq`].
#[inline(never)]
unsafe extern "C" fn poll_any(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    let result = unsafe {
        of(cq).and_then(|handle| Ok(handle.object.cq.poll_work(arguments::array_mut(wc, count)?)))
    };
    outcome::negative("ibv_poll_cq", result.map(|polled| polled as c_int))
}

/// As [`poll_cq`], where rules are about completion queues.
///
/// # Safety
/// That of [`poll_cq`].
pub unsafe extern "C" fn poll_cq_by_rules(cq: *mut ibv_cq, count: c_int, wc: *mut ibv_wc) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    let result = unsafe {
        of(cq).and_then(|handle| {
            let target = arguments::array_mut(wc, count)?;
            Ok(handle.object.cq.poll_by_rules(target))
        })
    };
    outcome::negative("ibv_poll_cq", result.map(|polled| polled as c_int))
}

/// Slot of ibv_req_notify_cq: requests an event for the next completion.
///
/// # Safety
/// `cq` must be null or live.
pub unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_req_notify_cq",
        unsafe { of(cq) }.map(|handle| handle.object.cq.arm(solicited_only != 0)),
    )
}

/// Slot of ibv_modify_cq: sets event moderation.
///
/// # Safety
/// `cq` must be null or live; `attributes` must be null or valid.
pub unsafe extern "C" fn modify_cq(cq: *mut ibv_cq, attributes: *mut ibv_modify_cq_attr) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_modify_cq", unsafe {
        of(cq).and_then(|handle| {
            let attributes = arguments::input(attributes)?;
            if attributes.attr_mask >= IBV_CQ_ATTR_RESERVED {
                return Err(refused!(
                    EOPNOTSUPP,
                    "attr_mask is {:#x}, and only IBV_CQ_ATTR_MODERATE is supported",
                    attributes.attr_mask
                ));
            }
            if attributes.attr_mask & IBV_CQ_ATTR_MODERATE != 0 {
                let period = Duration::from_micros(attributes.moderate.cq_period.into());
                handle
                    .object
                    .cq
                    .moderate(attributes.moderate.cq_count, period);
            }
            Ok(())
        })
    })
}

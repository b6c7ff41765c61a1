//! Completion events: ibv_get_cq_event(3), ibv_ack_cq_events(3).

use libc::{c_int, c_uint, c_void};
use verbena_abi::*;

use crate::cq::{CqObject, guard, of};
use crate::handle::Handle;
use crate::{arguments, channel, outcome};

/// Waits for the next event of the channel, or fails with EAGAIN if its descriptor does not block.
///
/// # Safety
/// `channel` must be null or live; `cq` and `cq_context` null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_get_cq_event", unsafe {
        channel::of(channel).and_then(|channel| {
            // The cookie is the queue's pointer. It stays valid, as the queue's destruction first
            // removes its events from the channel and then waits for those counted here.
            let cookie = channel.next_with(|cookie| {
                if let Ok(handle) = Handle::<CqObject>::of(*cookie as *mut ibv_cq_ex) {
                    handle.object.completion_events.count();
                }
            })?;
            let queue = cookie as *mut ibv_cq_ex;
            arguments::output(cq, queue.cast())?;
            arguments::output(cq_context, (*queue).cq_context)
        })
    })
}

/// Acknowledges completion events.
///
/// # Safety
/// `cq` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, events: c_uint) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if let Ok(handle) = of(cq) {
            let c = handle.c();
            guard(c).acknowledge(&raw mut (*c).comp_events_completed, events);
        }
    }
}

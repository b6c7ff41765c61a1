//! Completion channels: ibv_create_comp_channel(3), ibv_get_cq_event(3).

use std::sync::Arc;

use libc::{c_int, c_void};
use verbena_abi::*;
use verbena_hca::event::CompletionChannel;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::cq::CqObject;
use crate::handle::{Handle, Object};
use crate::{context, door, outcome};

/// A completion channel.
pub struct ChannelObject {
    /// The adapter's object.
    pub channel: Arc<CompletionChannel>,
}

impl Object for ChannelObject {
    type C = ibv_comp_channel;
    const TAG: [u8; 4] = *b"chan";
}

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no channel.
///
/// # Safety
/// `channel` must be null or live, and stay so while the result is used.
pub unsafe fn of<'a>(channel: *mut ibv_comp_channel) -> Result<&'a Arc<CompletionChannel>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<ChannelObject>::of(channel) }.map(|handle| &handle.object.channel)
}

/// Creates a channel.
///
/// # Safety
/// `context` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer(
        "ibv_create_comp_channel",
        unsafe { context::of(context) }.and_then(|_| {
            let channel = Arc::new(CompletionChannel::new()?);
            let c = ibv_comp_channel {
                context,
                fd: channel.fd(),
                refcnt: 0,
            };
            Ok(Handle::create(c, ChannelObject { channel }))
        }),
    )
}

/// Destroys a channel. Fails while completion queues use it.
///
/// # Safety
/// `channel` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_destroy_comp_channel",
        unsafe { of(channel) }.and_then(|_| {
            // SAFETY: live, and not used again; completion queues change the counter without a
            // lock, but the program must not create queues of a channel that it destroys.
            unsafe {
                if (*channel).refcnt > 0 {
                    return Err(refused!(
                        EBUSY,
                        "{} completion queues use the channel: ibv_destroy_cq them first",
                        (*channel).refcnt
                    ));
                }
                Handle::<ChannelObject>::destroy(channel);
            }
            Ok(())
        }),
    )
}

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
        of(channel).and_then(|channel| {
            // The cookie is the queue's pointer. It stays valid, as the queue's destruction first
            // removes its events from the channel and then waits for those counted here.
            let cookie = channel.next_with(|cookie| {
                if let Ok(handle) = Handle::<CqObject>::of(*cookie as *mut ibv_cq_ex) {
                    handle.object.completion_events.count();
                }
            })?;
            let queue = cookie as *mut ibv_cq_ex;
            door::output(cq, queue.cast())?;
            door::output(cq_context, (*queue).cq_context)
        })
    })
}

//! Opened devices: ibv_close_device(3).
//!
//! A program holds a pointer to the `ibv_context` at the end of a `verbs_context`; the header's
//! inline functions reach the slots before it from there.

use std::mem::offset_of;
use std::sync::Arc;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::context::Context;
use verbena_hca_net::device::Device;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::command::Command;
use crate::handle::{Handle, Object};
use crate::outcome;

/// An opened device.
pub struct ContextObject {
    /// The adapter's object.
    pub context: Arc<Context>,
    /// Open for the program, and registered while the device is open.
    pub(crate) _command: Command,
}

impl Object for ContextObject {
    type C = verbs_context;
    const TAG: [u8; 4] = *b"ctx ";
}

/// Offset of the `ibv_context` in the structure created by [`Handle::create`].
const INNER: usize = offset_of!(verbs_context, context);

/// Returns the object behind a context pointer.
///
/// # Errors
/// EINVAL for null, and if the tag shows that it is something else.
///
/// # Safety
/// `context` must be null or live, and stay so while the result is used.
#[inline]
pub unsafe fn of<'a>(context: *mut ibv_context) -> Result<&'a Handle<ContextObject>> {
    if context.is_null() {
        return Err(refused!(
            EINVAL,
            "the ibv_context is NULL: check whether ibv_open_device failed"
        ));
    }
    // SAFETY: a live context is at this offset in its handle.
    unsafe { Handle::of(context.byte_sub(INNER).cast()) }
}

/// Returns the device that a context has opened.
///
/// # Errors
/// Those of [`of`].
///
/// # Safety
/// That of [`of`].
pub unsafe fn device(context: *mut ibv_context) -> Result<Device> {
    // SAFETY: the caller promises null, live or valid pointers.
    Ok(unsafe { of(context) }?.object.context.device)
}

/// Closes the device. Objects that the program has not destroyed stay as they are.
///
/// # Safety
/// `context` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    // SAFETY: the caller promises null, or a live pointer that is not used again.
    outcome::minus_one("ibv_close_device", unsafe {
        of(context).map(|handle| drop(Handle::<ContextObject>::destroy(handle.c())))
    })
}

//! Memory windows: ibv_alloc_mw(3), ibv_dealloc_mw(3). Binding is a work request (`post`).

use std::sync::Arc;

use libc::c_int;
use verbena_abi::*;
use verbena_hca_memory::window::Window;
use verbena_hca_os::errno::Result;

use crate::handle::{Handle, Object};
use crate::{outcome, pd};

/// A memory window.
pub struct MwObject {
    /// The adapter's object.
    pub window: Arc<Window>,
}

impl Object for MwObject {
    type C = ibv_mw;
    const TAG: [u8; 4] = *b"mw  ";
}

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no window.
///
/// # Safety
/// `mw` must be null or live, and stay so while the result is used.
pub unsafe fn of<'a>(mw: *mut ibv_mw) -> Result<&'a Arc<Window>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<MwObject>::of(mw) }.map(|handle| &handle.object.window)
}

/// Slot of ibv_alloc_mw: creates a memory window.
///
/// # Safety
/// `pd` must be null or live.
pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer(
        "ibv_alloc_mw",
        unsafe { pd::of(pd) }.and_then(|domain| {
            let window = Window::allocate(domain, kind)?;
            let c = ibv_mw {
                // SAFETY: `pd::of` has accepted it, so it is live, as the caller promises.
                context: unsafe { pd::context_of(pd) },
                pd,
                rkey: window.key(),
                handle: 0,
                type_: kind,
            };
            Ok(Handle::create(c, MwObject { window }))
        }),
    )
}

/// Slot of ibv_dealloc_mw: destroys a memory window.
///
/// # Safety
/// `mw` must be null or live, and not be used again.
pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_dealloc_mw",
        unsafe { Handle::<MwObject>::of(mw) }.map(|handle| {
            handle.object.window.free();
            // SAFETY: live, and not used again.
            unsafe { Handle::<MwObject>::destroy(mw) };
        }),
    )
}

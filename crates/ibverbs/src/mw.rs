//! Memory windows: ibv_alloc_mw(3), ibv_dealloc_mw(3). Binding is a work request and stands with
//! those (`post`).

use std::sync::Arc;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::errno::Result;
use verbena_hca::memory::window::Window;

use crate::handle::{Handle, Object};
use crate::{outcome, pd};

/// A memory window.
pub struct MwObject {
    /// The adapter's side of it.
    pub window: Arc<Window>,
}

impl Object for MwObject {
    type C = ibv_mw;
    const TAG: [u8; 4] = *b"mw  ";
}

/// The adapter's window behind a pointer.
///
/// # Errors
/// EINVAL for what is no window.
///
/// # Safety
/// `mw` is null or a pointer from us, and stays one for as long as the result is used.
pub unsafe fn of<'a>(mw: *mut ibv_mw) -> Result<&'a Arc<Window>> {
    // SAFETY: as promised to us.
    unsafe { Handle::<MwObject>::of(mw) }.map(|handle| &handle.object.window)
}

/// The slot behind ibv_alloc_mw.
///
/// # Safety
/// `pd` is null or a pointer from us.
pub unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, kind: ibv_mw_type) -> *mut ibv_mw {
    // SAFETY: as promised to us.
    outcome::pointer(
        "ibv_alloc_mw",
        unsafe { pd::of(pd) }.and_then(|domain| {
            let window = Window::allocate(domain, kind)?;
            let c = ibv_mw {
                // SAFETY: a pointer from us.
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

/// The slot behind ibv_dealloc_mw.
///
/// # Safety
/// `mw` is null or a pointer from us, and this is its last use.
pub unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value(
        "ibv_dealloc_mw",
        unsafe { Handle::<MwObject>::of(mw) }.map(|handle| {
            handle.object.window.free();
            // SAFETY: a pointer from us, in its last use.
            unsafe { Handle::<MwObject>::destroy(mw) };
        }),
    )
}

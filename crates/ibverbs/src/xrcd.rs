//! XRC domains: ibv_open_xrcd(3).

use std::sync::Arc;

use libc::c_int;
use verbena_abi::*;
use verbena_hca::xrcd::Xrcd;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::handle::{Handle, Object};
use crate::{arguments, context, outcome};

/// An XRC domain.
pub struct XrcdObject {
    xrcd: Arc<Xrcd>,
}

impl Object for XrcdObject {
    type C = ibv_xrcd;
    const TAG: [u8; 4] = *b"xrcd";
}

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no XRC domain.
///
/// # Safety
/// `xrcd` must be null or live, and stay so while the result is used.
pub unsafe fn of<'a>(xrcd: *mut ibv_xrcd) -> Result<&'a Arc<Xrcd>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<XrcdObject>::of(xrcd) }.map(|handle| &handle.object.xrcd)
}

/// Slot of ibv_open_xrcd: opens an XRC domain.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid.
pub unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attributes: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    const NEEDED: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_open_xrcd", unsafe {
        context::of(context).and_then(|handle| {
            let attributes = arguments::input(attributes)?;
            if attributes.comp_mask >= IBV_XRCD_INIT_ATTR_RESERVED {
                return Err(refused!(
                    EOPNOTSUPP,
                    "comp_mask is {:#x}, and only IBV_XRCD_INIT_ATTR_FD and _OFLAGS are supported",
                    attributes.comp_mask
                ));
            }
            if attributes.comp_mask & NEEDED != NEEDED {
                return Err(refused!(
                    EINVAL,
                    "comp_mask is {:#x}: set IBV_XRCD_INIT_ATTR_FD and IBV_XRCD_INIT_ATTR_OFLAGS, \
                     and both fields",
                    attributes.comp_mask
                ));
            }
            let process = &handle.object.context.process;
            let xrcd = Xrcd::open(|| process.join(), attributes.fd, attributes.oflags)?;
            Ok(Handle::create(ibv_xrcd { context }, XrcdObject { xrcd }))
        })
    })
}

/// Slot of ibv_close_xrcd: closes an XRC domain. Fails while queue pairs or shared receive queues
/// use it.
///
/// # Safety
/// `xrcd` must be null or live, and not be used again.
pub unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_close_xrcd",
        unsafe { of(xrcd) }.and_then(|domain| {
            domain.close()?;
            // SAFETY: live, and not used again.
            unsafe { Handle::<XrcdObject>::destroy(xrcd) };
            Ok(())
        }),
    )
}

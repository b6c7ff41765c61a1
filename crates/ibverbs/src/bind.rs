//! Binds of memory windows, as both posting interfaces post them.

use verbena_abi::*;
use verbena_hca::qp::Bind;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::{mr, mw};

/// Returns the window and the target of a bind work request. The low eight bits of `key` become
/// those of the window's key.
///
/// # Errors
/// EINVAL for an invalid window or region, and for a type 1 window, which ibv_bind_mw binds.
///
/// # Safety
/// The window and the region must be null or live.
pub unsafe fn bind<'a>(window: *mut ibv_mw, key: u32, info: &ibv_mw_bind_info) -> Result<Bind<'a>> {
    // SAFETY: null or live, as the caller promises; the program does not use its structure while it
    // posts.
    unsafe {
        let object = mw::of(window)?;
        if object.kind() != IBV_MW_TYPE_2 {
            return Err(refused!(
                EINVAL,
                "the window of IBV_WR_BIND_MW has type {}: bind type 1 windows with ibv_bind_mw",
                object.kind()
            ));
        }
        binding(window, object.key_with(key), info)
    }
}

/// Stores the window's new key in `window->rkey` after a bind was posted, where the program reads
/// it, as with other providers. A refused bind does not change it.
///
/// # Errors
/// EINVAL if it is no window.
///
/// # Safety
/// The window must be null or live.
pub unsafe fn show_key(window: *mut ibv_mw, chosen: u32) -> Result<()> {
    // SAFETY: null or live, as the caller promises; the program does not use its structure while it
    // posts.
    unsafe {
        let key = mw::of(window)?.key_with(chosen);
        (&raw mut (*window).rkey).write(key);
    }
    Ok(())
}

/// Returns the parameters of a bind.
///
/// # Errors
/// EINVAL for an invalid window or region.
///
/// # Safety
/// The window and the region must be null or live.
pub unsafe fn binding<'a>(
    window: *mut ibv_mw,
    key: u32,
    info: &ibv_mw_bind_info,
) -> Result<Bind<'a>> {
    // SAFETY: the caller promises a null or live window and region.
    let (window, region) = unsafe {
        let region = if info.mr.is_null() {
            None
        } else {
            Some(mr::of(info.mr)?)
        };
        (mw::of(window)?, region)
    };
    Ok(Bind {
        window,
        region,
        key,
        address: info.addr,
        length: info.length,
        access: info.mw_access_flags,
    })
}

//! Buffers allocated by the library: ibv_alloc_buf(3), later than v44. The adapter registers any
//! memory, so a buffer consists of whole pages of ordinary memory, without a dma-buf.

use std::alloc::{self, Layout};

use libc::{c_int, c_void};
use verbena_abi::ibv_pd;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::handle::{Handle, Object};
use crate::{outcome, pd};

/// `struct ibv_buf` of rdma-core's `driver.h`; opaque for programs.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct ibv_buf {
    addr: *mut c_void,
    size: usize,
    pd: *mut ibv_pd,
    dmabuf_fd: c_int,
}

/// The memory of a buffer, freed when dropped.
struct Pages {
    address: *mut u8,
    layout: Layout,
}

impl Pages {
    /// Allocates whole pages, as other data in a page would be registered with it.
    fn allocate(size: usize) -> Result<Pages> {
        // SAFETY: sysconf(3) takes a constant.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let whole = size.max(1).checked_next_multiple_of(page);
        let layout = whole.and_then(|whole| Layout::from_size_align(whole, page).ok());
        let layout = layout.ok_or(Errno::ENOMEM)?;
        // SAFETY: the size is not zero.
        let address = unsafe { alloc::alloc(layout) };
        match address.is_null() {
            true => Err(Errno::ENOMEM),
            false => Ok(Pages { address, layout }),
        }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and only freed here.
        unsafe { alloc::dealloc(self.address, self.layout) };
    }
}

/// A buffer.
pub struct BufObject {
    _pages: Pages,
}

impl Object for BufObject {
    type C = ibv_buf;
    const TAG: [u8; 4] = *b"buf ";
}

/// Allocates a page-aligned buffer of `size` bytes; stores its handle in `buffer`.
///
/// # Safety
/// `pd` must be null or live; `buffer` null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buffer: *mut *mut ibv_buf,
) -> *mut c_void {
    // SAFETY: the caller promises null, live or valid pointers.
    let made = unsafe { pd::of(pd) }.and_then(|_| {
        if buffer.is_null() {
            return Err(refused!(
                EINVAL,
                "the pointer for the buffer's handle is NULL: give one, \
                 ibv_free_buf needs the handle"
            ));
        }
        let pages = Pages::allocate(size)?;
        let addr = pages.address.cast::<c_void>();
        let c = ibv_buf {
            addr,
            size,
            pd,
            dmabuf_fd: -1,
        };
        // SAFETY: not null, so valid for a write, as the caller promises.
        unsafe { *buffer = Handle::create(c, BufObject { _pages: pages }) };
        Ok(addr)
    });
    outcome::pointer("ibv_alloc_buf", made)
}

/// Frees a buffer.
///
/// # Safety
/// `buffer` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buffer: *mut ibv_buf) {
    // SAFETY: the caller promises null, live or valid pointers.
    let found = unsafe { Handle::<BufObject>::of(buffer) };
    let freed = found.map(|_| {
        // SAFETY: live, and not used again.
        drop(unsafe { Handle::<BufObject>::destroy(buffer) });
    });
    outcome::minus_one("ibv_free_buf", freed);
}

/// Returns -1 with ENODATA: the buffer has no dma-buf to export.
///
/// # Safety
/// `buffer` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buffer: *mut ibv_buf) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    let found = unsafe { Handle::<BufObject>::of(buffer) };
    outcome::number(
        "ibv_export_buf_dmabuf_fd",
        found.map(|_| {
            outcome::absent(Errno(libc::ENODATA));
            -1
        }),
    )
}

/// Checks that `length` bytes at `address` are part of a buffer, and the buffer is one of `pd`.
///
/// # Errors
/// EINVAL if not.
///
/// # Safety
/// `buffer` must be null or live.
pub unsafe fn check_range(
    buffer: *mut ibv_buf,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
) -> Result<()> {
    // SAFETY: live, as the caller promises; programs must not write to opaque structures.
    let buffer = unsafe { &*Handle::<BufObject>::of(buffer)?.c() };
    if buffer.pd != pd {
        return Err(refused!(
            EINVAL,
            "the buffer belongs to another protection domain: register it in that of ibv_alloc_buf"
        ));
    }
    let offset = (address as usize).wrapping_sub(buffer.addr as usize);
    if offset > buffer.size || length > buffer.size - offset {
        return Err(refused!(
            EINVAL,
            "{length} bytes at {address:p} are not within the buffer of {} bytes at {:p}",
            buffer.size,
            buffer.addr
        ));
    }
    Ok(())
}

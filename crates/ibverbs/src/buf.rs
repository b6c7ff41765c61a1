//! Buffers that the library allocates: ibv_alloc_buf(3), newer than v44. The adapter registers any
//! memory, so a buffer is ordinary memory of whole pages, and no DMA buffer stands behind it.

use std::alloc::{self, Layout};

use libc::{c_int, c_void};
use verbena_abi::ibv_pd;
use verbena_hca::errno::{Errno, Result};
use verbena_hca::refused;

use crate::handle::{Handle, Object};
use crate::{outcome, pd};

/// `struct ibv_buf` of rdma-core's `driver.h`; to programs it is opaque.
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct ibv_buf {
    addr: *mut c_void,
    size: usize,
    pd: *mut ibv_pd,
    dmabuf_fd: c_int,
}

/// The memory of a buffer, freed with it.
struct Pages {
    address: *mut u8,
    layout: Layout,
}

impl Pages {
    /// Allocates whole pages, for what else lay in a page would be registered with it.
    fn allocate(size: usize) -> Result<Pages> {
        // SAFETY: takes a constant.
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
        // SAFETY: allocated with this layout, and freed here alone.
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

/// Makes a buffer of `size` bytes, which begins with a page; its handle goes to `buffer`.
///
/// # Safety
/// `pd` is null or a pointer from us; `buffer` is null or valid for a write.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_alloc_buf(
    pd: *mut ibv_pd,
    size: usize,
    buffer: *mut *mut ibv_buf,
) -> *mut c_void {
    // SAFETY: as promised to us.
    let made = unsafe { pd::of(pd) }.and_then(|_| {
        if buffer.is_null() {
            return Err(refused!(
                EINVAL,
                "the pointer for the buffer's handle is NULL: give one, ibv_free_buf needs the handle"
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
        // SAFETY: valid, by the caller's promise.
        unsafe { *buffer = Handle::create(c, BufObject { _pages: pages }) };
        Ok(addr)
    });
    outcome::pointer("ibv_alloc_buf", made)
}

/// Frees a buffer.
///
/// # Safety
/// `buffer` is null or a pointer from us, and this is its last use.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_buf(buffer: *mut ibv_buf) {
    // SAFETY: as promised to us.
    let found = unsafe { Handle::<BufObject>::of(buffer) };
    let freed = found.map(|_| {
        // SAFETY: a pointer from us, in its last use.
        drop(unsafe { Handle::<BufObject>::destroy(buffer) });
    });
    outcome::minus_one("ibv_free_buf", freed);
}

/// The descriptor of the DMA buffer behind a buffer: -1 with ENODATA, for there is none.
///
/// # Safety
/// `buffer` is null or a pointer from us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_export_buf_dmabuf_fd(buffer: *mut ibv_buf) -> c_int {
    // SAFETY: as promised to us.
    let found = unsafe { Handle::<BufObject>::of(buffer) };
    outcome::number(
        "ibv_export_buf_dmabuf_fd",
        found.map(|_| {
            outcome::absent(Errno(libc::ENODATA));
            -1
        }),
    )
}

/// Whether `length` bytes at `address` are part of a buffer, and the buffer is one of `pd`.
///
/// # Errors
/// EINVAL where not.
///
/// # Safety
/// `buffer` is null or a pointer from us.
pub unsafe fn check_range(
    buffer: *mut ibv_buf,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
) -> Result<()> {
    // SAFETY: valid by the caller's promise; programs must not write to opaque structures.
    let buffer = unsafe { &*Handle::<BufObject>::of(buffer)?.c() };
    if buffer.pd != pd {
        return Err(refused!(
            EINVAL,
            "the buffer is of another protection domain: register it in that of ibv_alloc_buf"
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

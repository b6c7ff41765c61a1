//! The memory system calls: mmap(2), munmap(2), mremap(2), mprotect(2), madvise(2).
//!
//! They bypass the C library's functions of these names. MPI libraries replace those to learn which
//! memory the program frees (UCX's `ucm`, Open MPI's `patcher`). They must not see pages that move
//! under the same addresses, because they would end the registrations there; and UCX's `mremap` has
//! four arguments, so that a fifth, the new address, is lost.

use crate::errno::{Errno, Result};
use libc::{c_int, c_long};
pub use rustix::mm::Advice;
use rustix::mm::{self, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::os::fd::{BorrowedFd, RawFd};

fn pointer(address: u64) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

fn address(pointer: *mut c_void) -> u64 {
    pointer.expose_provenance() as u64
}

/// mmap(2): `descriptor` is -1 for anonymous memory. Returns the address.
///
/// # Errors
/// The system's.
///
/// # Safety
/// With MAP_FIXED, the mapping at `at` is replaced. `descriptor` must be open, or -1.
pub unsafe fn map(
    at: u64,
    length: u64,
    protection: c_int,
    flags: c_int,
    descriptor: RawFd,
    offset: u64,
) -> Result<u64> {
    let (at, length) = (pointer(at), length as usize);
    let protection = ProtFlags::from_bits_retain(protection as u32);
    let flags = MapFlags::from_bits_retain(flags as u32);
    // SAFETY: the caller promises that MAP_FIXED may replace the mapping at `at`, and that
    // `descriptor` is open or -1.
    let mapped = unsafe {
        match descriptor {
            -1 => mm::mmap_anonymous(at, length, protection, flags),
            open => {
                let file = BorrowedFd::borrow_raw(open);
                mm::mmap(at, length, protection, flags, file, offset)
            }
        }
    };
    Ok(address(mapped?))
}

/// munmap(2).
///
/// # Errors
/// The system's.
///
/// # Safety
/// The range is not used any more.
pub unsafe fn unmap(at: u64, length: u64) -> Result<()> {
    // SAFETY: the caller promises that the range is not used any more.
    Ok(unsafe { mm::munmap(pointer(at), length as usize) }?)
}

/// mremap(2) to `target`, which counts with MREMAP_FIXED only. Returns the new address.
///
/// By syscall(2): rustix passes four arguments without MREMAP_FIXED, and with MREMAP_DONTUNMAP the
/// kernel reads the fifth from an undefined register (EINVAL unless it is a page's address).
///
/// # Errors
/// The system's.
///
/// # Safety
/// The pages at `at` are moved, and with MREMAP_FIXED the mapping at `target` is replaced.
pub unsafe fn remap(at: u64, length: u64, flags: c_int, target: u64) -> Result<u64> {
    // SAFETY: the caller promises that the pages may move and that a mapping at `target` may be
    // replaced.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mremap,
            at,
            length,
            length,
            c_long::from(flags),
            target,
        )
    };
    match answer {
        -1 => Err(Errno::last()),
        moved => Ok(moved as u64),
    }
}

/// mprotect(2).
///
/// # Errors
/// The system's.
///
/// # Safety
/// No code relies on rights that are taken away.
pub unsafe fn protect(at: u64, length: u64, protection: c_int) -> Result<()> {
    let rights = MprotectFlags::from_bits_retain(protection as u32);
    // SAFETY: the caller promises that no code relies on the old rights.
    Ok(unsafe { mm::mprotect(pointer(at), length as usize, rights) }?)
}

/// madvise(2).
///
/// # Errors
/// The system's.
///
/// # Safety
/// No code relies on contents that the advice takes away.
pub unsafe fn advise(at: u64, length: u64, advice: Advice) -> Result<()> {
    // SAFETY: the caller promises that no code relies on contents that the advice takes away.
    Ok(unsafe { mm::madvise(pointer(at), length as usize, advice) }?)
}

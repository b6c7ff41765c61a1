//! The memory system calls themselves: mmap(2), munmap(2), mremap(2), mprotect(2), madvise(2).
//!
//! Not through the C library's functions of these names. MPI libraries put their own in place of those, to learn which
//! memory the program gives back (UCX's `ucm`, Open MPI's `patcher`). They must not learn of pages that change their home
//! under the same addresses, whose registrations they would end; and UCX's `mremap` has four arguments, so that a fifth,
//! the new address, is lost.

use crate::errno::{Errno, Result};
use libc::{c_int, c_long};
use std::os::fd::RawFd;

fn result(answer: c_long) -> Result<u64> {
    match answer {
        -1 => Err(Errno::last()),
        address => Ok(address as u64),
    }
}

/// mmap(2): `descriptor` is -1 for memory of no file. Returns the address.
///
/// # Safety
/// With MAP_FIXED, what is mapped at `address` may go.
pub unsafe fn map(
    address: u64,
    length: u64,
    protection: c_int,
    flags: c_int,
    descriptor: RawFd,
    offset: u64,
) -> Result<u64> {
    // SAFETY: the caller's promise.
    result(unsafe {
        libc::syscall(
            libc::SYS_mmap,
            address,
            length,
            c_long::from(protection),
            c_long::from(flags),
            c_long::from(descriptor),
            offset,
        )
    })
}

/// munmap(2).
///
/// # Safety
/// Nobody uses what is mapped there any more.
pub unsafe fn unmap(address: u64, length: u64) -> Result<()> {
    // SAFETY: the caller's promise.
    result(unsafe { libc::syscall(libc::SYS_munmap, address, length) }).map(drop)
}

/// mremap(2) to `target`, which counts with MREMAP_FIXED only. Returns the new address.
///
/// # Safety
/// What is at `address` may leave it, and what is at `target` may go.
pub unsafe fn remap(address: u64, length: u64, flags: c_int, target: u64) -> Result<u64> {
    // SAFETY: the caller's promise.
    result(unsafe {
        libc::syscall(
            libc::SYS_mremap,
            address,
            length,
            length,
            c_long::from(flags),
            target,
        )
    })
}

/// mprotect(2).
///
/// # Safety
/// Nobody relies on rights that are taken away.
pub unsafe fn protect(address: u64, length: u64, protection: c_int) -> Result<()> {
    // SAFETY: the caller's promise.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_mprotect,
            address,
            length,
            c_long::from(protection),
        )
    };
    result(answer).map(drop)
}

/// madvise(2).
///
/// # Safety
/// Nobody relies on contents that the advice takes away.
pub unsafe fn advise(address: u64, length: u64, advice: c_int) -> Result<()> {
    // SAFETY: the caller's promise.
    result(unsafe { libc::syscall(libc::SYS_madvise, address, length, c_long::from(advice)) })
        .map(drop)
}

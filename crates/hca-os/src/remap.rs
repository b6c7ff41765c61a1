//! Moving mappings: mremap(2), and mapping a file over a range.

use crate::errno::Result;
use crate::mm;
use std::os::fd::{AsRawFd, BorrowedFd};

const HUGE: u64 = 2 << 20;

/// Reserves `length` bytes of address space, with the same offset in a huge page as `like`, so that
/// whole huge pages can be moved there.
///
/// # Errors
/// The system's.
pub fn reserve(length: u64, like: u64) -> Result<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe { mm::map(0, length + HUGE, libc::PROT_NONE, flags, -1, 0) }?;
    let start = base + (like.wrapping_sub(base) & (HUGE - 1));
    unmap(base, start - base);
    unmap(start + length, base + HUGE - start);
    Ok(start)
}

/// Maps private memory without pages, with the same offset in a huge page as `like`.
///
/// # Errors
/// The system's.
pub fn private(length: u64, like: u64) -> Result<u64> {
    let start = reserve(length, like)?;
    protect(start, length, libc::PROT_READ | libc::PROT_WRITE)?;
    Ok(start)
}

/// Unmaps a range of the caller.
pub fn unmap(start: u64, length: u64) {
    if length > 0 {
        // SAFETY: the range belongs to the caller.
        let _ = unsafe { mm::unmap(start, length) };
    }
}

/// Moves the pages of `[from, from + length)` to `target`, or to an address of the kernel's choice,
/// with all attributes of the mapping. An equal mapping without pages stays at `from`
/// (MREMAP_DONTUNMAP, Linux 5.7). Returns the new address.
///
/// # Errors
/// The system's.
pub fn move_pages_out(from: u64, length: u64, target: Option<u64>) -> Result<u64> {
    const OUT: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    // SAFETY: the caller reserved the target, and wants the pages to leave `from`.
    unsafe {
        match target {
            Some(target) => mm::remap(from, length, OUT | libc::MREMAP_FIXED, target),
            None => mm::remap(from, length, OUT, 0),
        }
    }
}

/// Moves a mapping of the caller over `target`, atomically for all threads.
///
/// # Errors
/// The system's.
pub fn move_over(from: u64, length: u64, target: u64) -> Result<()> {
    const OVER: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the caller makes sure that the mapping at `target` may be replaced by the one at
    // `from`. Async-signal-safe.
    unsafe { mm::remap(from, length, OVER, target) }.map(drop)
}

/// Maps a part of a file over `[at, at + length)`, shared, atomically for all threads. A forked
/// child does not inherit it.
///
/// # Errors
/// The system's.
pub fn map_over(
    file: BorrowedFd<'_>,
    offset: u64,
    at: u64,
    length: u64,
    protection: libc::c_int,
) -> Result<()> {
    const OVER: libc::c_int =
        libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE | libc::MAP_POPULATE;
    // SAFETY: the caller makes sure that the file has the bytes of the range.
    unsafe { mm::map(at, length, protection, OVER, file.as_raw_fd(), offset) }?;
    // SAFETY: the range was just mapped here.
    let _ = unsafe { mm::advise(at, length, mm::Advice::LinuxDontFork) };
    Ok(())
}

/// Changes the access rights of a range.
///
/// # Errors
/// The system's.
pub fn protect(start: u64, length: u64, protection: libc::c_int) -> Result<()> {
    // SAFETY: the caller's own range, or one whose rights the application chose. Async-signal-safe.
    unsafe { mm::protect(start, length, protection) }
}

/// Frees the pages of a private range of the caller, locked ones too.
pub fn drop_pages(start: u64, length: u64) {
    // SAFETY: the caller's own range, whose contents are not read again.
    unsafe {
        let _ = mm::advise(start, length, mm::Advice::LinuxDontNeed)
            .or_else(|_| mm::advise(start, length, mm::Advice::LinuxDontneedLocked));
    }
}

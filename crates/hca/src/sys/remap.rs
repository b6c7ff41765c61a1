//! Moving mappings: mremap(2), and mapping a file over a range.

use crate::errno::Result;
use crate::sys::mm;
use std::os::fd::{AsRawFd, BorrowedFd};

const HUGE: u64 = 2 << 20;

/// Addresses for `length` bytes that nothing else is put at, as far into a huge page as `like` is, so that huge pages
/// can be moved there whole.
pub fn reserve(length: u64, like: u64) -> Result<u64> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a fresh mapping at an address of the kernel's choice.
    let base = unsafe { mm::map(0, length + HUGE, libc::PROT_NONE, flags, -1, 0) }?;
    let start = base + (like.wrapping_sub(base) & (HUGE - 1));
    unmap(base, start - base);
    unmap(start + length, base + HUGE - start);
    Ok(start)
}

/// Private memory of our own, without pages yet, as far into a huge page as `like` is.
pub fn private(length: u64, like: u64) -> Result<u64> {
    let start = reserve(length, like)?;
    protect(start, length, libc::PROT_READ | libc::PROT_WRITE)?;
    Ok(start)
}

/// Takes away what is mapped in a range that is ours.
pub fn unmap(start: u64, length: u64) {
    if length > 0 {
        // SAFETY: the caller's own range.
        let _ = unsafe { mm::unmap(start, length) };
    }
}

/// Moves the pages of `[from, from + length)` elsewhere, with everything that the kernel knows of the mapping; at `from`
/// stays an equal mapping without pages (MREMAP_DONTUNMAP, Linux 5.7). Goes to `target`, or where there is room.
pub fn move_pages_out(from: u64, length: u64, target: Option<u64>) -> Result<u64> {
    const OUT: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_DONTUNMAP;
    // SAFETY: the target was reserved by us; that the pages leave `from` is what the caller wants.
    unsafe {
        match target {
            Some(target) => mm::remap(from, length, OUT | libc::MREMAP_FIXED, target),
            None => mm::remap(from, length, OUT, 0),
        }
    }
}

/// Moves a mapping of ours over what is at `target`, at once for all threads.
pub fn move_over(from: u64, length: u64, target: u64) -> Result<()> {
    const OVER: libc::c_int = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: the caller has made sure that what is at `target` may be replaced by what is at `from`. Async-signal-safe.
    unsafe { mm::remap(from, length, OVER, target) }.map(drop)
}

/// Maps a part of a file over `[at, at + length)`, shared, at once for all threads. A forked child does not get it.
pub fn map_over(
    file: BorrowedFd<'_>,
    offset: u64,
    at: u64,
    length: u64,
    protection: libc::c_int,
) -> Result<()> {
    const OVER: libc::c_int =
        libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE | libc::MAP_POPULATE;
    // SAFETY: the caller has made sure that the file's bytes are those of the range.
    unsafe { mm::map(at, length, protection, OVER, file.as_raw_fd(), offset) }?;
    // SAFETY: the range was just mapped by us.
    let _ = unsafe { mm::advise(at, length, mm::Advice::LinuxDontFork) };
    Ok(())
}

/// Changes what may be done with a range.
pub fn protect(start: u64, length: u64, protection: libc::c_int) -> Result<()> {
    // SAFETY: the caller's own range, or one whose rights the application chose. Async-signal-safe.
    unsafe { mm::protect(start, length, protection) }
}

/// Frees the pages of a private range of ours, locked ones too.
pub fn drop_pages(start: u64, length: u64) {
    // SAFETY: the pages of our own range, which nobody reads again.
    unsafe {
        let _ = mm::advise(start, length, mm::Advice::LinuxDontNeed)
            .or_else(|_| mm::advise(start, length, mm::Advice::LinuxDontneedLocked));
    }
}

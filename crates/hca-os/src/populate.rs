//! Paging in before use: madvise(2) with MADV_POPULATE_READ and _WRITE (Linux 5.14).

use crate::errno::{Errno, Result};
use crate::mm;

const PAGE: u64 = 4096;

/// Intended use of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reading.
    Read,
    /// Writing: private pages are copied now.
    Write,
}

/// Faults in the pages of `[address, address + length)`. A kernel without support is no failure:
/// then each page faults in at its first access.
///
/// # Errors
/// EFAULT when part of the range is not mapped, or not for this use.
pub fn populate(address: u64, length: u64, intent: Use) -> Result<()> {
    let start = address & !(PAGE - 1);
    let end = address
        .checked_add(length)
        .and_then(|end| end.checked_next_multiple_of(PAGE))
        .ok_or(Errno::EFAULT)?;
    let advice = match intent {
        Use::Read => mm::Advice::LinuxPopulateRead,
        Use::Write => mm::Advice::LinuxPopulateWrite,
    };
    // SAFETY: populating changes no byte of any page; the kernel checks the range.
    match unsafe { mm::advise(start, end - start, advice) } {
        Err(Errno(libc::ENOMEM | libc::EFAULT)) => Err(Errno::EFAULT),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn populate_fills_mapped_pages_and_fails_on_a_hole() {
        let page = vec![1u8; 8192];
        assert_eq!(populate(page.as_ptr() as u64, 8192, Use::Write), Ok(()));
        assert_eq!(populate(page.as_ptr() as u64 + 1, 10, Use::Read), Ok(()));
        assert_eq!(populate(0x1000, 4096, Use::Read), Err(Errno::EFAULT));
        assert_eq!(populate(u64::MAX - 1, 4096, Use::Read), Err(Errno::EFAULT));
    }
}

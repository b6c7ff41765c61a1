//! The numbers of all descriptors of the process, from an opened /proc/self/fd (getdents64(2)).

use crate::errno::{Errno, Result};
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Of struct linux_dirent64: inode, offset, length of the entry, type; the name follows.
const LENGTH_AT: usize = 16;
const NAME_AT: usize = 19;

#[repr(align(8))]
struct Entries([u8; 4096]);

/// Calls `each` with every one of them. Allocates nothing.
pub fn each(directory: BorrowedFd<'_>, mut each: impl FnMut(RawFd)) -> Result<()> {
    let directory = directory.as_raw_fd();
    // SAFETY: no pointers.
    if unsafe { libc::lseek(directory, 0, libc::SEEK_SET) } != 0 {
        return Err(Errno::last());
    }
    let mut entries = Entries([0; 4096]);
    loop {
        let room = entries.0.len();
        // SAFETY: the buffer is writable for as long as is said.
        let filled = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory,
                entries.0.as_mut_ptr(),
                room,
            )
        };
        match usize::try_from(filled) {
            Ok(0) => return Ok(()),
            Ok(filled) => each_of(&entries.0[..filled], &mut each),
            Err(_) => return Err(Errno::last()),
        }
    }
}

/// The entries whose names are numbers: all but `.` and `..`.
fn each_of(mut entries: &[u8], each: &mut impl FnMut(RawFd)) {
    while let Some(&[low, high]) = entries.get(LENGTH_AT..LENGTH_AT + 2) {
        let length = usize::from(u16::from_ne_bytes([low, high]));
        let name = entries.get(NAME_AT..length).unwrap_or_default();
        let name = CStr::from_bytes_until_nul(name).unwrap_or_default();
        if let Some(number) = name.to_str().ok().and_then(|name| name.parse().ok()) {
            each(number);
        }
        entries = entries.get(length.max(NAME_AT)..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn all_that_are_open_are_in_it() {
        let many: Vec<_> = (0..300)
            .map(|_| std::fs::File::open("/dev/null").unwrap())
            .collect();
        let directory = std::fs::File::open("/proc/self/fd").unwrap();
        for _ in 0..2 {
            let mut numbers = Vec::new();
            each(directory.as_fd(), |number| numbers.push(number)).unwrap();
            assert!(many.iter().all(|file| numbers.contains(&file.as_raw_fd())));
            assert!(numbers.contains(&directory.as_raw_fd()));
        }
    }
}

//! Lists the numbers of all descriptors of the process, from an opened /proc/self/fd
//! (getdents64(2)).

use crate::errno::Result;
use rustix::fs::{RawDir, SeekFrom, seek};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};

/// Calls `each` with every descriptor: the entries whose names are numbers. Allocates nothing.
///
/// # Errors
/// The system's.
pub fn each(directory: BorrowedFd<'_>, mut each: impl FnMut(RawFd)) -> Result<()> {
    seek(directory, SeekFrom::Start(0))?;
    let mut room = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(directory, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_str().ok();
        if let Some(number) = name.and_then(|name| name.parse().ok()) {
            each(number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn descriptor_list_contains_all_open_descriptors() {
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

//! Temporary files without a name until they are complete (open(2), `O_TMPFILE`).
//!
//! No other process can find such a file before, and nothing is left of it if its writer is killed:
//! it needs neither a hidden name nor a lock. It can only be given an unused name, and not every
//! file system supports such files; if either fails, a file under a hidden name is renamed instead.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Creates an unnamed file in the file system of a directory, with access for its owner only;
/// returns `None` if the file system does not support it.
///
/// # Errors
/// The error of openat(2).
pub fn make(directory: impl AsFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR) {
        // EISDIR: the kernel is older than the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        made => made.map(Some),
    }
}

/// Gives the file a name in a directory. Returns false if the name exists, or if the system cannot
/// link a file by its descriptor, which requires a capability or `/proc`.
///
/// # Errors
/// The error of linkat(2).
pub fn link(file: impl AsFd, directory: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    let (file, directory) = (file.as_fd(), directory.as_fd());
    let linked = match rustix::fs::linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
        // linkat(2): requires CAP_DAC_READ_SEARCH.
        Err(Errno::NOENT | Errno::PERM) => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::linkat(CWD, path, directory, name, AtFlags::SYMLINK_FOLLOW)
        }
        other => other,
    };
    match linked {
        Ok(()) => Ok(true),
        Err(Errno::EXIST | Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    #[test]
    fn unlinked_files_vanish_and_existing_files_are_kept() {
        let scratch = Scratch::new();
        let directory = File::open(scratch.path("")).unwrap();
        let make = |content: &str| {
            let file = File::from(make(&directory).unwrap()?);
            file.write_all_at(content.as_bytes(), 0).unwrap();
            Some(file)
        };
        let Some(first) = make("first") else {
            eprintln!("skipped: the temporary directory has no files without names");
            return;
        };
        let names = || std::fs::read_dir(scratch.path("")).unwrap().count();
        assert_eq!(names(), 0);
        assert!(link(&first, &directory, b"f").unwrap());
        let second = make("second").unwrap();
        assert!(!link(&second, &directory, b"f").unwrap());
        assert!(link(&second, &directory, b"g").unwrap());
        drop(make("third"));
        assert_eq!(std::fs::read(scratch.path("f")).unwrap(), b"first");
        assert_eq!(std::fs::read(scratch.path("g")).unwrap(), b"second");
        assert_eq!(names(), 2);
    }
}

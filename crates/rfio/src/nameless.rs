//! Files that have no name until all of them is there (open(2), `O_TMPFILE`).
//!
//! Nobody can find one before, and nothing is left of it if its writer is ended: it needs neither another name nor a lock.
//! Only a name that nothing has can be given to it, and not every file system knows such files; where either fails, a file
//! under a hidden name is renamed.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

/// Makes a file without a name in the file system of a directory, for its writer alone; `None` where there are no such files.
pub fn make(directory: impl AsFd) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::RUSR | Mode::WUSR) {
        // EISDIR: the kernel is older than the flag.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        made => made.map(Some),
    }
}

/// Gives it a name in a directory; false if something has that name, or the system cannot name a file by its descriptor: not
/// everybody may, and others need `/proc` for that.
pub fn link(file: impl AsFd, directory: impl AsFd, name: &[u8]) -> Result<bool, Errno> {
    let (file, directory) = (file.as_fd(), directory.as_fd());
    let linked = match rustix::fs::linkat(file, "", directory, name, AtFlags::EMPTY_PATH) {
        // linkat(2): not without CAP_DAC_READ_SEARCH.
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
    fn what_is_not_linked_leaves_nothing_and_what_is_there_stays() {
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

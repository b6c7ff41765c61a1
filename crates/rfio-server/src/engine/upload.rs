//! An upload: a file that gets its name when it is complete.
//!
//! On file systems with unnamed files (`O_TMPFILE`) it is one, and nothing is left of it if the
//! service is killed. On others, and while it replaces an existing file, it has a hidden name in
//! the same directory, `.NAME.rfio`. The writer of a hidden file holds a lock on it. A killed
//! service leaves the file but loses the lock, so the next writer of that name recognizes the file
//! as abandoned and removes it. A writer that finds the file locked uses a unique hidden name: a
//! session may have several writers.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use verbena_rfio_common::tmpfile;

use crate::export::DirectoryEntry;

/// Bytes of a name that its hidden name begins with: a name of 255 bytes leaves no space for the
/// suffix.
const KEPT: usize = 200;

/// A file without its final name; a hidden name is removed on drop unless the file gets its name.
#[derive(Debug)]
pub struct Upload<'a> {
    destination: &'a DirectoryEntry,
    /// The number of its session.
    session: u64,
    file: OwnedFd,
    hidden: Option<Vec<u8>>,
}

impl<'a> Upload<'a> {
    /// Creates the file, empty, with access for its writer alone. `session` distinguishes the
    /// writers of one service.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn begin(destination: &'a DirectoryEntry, session: u64) -> Result<Self, Errno> {
        match Self::without_name(destination, session)? {
            Some(upload) => Ok(upload),
            None => Self::under_hidden_name(destination, session),
        }
    }

    fn without_name(destination: &'a DirectoryEntry, session: u64) -> Result<Option<Self>, Errno> {
        let file = tmpfile::make(&destination.parent)?;
        Ok(file.map(|file| Self {
            destination,
            session,
            file,
            hidden: None,
        }))
    }

    fn under_hidden_name(destination: &'a DirectoryEntry, session: u64) -> Result<Self, Errno> {
        let make = |hidden: &[u8]| make_and_lock(destination, hidden);
        let (hidden, file) = hide(destination, session, make)?;
        Ok(Self {
            destination,
            session,
            file,
            hidden: Some(hidden),
        })
    }

    /// Returns the file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// EEXIST if the name is taken.
    pub fn rename_to_new(mut self) -> Result<(), Errno> {
        let DirectoryEntry { parent, name, .. } = self.destination;
        match &self.hidden {
            None if tmpfile::link(&self.file, parent, name.as_bytes())? => Ok(()),
            None => Err(Errno::EXIST),
            Some(hidden) => {
                let flags = RenameFlags::NOREPLACE;
                rustix::fs::renameat_with(parent, &hidden[..], parent, name, flags)?;
                self.hidden = None;
                Ok(())
            }
        }
    }

    /// Gives the file its name, replacing an existing file.
    ///
    /// # Errors
    /// The kernel's error of linkat(2) or renameat(2).
    pub fn rename(mut self) -> Result<(), Errno> {
        let DirectoryEntry { parent, name, .. } = self.destination;
        if self.hidden.is_none() {
            if tmpfile::link(&self.file, parent, name.as_bytes())? {
                return Ok(());
            }
            let (hidden, ()) = hide(self.destination, self.session, |hidden| {
                lock_and_link(&self.file, self.destination, hidden)
            })?;
            self.hidden = Some(hidden);
        }
        if let Some(hidden) = &self.hidden {
            rustix::fs::renameat(parent, &hidden[..], parent, name)?;
        }
        self.hidden = None;
        Ok(())
    }
}

impl Drop for Upload<'_> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // Before closing the file releases the lock. If it fails, the next writer of this name
            // removes it.
            let _ = rustix::fs::unlinkat(&self.destination.parent, &hidden[..], AtFlags::empty());
        }
    }
}

/// Finds a free hidden name for a file. Returns it with the result of `take`.
fn hide<T>(
    destination: &DirectoryEntry,
    session: u64,
    take: impl Fn(&[u8]) -> Result<Option<T>, Errno>,
) -> Result<(Vec<u8>, T), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (service, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let own = format!("-{service:x}-{session:x}-{number:x}");
    for who in ["", &own] {
        let hidden = hidden_name(&destination.name, who);
        let mut taken = take(&hidden)?;
        if taken.is_none() && remove_if_abandoned(destination, &hidden) {
            taken = take(&hidden)?;
        }
        if let Some(taken) = taken {
            return Ok((hidden, taken));
        }
    }
    Err(Errno::EXIST)
}

fn hidden_name(name: &OsStr, who: &str) -> Vec<u8> {
    let kept = &name.as_bytes()[..name.len().min(KEPT)];
    [b".", kept, b".rfio", who.as_bytes()].concat()
}

/// Creates and locks a hidden file. It must be new, so that another user's file under the name is
/// never written to. Returns `None` if the name is taken, or was removed before the file was
/// locked.
fn make_and_lock(destination: &DirectoryEntry, hidden: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match rustix::fs::openat(&destination.parent, hidden, flags, mode) {
        Err(Errno::EXIST) => return Ok(None),
        made => made?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Another writer takes it for an abandoned file and removes it.
        Err(Errno::WOULDBLOCK) => return Ok(None),
        // A file system without locks.
        Err(_) => return Ok(Some(file)),
    }
    let is_linked = rustix::fs::fstat(&file)?.st_nlink > 0;
    Ok(is_linked.then_some(file))
}

/// Gives an unnamed file a hidden name, under its lock; returns `None` if the name is taken.
fn lock_and_link(
    file: &OwnedFd,
    destination: &DirectoryEntry,
    hidden: &[u8],
) -> Result<Option<()>, Errno> {
    // The file has no other user. On a file system without locks other writers have none either.
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    let linked = tmpfile::link(file, &destination.parent, hidden)?;
    Ok(linked.then_some(()))
}

/// Removes an abandoned file under the hidden name; returns whether the name is free.
fn remove_if_abandoned(destination: &DirectoryEntry, hidden: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let left = match rustix::fs::openat(&destination.parent, hidden, flags, Mode::empty()) {
        Ok(left) => left,
        // A link, or another user's file, is left alone.
        Err(errno) => return errno == Errno::NOENT,
    };
    if rustix::fs::flock(&left, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // Locked, but it may have been renamed or removed before.
    let Ok(locked) = rustix::fs::fstat(&left) else {
        return false;
    };
    let named = rustix::fs::statat(&destination.parent, hidden, AtFlags::SYMLINK_NOFOLLOW);
    let is_it = |named: Stat| (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino);
    named.is_ok_and(is_it)
        && rustix::fs::unlinkat(&destination.parent, hidden, AtFlags::empty()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use verbena_rfio_common::scratch::Scratch;

    use super::*;

    fn named(scratch: &Scratch) -> DirectoryEntry {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = rustix::fs::open(scratch.path(""), flags, Mode::empty()).unwrap();
        DirectoryEntry::of(parent, "f".into())
    }

    fn names(scratch: &Scratch) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(scratch.path(""))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn rename_leaves_no_temporary_file() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let upload = Upload::under_hidden_name(&destination, 0).unwrap();
        assert_eq!(names(&scratch), [".f.rfio"]);
        upload.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
    }

    #[test]
    fn an_abandoned_upload_is_removed() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        drop(Upload::under_hidden_name(&destination, 0).unwrap());
        assert!(names(&scratch).is_empty());
    }

    #[test]
    fn leftovers_of_a_killed_service_are_removed() {
        let scratch = Scratch::new();
        fs::write(scratch.path(".f.rfio"), "half").unwrap();
        let destination = named(&scratch);
        let upload = Upload::under_hidden_name(&destination, 0).unwrap();
        assert_eq!(names(&scratch), [".f.rfio"]);
        assert_eq!(fs::read(scratch.path(".f.rfio")).unwrap(), b"");
        upload.rename().unwrap();
    }

    /// Hidden names keep only the beginning of a name, and one session writes many files at a time.
    #[test]
    fn names_with_a_common_prefix_have_separate_temporary_files() {
        let scratch = Scratch::new();
        let long = |end: &str| {
            let name = "f".repeat(KEPT) + end;
            DirectoryEntry::of(named(&scratch).parent, name.into())
        };
        let destinations = ["one", "two", "three", "four"].map(long);
        let uploads: Vec<_> = destinations
            .iter()
            .map(|destination| Upload::under_hidden_name(destination, 7).unwrap())
            .collect();
        assert_eq!(names(&scratch).len(), destinations.len());
        for one in uploads {
            one.rename().unwrap();
        }
        assert_eq!(names(&scratch).len(), destinations.len());
    }

    #[test]
    fn two_writers_of_a_name_have_separate_temporary_files() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let one = Upload::under_hidden_name(&destination, 1).unwrap();
        let other = Upload::under_hidden_name(&destination, 2).unwrap();
        fs::File::from(one.file().try_clone_to_owned().unwrap())
            .write_all(b"one")
            .unwrap();
        assert_eq!(names(&scratch).len(), 2);
        other.rename().unwrap();
        one.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"one");
    }

    #[test]
    fn foreign_files_are_neither_written_nor_removed() {
        let scratch = Scratch::new();
        fs::write(scratch.path("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", scratch.path(".f.rfio")).unwrap();
        let destination = named(&scratch);
        Upload::under_hidden_name(&destination, 0)
            .unwrap()
            .rename()
            .unwrap();
        assert_eq!(fs::read(scratch.path("precious")).unwrap(), b"kept");
        assert_eq!(names(&scratch), [".f.rfio", "f", "precious"]);
    }

    /// Returns an unnamed file with this content, or `None` if the file system does not support
    /// them.
    fn without_name<'a>(destination: &'a DirectoryEntry, content: &str) -> Option<Upload<'a>> {
        let upload = Upload::without_name(destination, 0).unwrap();
        if upload.is_none() {
            eprintln!("skipped: the temporary directory has no files without names");
        }
        let upload = upload?;
        fs::File::from(upload.file().try_clone_to_owned().unwrap())
            .write_all(content.as_bytes())
            .unwrap();
        Some(upload)
    }

    #[test]
    fn a_tmpfile_is_invisible_until_it_is_linked() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let Some(upload) = without_name(&destination, "new") else {
            return;
        };
        drop(without_name(&destination, "given up"));
        assert!(names(&scratch).is_empty());
        upload.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"new");
    }

    /// A hidden file that a killed service left during such a replacement is removed too.
    #[test]
    fn a_tmpfile_replaces_an_existing_file() {
        let scratch = Scratch::new();
        fs::write(scratch.path("f"), "old").unwrap();
        fs::write(scratch.path(".f.rfio"), "half").unwrap();
        let destination = named(&scratch);
        let (one, other) = (
            without_name(&destination, "one"),
            without_name(&destination, "other"),
        );
        let (Some(one), Some(other)) = (one, other) else {
            return;
        };
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"old");
        other.rename().unwrap();
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"other");
        one.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"one");
    }

    #[test]
    fn a_failed_replacement_leaves_no_temporary_file() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("f/inside")).unwrap();
        let destination = named(&scratch);
        let Some(upload) = without_name(&destination, "new") else {
            return;
        };
        assert_eq!(upload.rename(), Err(Errno::ISDIR));
        assert_eq!(names(&scratch), ["f"]);
        assert!(scratch.path("f/inside").is_dir());
    }
}

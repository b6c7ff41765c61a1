//! A file on its way to its name, which it gets when all of it is there.
//!
//! Where the file system has files without names, it is one, and nothing is left of it if the service is killed. Where
//! there are none, and while it takes the place of what has its name, it has a hidden one beside it, `.NAME.rfio`. Whoever
//! writes a hidden file holds its lock. A service that is killed leaves the file and loses the lock, so the next one to
//! write that name knows what nobody works at any more, and takes it away. Who finds it locked makes a name that is its own
//! alone: several writers may be of one session.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;

use crate::nameless;
use crate::server::export::Named;

/// Bytes of a name that its hidden name begins with: a name of 255 bytes leaves no room for what follows.
const KEPT: usize = 200;

/// A file without its name; a hidden name is taken away again unless it is given its own.
#[derive(Debug)]
pub struct Arriving<'a> {
    destination: &'a Named,
    /// Of whose session it is.
    session: u64,
    file: OwnedFd,
    hidden: Option<Vec<u8>>,
}

impl<'a> Arriving<'a> {
    /// Makes the file, empty, for its writer alone. `session` tells the writers of one service apart.
    pub fn begin(destination: &'a Named, session: u64) -> Result<Self, Errno> {
        match Self::without_name(destination, session)? {
            Some(arriving) => Ok(arriving),
            None => Self::under_hidden_name(destination, session),
        }
    }

    fn without_name(destination: &'a Named, session: u64) -> Result<Option<Self>, Errno> {
        let file = nameless::make(&destination.parent)?;
        Ok(file.map(|file| Self {
            destination,
            session,
            file,
            hidden: None,
        }))
    }

    fn under_hidden_name(destination: &'a Named, session: u64) -> Result<Self, Errno> {
        let make = |hidden: &[u8]| make_and_lock(destination, hidden);
        let (hidden, file) = hide(destination, session, make)?;
        Ok(Self {
            destination,
            session,
            file,
            hidden: Some(hidden),
        })
    }

    /// The file.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Gives the file its name, unless the name is taken.
    pub fn rename_to_new(mut self) -> Result<(), Errno> {
        let Named { parent, name, .. } = self.destination;
        match &self.hidden {
            None if nameless::link(&self.file, parent, name.as_bytes())? => Ok(()),
            None => Err(Errno::EXIST),
            Some(hidden) => {
                let flags = RenameFlags::NOREPLACE;
                rustix::fs::renameat_with(parent, &hidden[..], parent, name, flags)?;
                self.hidden = None;
                Ok(())
            }
        }
    }

    /// Gives the file its name, in place of what has it now.
    pub fn rename(mut self) -> Result<(), Errno> {
        let Named { parent, name, .. } = self.destination;
        if self.hidden.is_none() {
            if nameless::link(&self.file, parent, name.as_bytes())? {
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

impl Drop for Arriving<'_> {
    fn drop(&mut self) {
        if let Some(hidden) = &self.hidden {
            // Before the lock goes with the file. If it fails, the next to write this name does it.
            let _ = rustix::fs::unlinkat(&self.destination.parent, &hidden[..], AtFlags::empty());
        }
    }
}

/// Finds a hidden name for a file: what `take` makes of the first that is free, and the name.
fn hide<T>(
    destination: &Named,
    session: u64,
    take: impl Fn(&[u8]) -> Result<Option<T>, Errno>,
) -> Result<(Vec<u8>, T), Errno> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let (service, number) = (std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let own = format!("-{service:x}-{session:x}-{number:x}");
    for who in ["", &own] {
        let hidden = hidden_name(&destination.name, who);
        let mut taken = take(&hidden)?;
        if taken.is_none() && take_away_if_left(destination, &hidden) {
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

/// A file that was not there before, as what somebody else put under the name is not written to, and its lock; none if the
/// name is taken, or was taken away before the file was locked.
fn make_and_lock(destination: &Named, hidden: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let file = match rustix::fs::openat(&destination.parent, hidden, flags, mode) {
        Err(Errno::EXIST) => return Ok(None),
        made => made?,
    };
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        // Somebody takes it for a file that was left, and takes it away.
        Err(Errno::WOULDBLOCK) => return Ok(None),
        // A file system without locks.
        Err(_) => return Ok(Some(file)),
    }
    let is_linked = rustix::fs::fstat(&file)?.st_nlink > 0;
    Ok(is_linked.then_some(file))
}

/// Gives a file that has no name a hidden one, under its lock; none if the name is taken.
fn lock_and_link(file: &OwnedFd, destination: &Named, hidden: &[u8]) -> Result<Option<()>, Errno> {
    // Nobody else has it, and a file system without locks has none for others either.
    let _ = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    let linked = nameless::link(file, &destination.parent, hidden)?;
    Ok(linked.then_some(()))
}

/// Takes away a file under the hidden name that nobody works at; whether the name is free.
fn take_away_if_left(destination: &Named, hidden: &[u8]) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let left = match rustix::fs::openat(&destination.parent, hidden, flags, Mode::empty()) {
        Ok(left) => left,
        // A link, or somebody else's, is left alone.
        Err(errno) => return errno == Errno::NOENT,
    };
    if rustix::fs::flock(&left, FlockOperation::NonBlockingLockExclusive).is_err() {
        return false;
    }
    // Locked, but it may have got its own name, or gone, before.
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

    use super::*;
    use crate::scratch::Scratch;

    fn named(scratch: &Scratch) -> Named {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let parent = rustix::fs::open(scratch.path(""), flags, Mode::empty()).unwrap();
        Named::of(parent, "f".into())
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
    fn a_renamed_file_leaves_nothing_else() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let arriving = Arriving::under_hidden_name(&destination, 0).unwrap();
        assert_eq!(names(&scratch), [".f.rfio"]);
        arriving.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
    }

    #[test]
    fn a_file_that_is_given_up_is_taken_away() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        drop(Arriving::under_hidden_name(&destination, 0).unwrap());
        assert!(names(&scratch).is_empty());
    }

    #[test]
    fn what_a_killed_service_left_is_taken_away() {
        let scratch = Scratch::new();
        fs::write(scratch.path(".f.rfio"), "half").unwrap();
        let destination = named(&scratch);
        let arriving = Arriving::under_hidden_name(&destination, 0).unwrap();
        assert_eq!(names(&scratch), [".f.rfio"]);
        assert_eq!(fs::read(scratch.path(".f.rfio")).unwrap(), b"");
        arriving.rename().unwrap();
    }

    /// Hidden names keep the beginning of a name alone, and one session writes many files at a time.
    #[test]
    fn files_of_one_session_whose_names_begin_alike_have_a_file_each() {
        let scratch = Scratch::new();
        let long = |end: &str| {
            let name = "f".repeat(KEPT) + end;
            Named::of(named(&scratch).parent, name.into())
        };
        let destinations = ["one", "two", "three", "four"].map(long);
        let arriving: Vec<_> = destinations
            .iter()
            .map(|destination| Arriving::under_hidden_name(destination, 7).unwrap())
            .collect();
        assert_eq!(names(&scratch).len(), destinations.len());
        for one in arriving {
            one.rename().unwrap();
        }
        assert_eq!(names(&scratch).len(), destinations.len());
    }

    #[test]
    fn two_writers_of_a_name_have_a_file_each() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let one = Arriving::under_hidden_name(&destination, 1).unwrap();
        let other = Arriving::under_hidden_name(&destination, 2).unwrap();
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
    fn what_is_no_file_of_ours_is_neither_written_nor_taken_away() {
        let scratch = Scratch::new();
        fs::write(scratch.path("precious"), "kept").unwrap();
        std::os::unix::fs::symlink("precious", scratch.path(".f.rfio")).unwrap();
        let destination = named(&scratch);
        Arriving::under_hidden_name(&destination, 0)
            .unwrap()
            .rename()
            .unwrap();
        assert_eq!(fs::read(scratch.path("precious")).unwrap(), b"kept");
        assert_eq!(names(&scratch), [".f.rfio", "f", "precious"]);
    }

    /// One without a name, with this in it; none where there are no such files.
    fn without_name<'a>(destination: &'a Named, content: &str) -> Option<Arriving<'a>> {
        let arriving = Arriving::without_name(destination, 0).unwrap();
        if arriving.is_none() {
            eprintln!("skipped: the temporary directory has no files without names");
        }
        let arriving = arriving?;
        fs::File::from(arriving.file().try_clone_to_owned().unwrap())
            .write_all(content.as_bytes())
            .unwrap();
        Some(arriving)
    }

    #[test]
    fn a_file_without_a_name_is_not_seen_until_it_has_its_own() {
        let scratch = Scratch::new();
        let destination = named(&scratch);
        let Some(arriving) = without_name(&destination, "new") else {
            return;
        };
        drop(without_name(&destination, "given up"));
        assert!(names(&scratch).is_empty());
        arriving.rename().unwrap();
        assert_eq!(names(&scratch), ["f"]);
        assert_eq!(fs::read(scratch.path("f")).unwrap(), b"new");
    }

    /// What a killed service left in the midst of such a replacement goes with it.
    #[test]
    fn a_file_without_a_name_takes_the_place_of_what_has_its_own() {
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
    fn what_cannot_be_replaced_stays_and_nothing_else_is_left() {
        let scratch = Scratch::new();
        fs::create_dir_all(scratch.path("f/inside")).unwrap();
        let destination = named(&scratch);
        let Some(arriving) = without_name(&destination, "new") else {
            return;
        };
        assert_eq!(arriving.rename(), Err(Errno::ISDIR));
        assert_eq!(names(&scratch), ["f"]);
        assert!(scratch.path("f/inside").is_dir());
    }
}

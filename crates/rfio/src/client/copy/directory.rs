//! Directories of this host by descriptor: the only way of a copy to a local name.
//!
//! A copy writes what a server lists, and a tree that it writes to may hold links that an earlier copy brought. So nothing
//! below the place that the user named is ever reached by a joined path: every step is resolved by openat2(2) beneath the
//! open root without following any symbolic link, and a name is only ever acted on in its open parent.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags, Stat, Timestamps};
use rustix::io::Errno;

/// An open directory.
#[derive(Debug)]
pub struct Directory(OwnedFd);

/// Splits a relative path into its parent and its last name.
pub fn split(relative: &[u8]) -> (&[u8], &[u8]) {
    match relative.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&relative[..slash], &relative[slash + 1..]),
        None => (&[], relative),
    }
}

/// A name below a relative path.
pub fn join(relative: &[u8], name: &[u8]) -> Vec<u8> {
    match relative.is_empty() {
        true => name.to_vec(),
        false => [relative, b"/", name].concat(),
    }
}

/// A name that could lead elsewhere than into its directory is an attack or a bug.
pub fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
}

impl Directory {
    /// A directory that the user named; links on the way are the user's own.
    pub fn named(path: &Path) -> io::Result<Self> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// The directory that holds a path which the user named, and the path's last name.
    pub fn above(path: &Path) -> io::Result<(Self, Vec<u8>)> {
        let name = path
            .file_name()
            .ok_or(io::Error::from(Errno::ISDIR))?
            .as_bytes()
            .to_vec();
        Ok((Self::named(path.parent().unwrap_or(Path::new(".")))?, name))
    }

    /// A directory below this one, without following any link.
    pub fn below(&self, relative: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Self(self.resolve(relative, flags)?))
    }

    /// The directory above an open one.
    pub fn parent(of: std::os::fd::BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(of, "..", flags, Mode::empty())?))
    }

    /// The parent of a relative path, open, and the path's last name.
    pub fn parent_of<'a>(&self, relative: &'a [u8]) -> io::Result<(Self, &'a [u8])> {
        let (parent, name) = split(relative);
        if !is_plain_name(name) {
            return Err(Errno::INVAL.into());
        }
        Ok((self.below(parent)?, name))
    }

    fn resolve(&self, relative: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let resolve =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let path = if relative.is_empty() { b"." } else { relative };
        // EAGAIN: the kernel saw a rename race and asks to try again (openat2(2)).
        for _ in 0..64 {
            match rustix::fs::openat2(
                &self.0,
                path,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
                resolve,
            ) {
                Err(Errno::AGAIN) => {}
                other => return other.map_err(not_followed),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Makes a directory, or finds it there. Whether it was made.
    pub fn make(&self, relative: &[u8], mode: u32) -> io::Result<bool> {
        let (parent, name) = self.parent_of(relative)?;
        match rustix::fs::mkdirat(&parent.0, name, Mode::from_raw_mode(mode & 0o777)) {
            Ok(()) => Ok(true),
            // A link is not a directory here, wherever it leads.
            Err(Errno::EXIST) => parent.below(name).map(|_| false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a file for reading; a link is not followed, and anything but a regular file is refused.
    pub fn open_file(&self, relative: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.resolve(relative, flags)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no longer a regular file")),
        }
    }

    /// What this directory is.
    pub fn about(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.0)?)
    }

    /// The names in a directory below, each with what it is (a link itself).
    pub fn list(&self, relative: &[u8]) -> io::Result<Vec<(Vec<u8>, Stat)>> {
        let directory = self.below(relative)?;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut names = RawDir::new(&directory.0, buffer.spare_capacity_mut());
        let mut found = Vec::new();
        while let Some(entry) = names.next() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            // A name that vanished since is no entry.
            if let Ok(stat) = rustix::fs::statat(&directory.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                found.push((name.to_bytes().to_vec(), stat));
            }
        }
        Ok(found)
    }

    /// Where a symbolic link leads.
    pub fn read_link(&self, relative: &[u8]) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent_of(relative)?;
        Ok(rustix::fs::readlinkat(&parent.0, name, Vec::new())?.into_bytes())
    }

    /// Makes a symbolic link, in place of whatever but a directory has the name.
    pub fn make_link(&self, relative: &[u8], target: &[u8]) -> io::Result<()> {
        let (parent, name) = self.parent_of(relative)?;
        match rustix::fs::symlinkat(target, &parent.0, name) {
            Err(Errno::EXIST) => {
                let there = rustix::fs::readlinkat(&parent.0, name, Vec::new());
                if there.is_ok_and(|there| there.as_bytes() == target) {
                    return Ok(());
                }
                rustix::fs::unlinkat(&parent.0, name, AtFlags::empty())?;
                Ok(rustix::fs::symlinkat(target, &parent.0, name)?)
            }
            other => Ok(other?),
        }
    }

    /// Sets the time of the last change of a link itself.
    pub fn set_link_time(&self, relative: &[u8], time: rustix::fs::Timespec) -> io::Result<()> {
        let (parent, name) = self.parent_of(relative)?;
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&parent.0, name, &times, flags)?)
    }

    /// Gives a file below a second name, in place of whatever but a directory has it.
    pub fn make_hard_link(&self, existing: &[u8], relative: &[u8]) -> io::Result<()> {
        let (from, old) = self.parent_of(existing)?;
        let (to, new) = self.parent_of(relative)?;
        let link = || rustix::fs::linkat(&from.0, old, &to.0, new, AtFlags::empty());
        match link() {
            Err(Errno::EXIST) => {
                rustix::fs::unlinkat(&to.0, new, AtFlags::empty())?;
                Ok(link()?)
            }
            other => Ok(other?),
        }
    }

    /// Puts the names in this directory on stable storage.
    pub fn synchronise(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The kernel's "too many levels of symbolic links" means here that there is one at all.
fn not_followed(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP => io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the path contains a symbolic link; copies follow none below the named directory",
        ),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::unix::fs::symlink;

    #[test]
    fn no_link_below_the_root_is_followed() {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("root/d")).unwrap();
        std::fs::create_dir(scratch.path("outside")).unwrap();
        std::fs::write(scratch.path("outside/f"), "secret").unwrap();
        symlink("../outside", scratch.path("root/evil")).unwrap();
        symlink("d", scratch.path("root/inner")).unwrap();
        symlink("../outside/f", scratch.path("root/file")).unwrap();
        let root = Directory::named(&scratch.path("root")).unwrap();
        for link in [&b"evil"[..], b"inner", b"../outside", b"/"] {
            assert!(root.below(link).is_err(), "{link:?}");
            assert!(root.parent_of(&join(link, b"new")).is_err());
        }
        assert!(root.make(b"evil", 0o755).is_err());
        assert!(root.make(b"evil/new", 0o755).is_err());
        assert!(root.open_file(b"file").is_err());
        assert!(root.open_file(b"evil/f").is_err());
        assert!(!root.make(b"d", 0o755).unwrap());
        assert!(root.make(b"d/new", 0o755).unwrap());
        assert_eq!(
            std::fs::read_dir(scratch.path("outside")).unwrap().count(),
            1
        );
    }

    #[test]
    fn a_link_replaces_what_has_its_name_but_no_directory() {
        let scratch = Scratch::new();
        std::fs::create_dir(scratch.path("d")).unwrap();
        std::fs::write(scratch.path("f"), "x").unwrap();
        let root = Directory::named(&scratch.path("")).unwrap();
        root.make_link(b"f", b"elsewhere").unwrap();
        root.make_link(b"f", b"elsewhere").unwrap();
        assert_eq!(root.read_link(b"f").unwrap(), b"elsewhere");
        assert!(root.make_link(b"d", b"elsewhere").is_err());
    }
}

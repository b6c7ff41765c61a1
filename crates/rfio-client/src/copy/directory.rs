//! Local directories by descriptor: the only access of a copy to local names.
//!
//! A copy writes names that a server lists, and the tree it writes to may contain symbolic links
//! from an earlier copy. Therefore nothing below the path that the user named is accessed by a
//! joined path. Each path is resolved by openat2(2) beneath the open root without following
//! symbolic links, and names are used only relative to their open parent.

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

/// Joins a relative path and a name.
pub fn join(relative: &[u8], name: &[u8]) -> Vec<u8> {
    match relative.is_empty() {
        true => name.to_vec(),
        false => [relative, b"/", name].concat(),
    }
}

/// Returns whether a name stays within its directory. Any other name is an attack or a bug.
pub fn is_plain_name(name: &[u8]) -> bool {
    !name.is_empty() && !name.contains(&b'/') && !name.contains(&0) && name != b"." && name != b".."
}

impl Directory {
    /// Opens a directory that the user named; symbolic links in the path are followed, being the
    /// user's own.
    ///
    /// # Errors
    /// Returns the errors of open(2).
    pub fn named(path: &Path) -> io::Result<Self> {
        let path = match path.as_os_str().is_empty() {
            true => Path::new("."),
            false => path,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::open(path, flags, Mode::empty())?))
    }

    /// Opens the parent of a path that the user named; returns it and the path's last name.
    ///
    /// # Errors
    /// Returns EISDIR if the path has no last name, else the errors of open(2).
    pub fn above(path: &Path) -> io::Result<(Self, Vec<u8>)> {
        let name = path
            .file_name()
            .ok_or(io::Error::from(Errno::ISDIR))?
            .as_bytes()
            .to_vec();
        Ok((Self::named(path.parent().unwrap_or(Path::new(".")))?, name))
    }

    /// Opens a directory below this one without following symbolic links.
    ///
    /// # Errors
    /// Returns the errors of openat2(2).
    pub fn below(&self, relative: &[u8]) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        Ok(Self(self.resolve(relative, flags)?))
    }

    /// Opens the parent of an open directory.
    ///
    /// # Errors
    /// Returns the errors of openat(2).
    pub fn parent(of: std::os::fd::BorrowedFd<'_>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(rustix::fs::openat(of, "..", flags, Mode::empty())?))
    }

    /// Opens the parent of a relative path; returns it and the path's last name.
    ///
    /// # Errors
    /// Returns EINVAL if the last name is not a plain name, else the errors of openat2(2).
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

    /// Creates a directory unless it exists; returns whether it was created.
    ///
    /// # Errors
    /// Returns the errors of mkdirat(2), and those of openat2(2) if something else has the name.
    pub fn make(&self, relative: &[u8], mode: u32) -> io::Result<bool> {
        let (parent, name) = self.parent_of(relative)?;
        match rustix::fs::mkdirat(&parent.0, name, Mode::from_raw_mode(mode & 0o777)) {
            Ok(()) => Ok(true),
            // A symbolic link is not accepted as a directory, even if it leads to one.
            Err(Errno::EXIST) => parent.below(name).map(|_| false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens a regular file for reading, without following symbolic links.
    ///
    /// # Errors
    /// Returns the errors of openat2(2), and an error for anything but a regular file.
    pub fn open_file(&self, relative: &[u8]) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(self.resolve(relative, flags)?);
        match file.metadata()?.is_file() {
            true => Ok(file),
            false => Err(io::Error::other("it is no longer a regular file")),
        }
    }

    /// Returns the stat(2) data of this directory.
    ///
    /// # Errors
    /// Returns the errors of fstat(2).
    pub fn about(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&self.0)?)
    }

    /// Lists a directory below, with the stat(2) data of each entry (of a symbolic link itself).
    ///
    /// # Errors
    /// Returns the errors of openat2(2) and getdents64(2).
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
            // A name removed meanwhile is skipped.
            if let Ok(stat) = rustix::fs::statat(&directory.0, name, AtFlags::SYMLINK_NOFOLLOW) {
                found.push((name.to_bytes().to_vec(), stat));
            }
        }
        Ok(found)
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// Returns the errors of readlinkat(2).
    pub fn read_link(&self, relative: &[u8]) -> io::Result<Vec<u8>> {
        let (parent, name) = self.parent_of(relative)?;
        Ok(rustix::fs::readlinkat(&parent.0, name, Vec::new())?.into_bytes())
    }

    /// Creates a symbolic link; replaces an existing entry unless it is a directory.
    ///
    /// # Errors
    /// Returns the errors of symlinkat(2) and unlinkat(2).
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

    /// Sets the time of the last change of a symbolic link itself.
    ///
    /// # Errors
    /// Returns the errors of utimensat(2).
    pub fn set_link_time(&self, relative: &[u8], time: rustix::fs::Timespec) -> io::Result<()> {
        let (parent, name) = self.parent_of(relative)?;
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&parent.0, name, &times, flags)?)
    }

    /// Creates a hard link to a file below; replaces an existing entry unless it is a directory.
    ///
    /// # Errors
    /// Returns the errors of linkat(2) and unlinkat(2).
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
    ///
    /// # Errors
    /// Returns the errors of fsync(2).
    pub fn synchronise(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Explains ELOOP, which here means that the path contains a symbolic link at all.
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
    use std::os::unix::fs::symlink;
    use verbena_rfio_common::scratch::Scratch;

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

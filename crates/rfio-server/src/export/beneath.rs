//! The path walk from an export's root, done entirely by the kernel.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::Root;

/// A path within an export, normalized except for `..`, which the kernel resolves.
#[derive(Debug, PartialEq, Eq)]
pub struct Beneath {
    pub(super) relative: Vec<u8>,
}

impl Beneath {
    fn as_os_str(&self) -> &OsStr {
        if self.relative.is_empty() {
            OsStr::new(".")
        } else {
            OsStr::from_bytes(&self.relative)
        }
    }

    /// Returns the parent's path and the last name, if the path ends in a name that can be created
    /// or removed.
    pub(super) fn split(&self) -> Option<(Beneath, &OsStr)> {
        let (parent, name) = match self.relative.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&self.relative[..slash], &self.relative[slash + 1..]),
            None => (&[][..], &self.relative[..]),
        };
        if name.is_empty() || name == b".." {
            return None;
        }
        Some((
            Beneath {
                relative: parent.to_vec(),
            },
            OsStr::from_bytes(name),
        ))
    }
}

impl Root {
    /// Opens a path beneath the root.
    pub(super) fn open_beneath(
        &self,
        beneath: &Beneath,
        flags: OFlags,
        mode: Mode,
    ) -> io::Result<OwnedFd> {
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // EAGAIN: a rename raced with a `..`; openat2(2) asks to try again.
        for _ in 0..64 {
            match rustix::fs::openat2(self, beneath.as_os_str(), flags, mode, resolve) {
                Err(Errno::AGAIN) => {}
                // EXDEV would be misleading for the user of a copy tool: this is a refusal.
                Err(Errno::XDEV) => return Err(Errno::ACCESS.into()),
                other => return Ok(other?),
            }
        }
        Err(Errno::AGAIN.into())
    }

    /// Opens a path from the kernel's caches alone. The walk stops at another file system, whose
    /// lookups may block.
    pub(super) fn open_beneath_cached(
        &self,
        beneath: &Beneath,
        flags: OFlags,
    ) -> io::Result<Option<OwnedFd>> {
        if !self.is_local {
            return Ok(None);
        }
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV
            | ResolveFlags::CACHED;
        let flags = flags | OFlags::CLOEXEC;
        match rustix::fs::openat2(self, beneath.as_os_str(), flags, Mode::empty(), resolve) {
            // Not cached, or not within this file system; or a kernel before 5.12, which lacks
            // `RESOLVE_CACHED`.
            Err(Errno::AGAIN | Errno::XDEV | Errno::INVAL) => Ok(None),
            other => Ok(Some(other?)),
        }
    }
}

/// Opens a file that was opened with `O_PATH` before, if it is a regular file.
pub(super) fn reopen_seen(seen: &OwnedFd, about: &Stat, flags: OFlags) -> io::Result<OwnedFd> {
    match FileType::from_raw_mode(about.st_mode) {
        FileType::RegularFile => {
            // The descriptor's name in /proc leads to exactly that file.
            let name = format!("/proc/self/fd/{}", seen.as_raw_fd());
            Ok(rustix::fs::open(
                name,
                flags | OFlags::CLOEXEC,
                Mode::empty(),
            )?)
        }
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(Errno::INVAL.into()),
    }
}

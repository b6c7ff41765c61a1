//! What is done by name: directories, links, permissions, and lists.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, SeekFrom};
use rustix::io::Errno;
use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::reply::{About, Capacity, Done, Listing, Target};
use verbena_rfio_protocol::request::{Access, ChangeOwner, List, PathMode, TwoPaths};
use verbena_rfio_protocol::types::{Entry, Path};

use super::attributes::attributes;
use super::write::{group, owner, settable};
use super::{Engine, Failure, Outcome, Patience, plain};
use crate::server::export::Place;
use crate::server::sys;

/// Most entries of one reply: with names of 255 bytes they fit a body.
const MOST_ENTRIES: usize = 4096;

/// Bytes of an entry at most: its name, its attributes, and what holds them.
pub(super) const MOST_ENTRY_BYTES: usize = 512;

/// Entries of a reply to somebody who wants `count`.
pub(super) fn page(count: u32) -> usize {
    (count as usize).clamp(1, MOST_ENTRIES)
}

impl Engine {
    fn look(&self, path: &Path, flags: OFlags, patience: Patience) -> Result<OwnedFd, Failure> {
        let exports = &self.service.exports;
        match patience {
            Patience::Unlimited => Ok(exports.look(path, flags)?),
            Patience::None => exports
                .look_at_once(path, flags)?
                .ok_or(Failure::WouldBlock),
        }
    }

    fn is_above(&self, path: &Path) -> bool {
        matches!(self.service.exports.locate(path), Ok(Place::Above))
    }

    /// The directory above several exports looks like the first of them.
    fn first_root(&self) -> Result<About, Failure> {
        let (_, root) = self
            .service
            .exports
            .names()
            .next()
            .ok_or(Failure::from(Errno::NOENT))?;
        Ok(About {
            attributes: attributes(&rustix::fs::fstat(root)?),
        })
    }

    pub(super) fn status(&self, path: &Path, patience: Patience) -> Outcome {
        if self.is_above(path) {
            return plain(Reply::Status(self.first_root()?));
        }
        let stat = rustix::fs::fstat(self.look(path, OFlags::empty(), patience)?)?;
        plain(Reply::Status(About {
            attributes: attributes(&stat),
        }))
    }

    pub(super) fn link_status(&self, path: &Path, patience: Patience) -> Outcome {
        if self.is_above(path) {
            return plain(Reply::LinkStatus(self.first_root()?));
        }
        let stat = rustix::fs::fstat(self.look(path, OFlags::NOFOLLOW, patience)?)?;
        plain(Reply::LinkStatus(About {
            attributes: attributes(&stat),
        }))
    }

    pub(super) fn access(&self, access: &Access, patience: Patience) -> Outcome {
        const WRITE: u32 = 2;
        if access.mode > 7 {
            return Err(Errno::INVAL.into());
        }
        if self.is_above(&access.path) {
            return if access.mode & WRITE == 0 {
                plain(Reply::Accessible(Done {}))
            } else {
                Err(Errno::ROFS.into())
            };
        }
        let file = self.look(&access.path, OFlags::empty(), patience)?;
        if access.mode & WRITE != 0 {
            self.service.exports.must_be_writable(&access.path)?;
        }
        sys::access(file.as_fd(), access.mode)?;
        plain(Reply::Accessible(Done {}))
    }

    pub(super) fn make_directory(&self, make: &PathMode) -> Outcome {
        let named = self.service.exports.name(&make.path)?;
        rustix::fs::mkdirat(&named.parent, &named.name, settable(make.mode))?;
        plain(Reply::DirectoryMade(Done {}))
    }

    pub(super) fn remove_directory(&self, path: &Path) -> Outcome {
        let named = self.service.exports.name(path)?;
        rustix::fs::unlinkat(&named.parent, &named.name, AtFlags::REMOVEDIR)?;
        plain(Reply::DirectoryRemoved(Done {}))
    }

    pub(super) fn unlink(&self, path: &Path) -> Outcome {
        let named = self.service.exports.name(path)?;
        rustix::fs::unlinkat(&named.parent, &named.name, AtFlags::empty())?;
        plain(Reply::Unlinked(Done {}))
    }

    pub(super) fn rename(&self, two: &TwoPaths) -> Outcome {
        let from = self.service.exports.name(&two.from)?;
        let to = self.service.exports.name(&two.to)?;
        rustix::fs::renameat(&from.parent, &from.name, &to.parent, &to.name)?;
        plain(Reply::Renamed(Done {}))
    }

    /// The link's text is the client's; where it leads is judged when somebody follows it.
    pub(super) fn make_link(&self, two: &TwoPaths) -> Outcome {
        let named = self.service.exports.name(&two.to)?;
        rustix::fs::symlinkat(two.from.as_bytes(), &named.parent, &named.name)?;
        plain(Reply::LinkMade(Done {}))
    }

    pub(super) fn read_link(&self, path: &Path) -> Outcome {
        let link = self.look(path, OFlags::NOFOLLOW, Patience::Unlimited)?;
        let target = match rustix::fs::readlinkat(&link, c"", Vec::new()) {
            Err(Errno::NOENT) => return Err(Errno::INVAL.into()),
            other => other?,
        };
        let path = Path::new(target.into_bytes()).ok_or(Failure::from(Errno::NAMETOOLONG))?;
        plain(Reply::Target(Target { path }))
    }

    pub(super) fn change_mode(&self, change: &PathMode) -> Outcome {
        self.service.exports.must_be_writable(&change.path)?;
        let file = self.look(&change.path, OFlags::empty(), Patience::Unlimited)?;
        // fchmod(2) does not take such a descriptor; its name in /proc leads to exactly this file.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut mode = settable(change.mode);
        // Of a directory the bit gives nobody rights: its group passes to what is in it. One that
        // is set stays, as with chmod(1).
        let about = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            mode |= Mode::from_raw_mode(change.mode | about.st_mode) & Mode::SGID;
        }
        rustix::fs::chmodat(CWD, name, mode, AtFlags::empty())?;
        plain(Reply::ModeChanged(Done {}))
    }

    pub(super) fn change_owner(&self, change: &ChangeOwner) -> Outcome {
        self.service.exports.must_be_writable(&change.path)?;
        let file = self.look(&change.path, OFlags::empty(), Patience::Unlimited)?;
        rustix::fs::chownat(
            &file,
            c"",
            owner(change.owner),
            group(change.group),
            AtFlags::EMPTY_PATH,
        )?;
        plain(Reply::OwnerChanged(Done {}))
    }

    pub(super) fn space(&self, path: &Path) -> Outcome {
        let space = rustix::fs::fstatvfs(self.look(path, OFlags::empty(), Patience::Unlimited)?)?;
        plain(Reply::Capacity(Capacity {
            block: space.f_frsize,
            blocks: space.f_blocks,
            free: space.f_bavail,
            inodes: space.f_files,
            free_inodes: space.f_favail,
        }))
    }

    pub(super) fn list(&self, list: &List) -> Outcome {
        if self.is_above(&list.path) {
            return self.list_exports();
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self
            .service
            .exports
            .open(&list.path, flags, Mode::empty())?;
        if list.cookie != 0 {
            rustix::fs::seek(&directory, SeekFrom::Start(list.cookie))?;
        }
        let most = page(list.count);
        let mut entries = Vec::new();
        let mut cookie = 0;
        let mut buffer = Vec::with_capacity(32 << 10);
        let mut names = RawDir::new(&directory, buffer.spare_capacity_mut());
        while let Some(found) = names.next() {
            let found = found?;
            let name = found.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // A name that vanished since the directory was read is not an entry.
            if let Ok(stat) =
                rustix::fs::statat(&directory, found.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                && let Some(name) = Path::new(name)
            {
                entries.push(Entry {
                    name,
                    attributes: attributes(&stat),
                });
            }
            if entries.len() >= most {
                cookie = found.next_entry_cookie();
                break;
            }
        }
        plain(Reply::Listing(Listing { entries, cookie }))
    }

    fn list_exports(&self) -> Outcome {
        let mut entries = Vec::new();
        for (name, root) in self.service.exports.names() {
            let name = Path::new(name).ok_or(Failure::from(Errno::NAMETOOLONG))?;
            entries.push(Entry {
                name,
                attributes: attributes(&rustix::fs::fstat(root)?),
            });
        }
        plain(Reply::Listing(Listing { entries, cookie: 0 }))
    }
}

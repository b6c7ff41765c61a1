//! Requests by name: directories, links, permissions and listings.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use rustix::io::Errno;
use verbena_rfio_protocol::reply::{About, Capacity, Done, Listing, Target};
use verbena_rfio_protocol::request::{Access, ChangeOwner, List, PathMode, TwoPaths};
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::attributes::attributes;
use super::write::{group, owner, settable};
use super::{Engine, Failure, IoMode, Outcome, plain};
use crate::export::{DirectoryEntry, NameChange, PathTarget};
use crate::rights::{Need, Operations};
use crate::sys;

/// Maximum number of entries per reply: with names of 255 bytes they fit a body.
const MOST_ENTRIES: usize = 4096;

/// Maximum bytes of an entry: its name, its attributes, and the structures around them.
pub(super) const MOST_ENTRY_BYTES: usize = 512;

/// Returns the number of entries of a reply to a client that wants `count`.
pub(super) fn page(count: u32) -> usize {
    (count as usize).clamp(1, MOST_ENTRIES)
}

impl Engine {
    fn look(
        &self,
        path: &Path,
        flags: OFlags,
        io_mode: IoMode,
        need: Need,
    ) -> Result<OwnedFd, Failure> {
        let exports = &self.service.exports;
        let permit = self.permit(need);
        match io_mode {
            IoMode::MayBlock => Ok(exports.open_path(path, flags, &permit)?),
            IoMode::CacheOnly => exports
                .open_path_cached(path, flags, &permit)?
                .ok_or(Failure::WouldBlock),
        }
    }

    /// Opens the parent of a name that is created or changed.
    pub(super) fn name(&self, path: &Path) -> Result<DirectoryEntry, Failure> {
        let permit = self.permit(Need::All(Operations::WRITE));
        Ok(self.service.exports.name(path, &permit)?)
    }

    /// Opens the parent of a name that is removed.
    fn name_to_remove(&self, path: &Path) -> Result<DirectoryEntry, Failure> {
        let permit = self.permit(Need::All(Operations::DELETE));
        Ok(self.service.exports.name(path, &permit)?)
    }

    /// Opens the parents of an existing name and of the new one that it gets.
    pub(super) fn two_names(
        &self,
        two: &TwoPaths,
        takes: NameChange,
    ) -> Result<(DirectoryEntry, DirectoryEntry), Failure> {
        let may_change = Operations::WRITE.and(Operations::DELETE);
        let permit = self.permit(Need::AnyOf(may_change));
        let from = self.service.exports.name(&two.from, &permit)?;
        let to = self.name(&two.to)?;
        from.may_become(&to, &permit, takes)?;
        Ok((from, to))
    }

    fn is_above(&self, path: &Path) -> bool {
        matches!(self.service.exports.locate(path), Ok(PathTarget::Above))
    }

    /// Returns the attributes of the directory above several exports, which are those of the first
    /// export.
    fn first_root(&self) -> Result<About, Failure> {
        self.permit(Need::Look).check(b"/")?;
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

    pub(super) fn status(&self, path: &Path, io_mode: IoMode) -> Outcome {
        if self.is_above(path) {
            return plain(Reply::Status(self.first_root()?));
        }
        let stat = rustix::fs::fstat(self.look(path, OFlags::empty(), io_mode, Need::Look)?)?;
        plain(Reply::Status(About {
            attributes: attributes(&stat),
        }))
    }

    pub(super) fn link_status(&self, path: &Path, io_mode: IoMode) -> Outcome {
        if self.is_above(path) {
            return plain(Reply::LinkStatus(self.first_root()?));
        }
        let stat = rustix::fs::fstat(self.look(path, OFlags::NOFOLLOW, io_mode, Need::Look)?)?;
        plain(Reply::LinkStatus(About {
            attributes: attributes(&stat),
        }))
    }

    pub(super) fn access(&self, access: &Access, io_mode: IoMode) -> Outcome {
        const READ: u32 = 4;
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
        let read = Operations::READ.and(Operations::LIST);
        let need = match (access.mode & READ != 0, access.mode & WRITE != 0) {
            (_, true) => Need::All(Operations::WRITE),
            (true, false) => Need::AnyOf(read),
            (false, false) => Need::Look,
        };
        let file = self.look(&access.path, OFlags::empty(), io_mode, need)?;
        if access.mode & WRITE != 0 {
            self.service.exports.must_be_writable(&access.path)?;
            if access.mode & READ != 0 {
                self.look(&access.path, OFlags::empty(), io_mode, Need::AnyOf(read))?;
            }
        }
        sys::access(file.as_fd(), access.mode)?;
        plain(Reply::Accessible(Done {}))
    }

    pub(super) fn make_directory(&self, make: &PathMode) -> Outcome {
        let named = match self.name(&make.path) {
            // Like mkdir(2): `mkdir -p` continues below directories created by other users.
            Err(Failure::Refused(status, _))
                if status == Status::errno(libc::EACCES)
                    && self.status(&make.path, IoMode::MayBlock).is_ok() =>
            {
                return Err(Errno::EXIST.into());
            }
            named => named?,
        };
        rustix::fs::mkdirat(&named.parent, &named.name, settable(make.mode))?;
        named.confirm()?;
        plain(Reply::DirectoryMade(Done {}))
    }

    pub(super) fn remove_directory(&self, path: &Path) -> Outcome {
        let named = self.name_to_remove(path)?;
        rustix::fs::unlinkat(&named.parent, &named.name, AtFlags::REMOVEDIR)?;
        named.confirm()?;
        plain(Reply::DirectoryRemoved(Done {}))
    }

    pub(super) fn unlink(&self, path: &Path) -> Outcome {
        let named = self.name_to_remove(path)?;
        rustix::fs::unlinkat(&named.parent, &named.name, AtFlags::empty())?;
        named.confirm()?;
        plain(Reply::Unlinked(Done {}))
    }

    pub(super) fn rename(&self, two: &TwoPaths) -> Outcome {
        let (from, to) = self.two_names(two, NameChange::Away)?;
        rustix::fs::renameat(&from.parent, &from.name, &to.parent, &to.name)?;
        to.confirm()?;
        plain(Reply::Renamed(Done {}))
    }

    /// Renames; fails with EEXIST if the new name is taken.
    pub(super) fn rename_to_new(&self, two: &TwoPaths) -> Result<(), Failure> {
        let (from, to) = self.two_names(two, NameChange::Away)?;
        let flags = RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(&from.parent, &from.name, &to.parent, &to.name, flags)?;
        Ok(to.confirm()?)
    }

    /// The link's target is stored as the client gave it; it is checked when the link is followed.
    pub(super) fn make_link(&self, two: &TwoPaths) -> Outcome {
        let named = self.name(&two.to)?;
        rustix::fs::symlinkat(two.from.as_bytes(), &named.parent, &named.name)?;
        named.confirm()?;
        plain(Reply::LinkMade(Done {}))
    }

    pub(super) fn read_link(&self, path: &Path) -> Outcome {
        let link = self.look(path, OFlags::NOFOLLOW, IoMode::MayBlock, Need::Look)?;
        let target = match rustix::fs::readlinkat(&link, c"", Vec::new()) {
            Err(Errno::NOENT) => return Err(Errno::INVAL.into()),
            other => other?,
        };
        let path = Path::new(target.into_bytes()).ok_or(Failure::from(Errno::NAMETOOLONG))?;
        plain(Reply::Target(Target { path }))
    }

    pub(super) fn change_mode(&self, change: &PathMode) -> Outcome {
        self.service.exports.must_be_writable(&change.path)?;
        let need = Need::All(Operations::WRITE);
        let file = self.look(&change.path, OFlags::empty(), IoMode::MayBlock, need)?;
        // fchmod(2) rejects an `O_PATH` descriptor; its name in /proc leads to exactly this file.
        let name = format!("/proc/self/fd/{}", file.as_raw_fd());
        let mut mode = settable(change.mode);
        // On a directory the set-group-ID bit grants no rights: new entries inherit the directory's
        // group. A set bit is kept, as by chmod(1).
        let about = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(about.st_mode) == FileType::Directory {
            mode |= Mode::from_raw_mode(change.mode | about.st_mode) & Mode::SGID;
        }
        rustix::fs::chmodat(CWD, name, mode, AtFlags::empty())?;
        plain(Reply::ModeChanged(Done {}))
    }

    pub(super) fn change_owner(&self, change: &ChangeOwner) -> Outcome {
        self.service.exports.must_be_writable(&change.path)?;
        let need = Need::All(Operations::WRITE);
        let file = self.look(&change.path, OFlags::empty(), IoMode::MayBlock, need)?;
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
        let space = self.look(path, OFlags::empty(), IoMode::MayBlock, Need::Look)?;
        let space = rustix::fs::fstatvfs(space)?;
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
        let permit = self.permit(Need::All(Operations::LIST));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let directory = self
            .service
            .exports
            .open(&list.path, flags, Mode::empty(), &permit)?;
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
            // A name removed since the directory was read is not an entry.
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
        self.permit(Need::All(Operations::LIST)).check(b"/")?;
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

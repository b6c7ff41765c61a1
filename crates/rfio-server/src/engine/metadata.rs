//! Requests for faithful copies: holes, timestamps, hard links, extended attributes, and directory
//! synchronization.

use std::ffi::{CStr, CString};
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, SeekFrom, Timestamps, XattrFlags};
use rustix::io::Errno;
use verbena_rfio_protocol::reply::{Data, Done, ExtendedAttributes};
use verbena_rfio_protocol::request::{Extents, PathTimes, SetExtended, TwoPaths};
use verbena_rfio_protocol::types::{Bytes, Extended, Extent, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::handles::FileStorage;
use super::write::{group, owner, settable, timespec};
use super::{Engine, Failure, Outcome, plain};
use crate::export::{DirectoryEntry, NameChange};
use crate::rights::{Need, Operations};

/// Maximum number of extents in one reply.
const MOST_EXTENTS: u32 = 4096;

/// Maximum bytes of a file's extended attributes in a reply. Most of Linux's file systems store far
/// less.
pub(super) const MOST_EXTENDED: usize = 128 << 10;

/// The only namespace that belongs to users; the others control access on this host.
const NAME_SPACE: &[u8] = b"user.";

/// A file's POSIX ACL, in the kernel's form.
const ACL: &CStr = c"system.posix_acl_access";

impl Engine {
    /// Returns data extents and holes, as reported by lseek(2); a file system without holes reports
    /// everything as data.
    pub(super) fn extents(&self, request: &Extents) -> Outcome {
        let open = self.handles.find(request.handle)?;
        let file = match &open.body {
            FileStorage::File(file) => file,
            FileStorage::Unfilled(size) => {
                let length = size.saturating_sub(request.offset);
                let extent = Extent {
                    offset: request.offset,
                    length,
                };
                let extents = if length > 0 { vec![extent] } else { Vec::new() };
                return plain(Reply::Data(Data { extents, next: 0 }));
            }
        };
        if i64::try_from(request.offset).is_err() {
            return Err(Errno::INVAL.into());
        }
        let (mut extents, mut at) = (Vec::new(), request.offset);
        let next = loop {
            if extents.len() >= request.count.clamp(1, MOST_EXTENTS) as usize {
                break at;
            }
            // Only a hole follows, or the file ends.
            let Some(offset) = seek(file, SeekFrom::Data(at))? else {
                break 0;
            };
            let end = match seek(file, SeekFrom::Hole(offset))? {
                Some(end) => end,
                None => break 0,
            };
            if end <= offset {
                break 0;
            }
            extents.push(Extent {
                offset,
                length: end - offset,
            });
            at = end;
        };
        plain(Reply::Data(Data { extents, next }))
    }

    pub(super) fn synchronise_directory(&self, path: &Path) -> Outcome {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let permit = self.permit(Need::Look);
        let directory = self
            .service
            .exports
            .open(path, flags, Mode::empty(), &permit)?;
        rustix::fs::fsync(&directory)?;
        plain(Reply::DirectorySynchronised(Done {}))
    }

    pub(super) fn change_times(&self, times: &PathTimes) -> Outcome {
        let named = self.name(&times.path)?;
        let timestamps = Timestamps {
            last_access: timespec(times.accessed),
            last_modification: timespec(times.modified),
        };
        rustix::fs::utimensat(
            &named.parent,
            &named.name,
            &timestamps,
            AtFlags::SYMLINK_NOFOLLOW,
        )?;
        plain(Reply::TimesChanged(Done {}))
    }

    pub(super) fn make_hard_link(&self, two: &TwoPaths) -> Outcome {
        let (from, to) = self.two_names(two, NameChange::Shared)?;
        rustix::fs::linkat(
            &from.parent,
            &from.name,
            &to.parent,
            &to.name,
            AtFlags::empty(),
        )?;
        to.confirm()?;
        plain(Reply::HardLinkMade(Done {}))
    }

    /// Renames a file onto another one, after copying the replaced file's owner, permissions, ACL
    /// and user attributes.
    pub(super) fn replace(&self, two: &TwoPaths) -> Outcome {
        let (from, to) = self.two_names(two, NameChange::Away)?;
        let look = |named: &DirectoryEntry| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&named.parent, &named.name, flags, Mode::empty())
        };
        match look(&to) {
            Ok(replaced) => take_attributes(&look(&from)?, &replaced)?,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        rustix::fs::renameat(&from.parent, &from.name, &to.parent, &to.name)?;
        to.confirm()?;
        plain(Reply::Replaced(Done {}))
    }

    /// A file system without extended attributes yields none.
    pub(super) fn extended(&self, path: &Path) -> Outcome {
        let permit = self.permit(Need::All(Operations::READ));
        let file = self
            .service
            .exports
            .open_path(path, OFlags::NOFOLLOW, &permit)?;
        let mut entries = Vec::new();
        let mut sum = 0;
        for name in names(&file)? {
            let mut value = vec![0; verbena_rfio_protocol::types::MOST_VALUE];
            let length = match rustix::fs::getxattr(by_descriptor(&file), &name, &mut value[..]) {
                Err(Errno::NODATA) => continue,
                other => other?,
            };
            value.truncate(length);
            sum += length + name.as_bytes().len();
            if sum > MOST_EXTENDED {
                return Err(Failure::Refused(
                    Status::errno(libc::E2BIG),
                    "more extended attributes than are handed out",
                ));
            }
            let name = Path::new(name.into_bytes()).ok_or(Failure::from(Errno::NAMETOOLONG))?;
            let value = Bytes::new(value).ok_or(Failure::from(Errno::TOOBIG))?;
            entries.push(Extended { name, value });
        }
        plain(Reply::Extended(ExtendedAttributes { entries }))
    }

    pub(super) fn set_extended(&self, set: &SetExtended) -> Outcome {
        self.service.exports.must_be_writable(&set.path)?;
        let permit = self.permit(Need::All(Operations::WRITE));
        let file = self
            .service
            .exports
            .open_path(&set.path, OFlags::NOFOLLOW, &permit)?;
        for Extended { name, value } in &set.entries {
            if !name.as_bytes().starts_with(NAME_SPACE) {
                return Err(Errno::PERM.into());
            }
            rustix::fs::setxattr(
                by_descriptor(&file),
                name.as_bytes(),
                value.as_slice(),
                XattrFlags::empty(),
            )?;
        }
        plain(Reply::ExtendedSet(Done {}))
    }
}

/// Gives `file` the owner, permissions, ACL and user attributes of `other`, as far as this process
/// may. Changes nothing unless both are regular files.
fn take_attributes(file: &OwnedFd, other: &OwnedFd) -> Result<(), Failure> {
    let (mine, about) = (rustix::fs::fstat(file)?, rustix::fs::fstat(other)?);
    let is_regular = |mode| FileType::from_raw_mode(mode) == FileType::RegularFile;
    if !is_regular(mine.st_mode) || !is_regular(about.st_mode) {
        return Ok(());
    }
    let (by_file, by_other) = (by_descriptor(file), by_descriptor(other));
    // Only root may change owners. Unprivileged editors also leave the file to their user.
    let _ = rustix::fs::chownat(file, c"", owner(about.st_uid), None, AtFlags::EMPTY_PATH);
    let has_group = mine.st_gid == about.st_gid
        || rustix::fs::chownat(file, c"", None, group(about.st_gid), AtFlags::EMPTY_PATH).is_ok();
    // Rights of one group must not pass to another, nor those of an ACL.
    let kept = if has_group { !0 } else { !0o070 };
    match rustix::fs::removexattr(&*by_file, ACL) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
        Err(errno) => return Err(errno.into()),
    }
    rustix::fs::chmodat(
        CWD,
        &*by_file,
        settable(about.st_mode & kept),
        AtFlags::empty(),
    )?;
    let mut value = vec![0; verbena_rfio_protocol::types::MOST_VALUE];
    let mut copy = |name: &CStr| match rustix::fs::getxattr(&*by_other, name, &mut value[..]) {
        Ok(length) => rustix::fs::setxattr(&*by_file, name, &value[..length], XattrFlags::empty()),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(errno),
    };
    if has_group {
        copy(ACL)?;
    }
    for name in names(other)? {
        copy(&name)?;
    }
    Ok(())
}

/// An `O_PATH` descriptor cannot be used for these calls; its name in /proc leads to exactly this
/// file.
fn by_descriptor(file: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", file.as_raw_fd())
}

fn names(file: &OwnedFd) -> Result<Vec<CString>, Failure> {
    let mut list = vec![0; 64 << 10];
    let length = match rustix::fs::listxattr(by_descriptor(file), &mut list[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    Ok(list[..length]
        .split(|&byte| byte == 0)
        .filter(|name| name.starts_with(NAME_SPACE))
        .filter_map(|name| CString::new(name).ok())
        .collect())
}

/// Returns the offset found by lseek(2), if any.
fn seek(file: &OwnedFd, from: SeekFrom) -> Result<Option<u64>, Failure> {
    match rustix::fs::seek(file, from) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

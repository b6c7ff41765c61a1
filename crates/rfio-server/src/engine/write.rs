//! Opening and writing of files, and other requests on open files.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use verbena_rfio_protocol::checksum::{self, piece_count, pieces};
use verbena_rfio_protocol::reply::{About, Done, Opened, Written};
use verbena_rfio_protocol::request::{
    ChangeModeOf, ChangeOwnerOf, Lock, LockAction, Open, OpenFlags, SetTimes, Truncate, Write,
};
use verbena_rfio_protocol::types::Handle;
use verbena_rfio_protocol::{Reply, Status};

use super::attributes::attributes_of;
use super::handles::{FileStorage, OpenFile};
use super::source::unfilled_attributes;
use super::{Engine, Failure, Outcome, plain};
use crate::accounting::FileAccount;
use crate::caps::Resource;
use crate::metrics::count;
use crate::quota::Exhausted;
use crate::rights::{Need, Operations};
use crate::sys;

/// Permission bits that a client may set. Set-user-ID and set-group-ID would give the service's
/// identity to every user that executes the file on the server.
pub(super) const SETTABLE: u32 = 0o1777;

/// The path of the file without storage.
const UNFILLED: &[u8] = b"/.rfio-unfilled";

pub(super) fn settable(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & SETTABLE)
}

pub(super) fn owner(owner: u32) -> Option<Uid> {
    (owner != u32::MAX).then(|| Uid::from_raw(owner))
}

pub(super) fn group(group: u32) -> Option<Gid> {
    (group != u32::MAX).then(|| Gid::from_raw(group))
}

fn system_flags(flags: OpenFlags) -> OFlags {
    let mut system = match (flags.has(OpenFlags::READ), flags.has(OpenFlags::WRITE)) {
        (_, false) => OFlags::RDONLY,
        (false, true) => OFlags::WRONLY,
        (true, true) => OFlags::RDWR,
    };
    for (bit, flag) in [
        (OpenFlags::CREATE, OFlags::CREATE),
        (OpenFlags::EXCLUSIVE, OFlags::EXCL),
        (OpenFlags::TRUNCATE, OFlags::TRUNC),
        (OpenFlags::APPEND, OFlags::APPEND),
        (OpenFlags::NO_FOLLOW, OFlags::NOFOLLOW),
    ] {
        if flags.has(bit) {
            system |= flag;
        }
    }
    // A FIFO must not block the worker that opens it, and a terminal must not become the service's
    // controlling terminal.
    system | OFlags::NONBLOCK | OFlags::NOCTTY
}

/// Returns the rights needed to open a file with these flags.
fn needed(flags: OpenFlags) -> Need {
    let reads = flags.has(OpenFlags::READ) || !flags.has(OpenFlags::WRITE);
    let mut operations = Operations::NONE;
    if reads {
        operations = operations.and(Operations::READ);
    }
    if flags.changes() || flags.has(OpenFlags::WRITE) {
        operations = operations.and(Operations::WRITE);
    }
    Need::All(operations)
}

impl Engine {
    pub(super) fn open(&self, open: &Open) -> Outcome {
        let flags = OpenFlags::checked(open.flags).ok_or(Failure::from(Errno::INVAL))?;
        self.handles.must_have_room()?;
        let share = self
            .service
            .quotas
            .take(&self.client.user, Resource::OpenFile)
            .map_err(|exhausted| {
                count(&self.service.metrics.caps, 1);
                match exhausted {
                    Exhausted::User(_) => Failure::Refused(
                        Status::errno(libc::EMFILE),
                        "the user has reached the limit of open files",
                    ),
                    Exhausted::Service(_) => Failure::Refused(
                        Status::errno(libc::ENFILE),
                        "the service has reached the limit of open files",
                    ),
                }
            })?;
        if let Some(size) = self.service.unfilled
            && open.path.as_bytes() == UNFILLED
            && !flags.changes()
        {
            let handle = self.handles.insert(OpenFile {
                body: FileStorage::Unfilled(size),
                flags,
                root: None,
                account: FileAccount::begin(&self.service.accounting, &open.path, flags),
                _sole_writer: None,
                _share: share,
            })?;
            return plain(Reply::Opened(Opened {
                handle,
                attributes: unfilled_attributes(size),
            }));
        }
        // A file reserved by another sole writer must not be truncated before that is known.
        let sole = flags.has(OpenFlags::SOLE_WRITER);
        let mut system = system_flags(flags);
        if sole {
            system -= OFlags::TRUNC;
        }
        let mode = if flags.has(OpenFlags::CREATE) {
            settable(open.mode)
        } else {
            Mode::empty()
        };
        let permit = self.permit(needed(flags));
        let (file, root) = self
            .service
            .exports
            .open_file(&open.path, system, mode, &permit)?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            _ => {
                return Err(Failure::Refused(
                    Status::errno(libc::EINVAL),
                    "not a regular file",
                ));
            }
        }
        let sole_writer = match sole {
            true => Some(
                self.service
                    .sole_writer(stat.st_dev, stat.st_ino)
                    .ok_or(Failure::from(Errno::BUSY))?,
            ),
            false => None,
        };
        if sole && flags.has(OpenFlags::TRUNCATE) && flags.has(OpenFlags::WRITE) {
            rustix::fs::ftruncate(&file, 0)?;
        }
        let attributes = attributes_of(&file)?;
        let handle = self.handles.insert(OpenFile {
            body: FileStorage::File(file),
            flags,
            root: Some(root),
            account: FileAccount::begin(&self.service.accounting, &open.path, flags),
            _sole_writer: sole_writer,
            _share: share,
        })?;
        plain(Reply::Opened(Opened { handle, attributes }))
    }

    pub(super) fn close(&self, handle: Handle) -> Outcome {
        let file = self.handles.remove(handle)?;
        let log = &self.service.accounting;
        self.account
            .end_file(log, &self.client, &file.account, "closed");
        if let (true, Some(root)) = (file.flags.has(OpenFlags::WRITE), &file.root) {
            root.must_be_at_its_path()?;
        }
        plain(Reply::Closed(Done {}))
    }

    pub(super) fn write(&self, write: &Write, incoming: &[u8]) -> Outcome {
        write.range.end().ok_or(Failure::from(Errno::INVAL))?;
        if incoming.len() != write.range.length as usize {
            return Err(Failure::Refused(
                Status::COMMUNICATION,
                "the length of the data differs from the announced length",
            ));
        }
        let block = self.service.cache.block() as u32;
        let (offset, length) = (write.range.offset, incoming.len() as u64);
        if !write.checksums.is_empty() {
            if write.checksums.len() != piece_count(offset, length, block) {
                return Err(Failure::Refused(
                    Status::COMMUNICATION,
                    "the number of checksums differs from the number of blocks",
                ));
            }
            for ((start, piece), &expected) in pieces(offset, length, block).zip(&write.checksums) {
                let start = start as usize;
                if checksum::crc32c(&incoming[start..start + piece as usize]) != expected {
                    count(&self.service.metrics.checksum_failures, 1);
                    return Err(Failure::Refused(
                        Status::CHECKSUM,
                        "data damaged in transit; nothing was written",
                    ));
                }
            }
        }
        let file = self.handles.find_writable(write.handle)?;
        write_fully(file.as_fd(), offset, incoming)?;
        plain(Reply::Written(Written {
            length: write.range.length,
        }))
    }

    pub(super) fn examine(&self, handle: Handle) -> Outcome {
        let open = self.handles.find(handle)?;
        let attributes = match &open.body {
            FileStorage::File(file) => attributes_of(file)?,
            FileStorage::Unfilled(size) => unfilled_attributes(*size),
        };
        plain(Reply::Examined(About { attributes }))
    }

    pub(super) fn change_mode_of(&self, change: &ChangeModeOf) -> Outcome {
        rustix::fs::fchmod(
            self.handles.find_writable(change.handle)?,
            settable(change.mode),
        )?;
        plain(Reply::ModeOfChanged(Done {}))
    }

    pub(super) fn change_owner_of(&self, change: &ChangeOwnerOf) -> Outcome {
        let file = self.handles.find_writable(change.handle)?;
        rustix::fs::fchown(file, owner(change.owner), group(change.group))?;
        plain(Reply::OwnerOfChanged(Done {}))
    }

    pub(super) fn truncate(&self, truncate: &Truncate) -> Outcome {
        if i64::try_from(truncate.size).is_err() {
            return Err(Errno::FBIG.into());
        }
        rustix::fs::ftruncate(self.handles.find_writable(truncate.handle)?, truncate.size)?;
        plain(Reply::Truncated(Done {}))
    }

    pub(super) fn synchronise(&self, handle: Handle) -> Outcome {
        rustix::fs::fdatasync(self.handles.find_stored(handle)?)?;
        plain(Reply::Synchronised(Done {}))
    }

    pub(super) fn lock(&self, lock: &Lock) -> Outcome {
        let action = LockAction::from_wire(lock.action).ok_or(Failure::from(Errno::INVAL))?;
        let file = match action {
            LockAction::TryLock => self.handles.find_writable(lock.handle)?,
            LockAction::Unlock | LockAction::Test => self.handles.find_stored(lock.handle)?,
        };
        sys::lock(file.as_fd(), action, lock.offset, lock.length)?;
        plain(Reply::Locked(Done {}))
    }

    pub(super) fn set_times(&self, times: &SetTimes) -> Outcome {
        let file = self.handles.find_writable(times.handle)?;
        let timestamps = Timestamps {
            last_access: timespec(times.accessed),
            last_modification: timespec(times.modified),
        };
        rustix::fs::futimens(file, &timestamps)?;
        plain(Reply::TimesSet(Done {}))
    }
}

/// Converts nanoseconds since 1970.
pub(super) fn timespec(nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    }
}

/// Calls pwrite(2) until everything is written.
pub(super) fn write_fully(file: BorrowedFd<'_>, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::pwrite(file, &bytes[written..], offset + written as u64) {
            Ok(0) => return Err(Errno::NOSPC.into()),
            Ok(more) => written += more,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

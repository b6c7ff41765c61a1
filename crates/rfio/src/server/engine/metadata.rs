//! What a faithful copy needs besides names and bytes: holes, times, hard links, extended attributes, and names on stable
//! storage.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Timestamps, XattrFlags};
use rustix::io::Errno;
use verbena_rfio_protocol::reply::{Data, Done, ExtendedAttributes};
use verbena_rfio_protocol::request::{Extents, PathTimes, SetExtended, TwoPaths};
use verbena_rfio_protocol::types::{Bytes, Extended, Extent, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::handles::Body;
use super::write::timespec;
use super::{Engine, Failure, Outcome, plain};

/// Extents of one reply.
const MOST_EXTENTS: u32 = 4096;

/// Bytes of all extended attributes of a file that are handed out. Linux's file systems keep far less, mostly.
pub(super) const MOST_EXTENDED: usize = 128 << 10;

/// The only name space that belongs to users; the others say who may do what on this host.
const NAME_SPACE: &[u8] = b"user.";

impl Engine {
    /// Data and holes, as lseek(2) tells them; a file system that knows no holes says that all is data.
    pub(super) fn extents(&self, request: &Extents) -> Outcome {
        let open = self.handles.find(request.handle)?;
        let file = match &open.body {
            Body::File(file) => file,
            Body::Unfilled(size) => {
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
            // Nothing but holes follow, or the file ends.
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
        let directory = self.service.exports.open(path, flags, Mode::empty())?;
        rustix::fs::fsync(&directory)?;
        plain(Reply::DirectorySynchronised(Done {}))
    }

    pub(super) fn change_times(&self, times: &PathTimes) -> Outcome {
        let named = self.service.exports.name(&times.path)?;
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
        let from = self.service.exports.name(&two.from)?;
        let to = self.service.exports.name(&two.to)?;
        rustix::fs::linkat(
            &from.parent,
            &from.name,
            &to.parent,
            &to.name,
            AtFlags::empty(),
        )?;
        plain(Reply::HardLinkMade(Done {}))
    }

    /// A file system without extended attributes has none.
    pub(super) fn extended(&self, path: &Path) -> Outcome {
        let file = self.service.exports.look(path, OFlags::NOFOLLOW)?;
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
        let file = self.service.exports.look(&set.path, OFlags::NOFOLLOW)?;
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

/// A descriptor that only looks takes no call of its own for this; its name in /proc leads to exactly this file.
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

/// The offset that lseek(2) finds, if there is one.
fn seek(file: &OwnedFd, from: SeekFrom) -> Result<Option<u64>, Failure> {
    match rustix::fs::seek(file, from) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

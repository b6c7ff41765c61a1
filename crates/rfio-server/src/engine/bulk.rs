//! Transfer of small files as a whole, one request each, which makes copies of file trees fast.

use std::cell::OnceCell;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{Mode, OFlags, Timestamps};
use rustix::io::Errno;
use verbena_rfio_common::writers;
use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::reply::{About, Fetched};
use verbena_rfio_protocol::request::{Fetch, Store, StoreCare};
use verbena_rfio_protocol::{Reply, Status};

use super::attributes::{attributes, attributes_among, attributes_of};
use super::source::read_if_in_memory;
use super::upload::Upload;
use super::write::{settable, timespec, write_fully};
use super::{Engine, ExistingName, Failure, IoMode, Outcome, Segment, plain};
use crate::metrics::count;
use crate::rights::{Need, Operations};
use crate::storage::{read_from_start, read_fully};

/// Reads up to the given number of bytes from the beginning of a file, or fails.
type ReadFunction = fn(BorrowedFd<'_>, usize) -> Result<Vec<u8>, Failure>;

/// Reads the bytes if they are all in memory.
fn read_at_once(file: BorrowedFd<'_>, length: usize) -> Result<Vec<u8>, Failure> {
    let mut bytes = vec![0; length];
    let read = read_if_in_memory(file, 0, &mut bytes, &OnceCell::new())?;
    bytes.truncate(read);
    Ok(bytes)
}

impl Engine {
    pub(super) fn fetch(&self, fetch: &Fetch, io_mode: IoMode) -> Outcome {
        let exports = &self.service.exports;
        let permit = self.permit(Need::All(Operations::READ));
        let (file, about, read): (_, _, ReadFunction) = match io_mode {
            IoMode::CacheOnly => {
                let found = exports.open_file_cached(&fetch.path, &permit)?;
                let found = found.ok_or(Failure::WouldBlock)?;
                let writers = writers::of_local(found.file.as_fd());
                let read: ReadFunction = match found.is_of_memory {
                    true => |file, length| Ok(read_from_start(file, length)?),
                    false => read_at_once,
                };
                (found.file, attributes_among(&found.about, writers), read)
            }
            IoMode::MayBlock => {
                let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
                let (file, _root) =
                    exports.open_file(&fetch.path, flags, Mode::empty(), &permit)?;
                let about = attributes_of(&file)?;
                (file, about, |file, length| {
                    Ok(read_from_start(file, length)?)
                })
            }
        };
        let most = u64::from(fetch.most).min(self.service.limits.payload as u64);
        if about.size > most {
            let fetched = Fetched {
                attributes: about,
                whole: false,
                checksum: 0,
            };
            return plain(Reply::Fetched(fetched));
        }
        let size = about.size as usize;
        let bytes = read(file.as_fd(), size)?;
        let after = attributes(&rustix::fs::fstat(&file)?);
        // Unsettled timestamps may stay equal when the file is written again, so they prove
        // nothing.
        if bytes.len() < size || after.version != about.version || !about.settled {
            let fetched = Fetched {
                attributes: after,
                whole: false,
                checksum: 0,
            };
            return plain(Reply::Fetched(fetched));
        }
        let fetched = Fetched {
            attributes: about,
            whole: true,
            checksum: checksum::crc32c(&bytes),
        };
        let data = if bytes.is_empty() {
            Vec::new()
        } else {
            vec![Segment::Owned(bytes)]
        };
        Ok((Reply::Fetched(fetched), data))
    }

    pub(super) fn store(&self, store: &Store, incoming: &[u8], existing: ExistingName) -> Outcome {
        let care = StoreCare::checked(store.care).ok_or(Failure::from(Errno::INVAL))?;
        if checksum::crc32c(incoming) != store.checksum {
            count(&self.service.metrics.checksum_failures, 1);
            return Err(Failure::Refused(
                Status::CHECKSUM,
                "data damaged in transit; nothing was written",
            ));
        }
        let named = self.name(&store.path)?;
        let upload = Upload::begin(&named, self.client.session)?;
        let file = upload.file();
        write_fully(file, 0, incoming)?;
        // The service's own umask must not remove permissions given by the client.
        rustix::fs::fchmod(file, settable(store.mode))?;
        if store.modified != i64::MIN {
            let time = timespec(store.modified);
            rustix::fs::futimens(
                file,
                &Timestamps {
                    last_access: time,
                    last_modification: time,
                },
            )?;
        }
        if care.has(StoreCare::READ_BACK) {
            let mut written = vec![0; incoming.len()];
            let read = read_fully(file, 0, &mut written)?;
            if checksum::crc32c(&written[..read]) != store.checksum {
                return Err(Failure::Refused(
                    Status::CHECKSUM,
                    "the file reads back differently than written",
                ));
            }
        }
        if care.has(StoreCare::STABLE) {
            rustix::fs::fsync(file)?;
        }
        let attributes = attributes(&rustix::fs::fstat(file)?);
        match existing {
            ExistingName::Replaced => upload.rename()?,
            ExistingName::Kept => upload.rename_to_new()?,
        }
        named.confirm()?;
        plain(Reply::Stored(About { attributes }))
    }
}

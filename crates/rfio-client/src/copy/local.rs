//! The local endpoint of a copy: a file to read, or a partial file that is renamed at the end.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, SeekFrom, XattrFlags};
use rustix::io::Errno;
use verbena_rfio_common::{timestamp_granularity, writers};

use super::directory::Directory;
use super::facts::{ExtendedAttributes, FileFacts};
use super::failure::local_error;
use super::paged::{self, PagedFile};
use super::pipeline::{Extents, FinalAttributes, Put, Reader, Sink, Source, Writer};
use super::resume::{CHUNK, WorkRanges, block_checksums};
use super::settings::{Durability, EarlierAttempt, ExtraAttributes};
use crate::bounds::EXTENTS;
use crate::error::Error;

/// Block size in bytes when both files are local.
const BLOCK: u32 = 1 << 20;

/// Limit on the time that a copy waits for a source that is being written.
pub(crate) const MOST_WAIT_FOR_SOURCE: Duration =
    timestamp_granularity::LONGEST.saturating_add(Duration::from_secs(1));

/// Returns the name of the partial file for a destination's name.
pub fn partial_name(name: &[u8]) -> Vec<u8> {
    // 255 bytes is the longest name of every relevant file system. Names cut off here may collide;
    // the lock then detects it.
    let kept = &name[..name.len().min(247)];
    [b".", kept, b".rfpart"].concat()
}

/// Returns whether the path is a special file, such as `/dev/null` or a FIFO, which is written
/// directly because it has no name to protect. Symbolic links are followed only in `/dev` and
/// `/proc`, where the system's own are: any other link may come from an earlier copy.
pub fn is_special(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let about = match path.starts_with("/dev") || path.starts_with("/proc") {
        true => fs::metadata(path),
        false => fs::symlink_metadata(path),
    };
    about.is_ok_and(|about| {
        let kind = about.file_type();
        kind.is_char_device() || kind.is_fifo() || kind.is_socket() || kind.is_block_device()
    })
}

/// Reads at an offset until the buffer is full or the file ends.
///
/// # Errors
/// Returns the errors of pread(2).
pub fn read_fully_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// State of a file, which must not change while it is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileState {
    size: u64,
    modified: i64,
    changed: i64,
}

impl FileState {
    /// Returns the state that the metadata shows.
    pub fn of(about: &fs::Metadata) -> Self {
        Self {
            size: about.len(),
            modified: nanoseconds(about.mtime(), about.mtime_nsec()),
            changed: nanoseconds(about.ctime(), about.ctime_nsec()),
        }
    }

    /// Waits until any further change of the file is certain to change its state, for at most
    /// [`MOST_WAIT_FOR_SOURCE`].
    ///
    /// # Errors
    /// Returns [`Error::Changed`] if the file is being written for too long, else the errors of
    /// fstat(2).
    pub fn wait_until_unambiguous(file: &File) -> Result<(Self, fs::Metadata), Error> {
        let begun = Instant::now();
        loop {
            let about = file.metadata().map_err(local_error)?;
            let identity = Self::of(&about);
            if identity.is_unambiguous(file) {
                return Ok((identity, about));
            }
            if begun.elapsed() > MOST_WAIT_FOR_SOURCE {
                return Err(Error::Changed);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Returns the time of the last change of the data, in nanoseconds since 1970.
    pub fn modified(&self) -> i64 {
        self.modified
    }

    /// Returns whether any further change of the file, whose metadata showed this state, is certain
    /// to change the state.
    pub fn is_unambiguous(&self, file: &File) -> bool {
        let writers = writers::of(file.as_fd());
        timestamp_granularity::has_passed_among(self.changed, SystemTime::now(), writers)
    }

    /// Checks that the file still has this state.
    ///
    /// # Errors
    /// Returns [`Error::Changed`] if it does not, else the errors of fstat(2).
    pub fn check(&self, file: &File) -> Result<(), Error> {
        match Self::of(&file.metadata().map_err(local_error)?) == *self {
            true => Ok(()),
            false => Err(Error::Changed),
        }
    }
}

/// Returns the nanoseconds since 1970.
pub(crate) fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// A local file to read.
#[derive(Debug)]
pub struct LocalSource {
    file: File,
    name: String,
    identity: FileState,
    facts: FileFacts,
}

impl LocalSource {
    /// Makes a source of an open regular file.
    ///
    /// # Errors
    /// Returns [`Error::Changed`] if the file is being written for too long, else the errors of
    /// examining it.
    pub fn new(file: File, name: String, extras: ExtraAttributes) -> Result<Self, Error> {
        let (identity, about) = FileState::wait_until_unambiguous(&file)?;
        let extended = match extras {
            ExtraAttributes::Extended => extended_of(&file).map_err(local_error)?,
            ExtraAttributes::None => Vec::new(),
        };
        let facts = FileFacts {
            size: identity.size,
            mode: about.permissions().mode() & 0o777,
            modified: identity.modified,
            allocated: about.blocks().saturating_mul(512),
            extended,
        };
        Ok(Self {
            file,
            name,
            identity,
            facts,
        })
    }

    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
        read_fully_at(&self.file, offset, bytes).map_err(local_error)
    }
}

impl Source for LocalSource {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn facts(&self) -> &FileFacts {
        &self.facts
    }

    fn block(&self) -> u32 {
        BLOCK
    }

    fn data(&self, segment: (u64, u64)) -> Result<Extents, Error> {
        extents(&self.file, segment).map_err(local_error)
    }

    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error> {
        block_checksums(block, segment, |offset, bytes| self.read_at(offset, bytes))
    }

    fn reader(&self, _: usize) -> Result<Box<dyn Reader + '_>, Error> {
        Ok(Box::new(self))
    }

    /// Always 0: a local file is never opened again.
    fn state(&self) -> u64 {
        0
    }

    fn unchanged(&self) -> Result<(), Error> {
        self.identity.check(&self.file)
    }
}

impl Reader for &LocalSource {
    fn read(&mut self, work: &WorkRanges, put: Put<'_>) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK as usize];
        while let Some((offset, length)) = work.take() {
            let bytes = &mut buffer[..length as usize];
            if self.read_at(offset, bytes)? < bytes.len() {
                return Err(Error::Changed);
            }
            put(offset, bytes)?;
        }
        Ok(())
    }
}

/// Returns the data extents of a segment of a file (lseek(2)).
fn extents(file: &File, (from, to): (u64, u64)) -> io::Result<Extents> {
    let seek = |from| match rustix::fs::seek(file, from) {
        Ok(at) => Ok(Some(at)),
        Err(Errno::NXIO) => Ok(None),
        Err(errno) => Err(errno),
    };
    let (mut data, mut at) = (Vec::new(), from);
    while at < to && data.len() < EXTENTS {
        let start = seek(SeekFrom::Data(at))?;
        let end = match start {
            Some(start) => seek(SeekFrom::Hole(start))?.filter(|&end| end > start),
            None => None,
        };
        let (Some(start), Some(end)) = (start, end) else {
            return Ok(Extents {
                data,
                until: u64::MAX,
            });
        };
        data.push((start, end - start));
        at = end;
    }
    Ok(Extents { data, until: at })
}

/// Returns the extended attributes of the `user` name space; none if the file system has none.
pub(crate) fn extended_of(file: &File) -> io::Result<ExtendedAttributes> {
    let mut list = vec![0; 64 << 10];
    let length = match rustix::fs::flistxattr(file, &mut list[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in list[..length].split(|&byte| byte == 0) {
        if !name.starts_with(b"user.") {
            continue;
        }
        let mut value = vec![0; 64 << 10];
        match rustix::fs::fgetxattr(file, name, &mut value[..]) {
            Err(Errno::NODATA) => continue,
            other => value.truncate(other?),
        }
        found.push((name.to_vec(), value));
    }
    Ok(found)
}

/// A locked partial file: its copy is its only writer.
#[derive(Debug)]
pub struct LocalSink {
    file: File,
    directory: Arc<Directory>,
    partial: Vec<u8>,
    destination: Vec<u8>,
    name: String,
}

impl LocalSink {
    /// Opens the partial file for a name in a directory, or creates it.
    ///
    /// # Errors
    /// Returns EBUSY if another copy holds the lock, a permission error if the file is not a
    /// partial file of this user, else the errors of the system calls.
    pub fn open(
        directory: Arc<Directory>,
        destination: &[u8],
        name: String,
        earlier: EarlierAttempt,
    ) -> io::Result<Self> {
        let partial = partial_name(destination);
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        loop {
            // No other user may read an incomplete file; its permission bits are set at the end.
            let mode = Mode::from_raw_mode(0o600);
            let file = File::from(rustix::fs::openat(&*directory, &partial[..], flags, mode)?);
            let mine = file.metadata()?;
            // Another user's file could be a hard link to a file that must not be written.
            let own = mine.uid() == rustix::process::geteuid().as_raw();
            if !mine.is_file() || mine.nlink() > 1 || !own {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    format!(
                        "'{}' is not a partial file of rfcp; remove it",
                        String::from_utf8_lossy(&partial)
                    ),
                ));
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                other => other?,
            }
            // Another copy may have renamed it between the open and the lock.
            let now = rustix::fs::statat(&*directory, &partial[..], AtFlags::SYMLINK_NOFOLLOW);
            if !now.is_ok_and(|now| (now.st_dev, now.st_ino) == (mine.dev(), mine.ino())) {
                continue;
            }
            if earlier == EarlierAttempt::Discard && mine.len() > 0 {
                file.set_len(0)?;
            }
            return Ok(Self {
                file,
                directory,
                partial,
                destination: destination.to_vec(),
                name,
            });
        }
    }

    fn finish(&self, final_attributes: &FinalAttributes<'_>) -> io::Result<()> {
        set_final_attributes(&self.file, final_attributes)?;
        let directory = &*self.directory;
        rustix::fs::renameat(
            directory,
            &self.partial[..],
            directory,
            &self.destination[..],
        )?;
        if final_attributes.stable == Durability::First {
            directory.synchronise()?;
        }
        Ok(())
    }
}

/// Sets all attributes of a file except its name, and puts it on stable storage if requested.
///
/// # Errors
/// Returns the errors of the system calls.
pub fn set_final_attributes(file: &File, final_attributes: &FinalAttributes<'_>) -> io::Result<()> {
    for (name, value) in final_attributes.extended {
        rustix::fs::fsetxattr(file, &name[..], value, XattrFlags::empty())?;
    }
    file.set_permissions(fs::Permissions::from_mode(final_attributes.mode & 0o777))?;
    if let Some(modified) = final_attributes.modified {
        let time = timespec(modified);
        let times = rustix::fs::Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(file, &times)?;
    }
    if final_attributes.stable == Durability::First {
        file.sync_all()?;
    }
    Ok(())
}

/// Converts nanoseconds since 1970 for system calls.
pub(crate) fn timespec(nanoseconds: i64) -> rustix::fs::Timespec {
    rustix::fs::Timespec {
        tv_sec: nanoseconds.div_euclid(1_000_000_000),
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as _,
    }
}

impl Sink for LocalSink {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn length(&self) -> Result<u64, Error> {
        Ok(self.file.metadata().map_err(local_error)?.len())
    }

    fn block(&self) -> u32 {
        BLOCK
    }

    fn checksums(&self, block: u32, segment: (u64, u64)) -> Result<Vec<u32>, Error> {
        block_checksums(block, segment, |offset, bytes| {
            read_fully_at(&self.file, offset, bytes).map_err(local_error)
        })
    }

    fn writer(&self, session_number: usize) -> Result<Box<dyn Writer + '_>, Error> {
        match session_number > 0 && paged::is_of_memory(&self.file) {
            true => Ok(Box::new(PagedFile::new(&self.file))),
            false => Ok(Box::new(self)),
        }
    }

    fn resize(&self, length: u64) -> Result<(), Error> {
        self.file.set_len(length).map_err(local_error)
    }

    fn discard(&self) -> Result<(), Error> {
        rustix::fs::unlinkat(&*self.directory, &self.partial[..], AtFlags::empty())
            .map_err(|errno| local_error(errno.into()))
    }

    fn complete(&self, final_attributes: &FinalAttributes<'_>) -> Result<(), Error> {
        self.finish(final_attributes).map_err(local_error)
    }
}

/// Writes in parallel to other writers.
impl Writer for PagedFile<'_> {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.write_all_at(bytes, offset).map_err(local_error)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

impl Writer for &LocalSink {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(bytes, offset).map_err(local_error)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

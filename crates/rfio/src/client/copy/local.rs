//! The local side of a copy: the partial file, its lock, its rename.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use verbena_rfio_protocol::Status;

use super::progress::Progress;
use super::{Earlier, Manner, Stable};
use crate::client::error::Error;

/// Why a copy failed: which file, and what.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {error}")]
pub struct CopyError {
    /// The file.
    pub subject: String,
    /// What happened.
    pub error: Error,
}

/// Says which file an error is about.
pub(crate) trait About<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError>;
}

impl<T> About<T> for Result<T, Error> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(|error| CopyError {
            subject: subject.to_string(),
            error,
        })
    }
}

impl<T> About<T> for io::Result<T> {
    fn about(self, subject: impl std::fmt::Display) -> Result<T, CopyError> {
        self.map_err(|error| Error::Local("local file".into(), error))
            .about(subject)
    }
}

/// The name of the partial file beside `destination`.
pub fn partial_name(name: &[u8]) -> Vec<u8> {
    // 255 is the longest name of every file system that matters; what is cut off may collide, and then the lock tells.
    let kept = &name[..name.len().min(247)];
    [b".", kept, b".rfpart"].concat()
}

fn partial_path(destination: &Path) -> io::Result<PathBuf> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let name = destination
        .file_name()
        .ok_or(io::Error::from_raw_os_error(libc::EISDIR))?;
    Ok(destination.with_file_name(std::ffi::OsString::from_vec(partial_name(name.as_bytes()))))
}

/// A partial file, locked.
#[derive(Debug)]
pub struct Partial {
    file: File,
    path: PathBuf,
    destination: PathBuf,
}

impl Partial {
    /// Opens or makes the partial file of a destination and becomes its only writer.
    pub fn open(destination: &Path, earlier: Earlier, mode: u32) -> io::Result<Self> {
        let path = partial_path(destination)?;
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false);
            let file = options
                .mode(mode & 0o777)
                .custom_flags(libc::O_NOFOLLOW)
                .open(&path)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(io::Error::from_raw_os_error(libc::EBUSY));
                }
                other => other?,
            }
            // Another copy may have renamed it between the open and the lock.
            match fs::symlink_metadata(&path) {
                Ok(now)
                    if (now.dev(), now.ino()) == {
                        let mine = file.metadata()?;
                        (mine.dev(), mine.ino())
                    } => {}
                _ => continue,
            }
            if earlier == Earlier::Discard {
                file.set_len(0)?;
            }
            return Ok(Self {
                file,
                path,
                destination: destination.to_owned(),
            });
        }
    }

    /// Bytes that are there.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The file.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its length, its times and its name.
    pub fn complete(self, length: u64, modified: Option<i64>, stable: Stable) -> io::Result<()> {
        self.file.set_len(length)?;
        if let Some(modified) = modified {
            let since = std::time::Duration::from_nanos(modified.max(0) as u64);
            self.file.set_modified(std::time::UNIX_EPOCH + since)?;
        }
        if stable == Stable::First {
            self.file.sync_all()?;
        }
        fs::rename(&self.path, &self.destination)
    }
}

/// A special file, such as `/dev/null` or a FIFO, is written to as it is: it has no name to protect.
pub fn is_special(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|about| {
        let kind = about.file_type();
        kind.is_char_device() || kind.is_fifo() || kind.is_socket() || kind.is_block_device()
    })
}

/// Reads at an offset until the buffer is full or the file ends.
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

/// A file that is copied must stay what it is while that lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// Bytes.
    pub size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Identity {
    /// What a file is now.
    pub fn of(file: &File) -> io::Result<Self> {
        let about = file.metadata()?;
        Ok(Self {
            size: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }

    /// The time of the last change, nanoseconds since 1970.
    pub fn modified(&self) -> i64 {
        self.modified
            .0
            .saturating_mul(1_000_000_000)
            .saturating_add(self.modified.1)
    }
}

/// Opens a local source; what it is, and its permission bits.
pub fn open_source(path: &Path) -> io::Result<(File, Identity, u32)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    let identity = Identity::of(&file)?;
    Ok((file, identity, about.permissions().mode() & 0o777))
}

/// A copy without any server, with the same promises.
pub fn between_files(
    from: &Path,
    to: &Path,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let (file, identity, mode) = open_source(from).about(from.display())?;
    let most = manner.most.unwrap_or(u64::MAX);
    progress.expect(identity.size.min(most));
    let mut source = file.take(most);
    if is_special(to) {
        let mut sink = OpenOptions::new()
            .write(true)
            .open(to)
            .about(to.display())?;
        progress.moved(io::copy(&mut source, &mut sink).about(to.display())?);
        progress.file();
        return Ok(());
    }
    let partial = Partial::open(to, Earlier::Discard, mode).about(to.display())?;
    let copied = io::copy(&mut source, &mut partial.file()).about(to.display())?;
    progress.moved(copied);
    if Identity::of(source.get_ref()).about(from.display())? != identity {
        return Err(CopyError {
            subject: from.display().to_string(),
            error: Error::Changed,
        });
    }
    partial
        .complete(copied, None, manner.stable)
        .about(to.display())?;
    progress.file();
    Ok(())
}

impl CopyError {
    /// RFIO's number for it.
    pub fn status(&self) -> Status {
        self.error.status()
    }
}

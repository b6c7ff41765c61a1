//! Copies files to and from a server.
//!
//! # Rules
//!
//! All copies, of every size and in either direction, follow these rules:
//! - Data is written to a partial file beside the destination, `.NAME.rfpart`, and renamed to the
//!   destination when complete. No process ever sees an incomplete file under the final name.
//! - A partial file has one writer at a time; a second copy to the same destination fails with
//!   "busy".
//! - To continue, the blocks of the partial file are compared with the source's by checksum, and
//!   only blocks that differ or are missing are moved. It does not matter how the earlier copy
//!   ended, nor whether the source has changed since.
//! - A source that changes during the copy is an error, and so is one that changes too fast to be
//!   read.
//! - Below the path that the user named, nothing is written through a symbolic link.
//! - Permission bits, times, holes and (in a tree) hard links are kept.
//!
//! `pipeline` copies one file; `tree` copies many, small ones whole.

mod directory;
mod failure;
pub mod filter;
mod local;
mod paged;
pub mod pattern;
mod pipe;
mod pipeline;
mod progress;
mod rate_limit;
mod remote;
mod resume;
mod retry;
mod sessions;
mod tree;

use std::io::Write;
use std::path::Path as LocalPath;
use std::sync::Arc;

use verbena_rfio_protocol::request::OpenFlags;

use super::address::Location;
use super::connection::{MultiplexedConnection, SharedFile};
use super::options::Options;
use super::pool::SessionPool;
use directory::Directory;
use failure::{ErrorSubject, display_path, local_error};
use filter::{ExistingFiles, Filter};
use local::{LocalSink, LocalSource, is_special};
use pipeline::{FileFacts, Sink, Source};
use remote::{RemoteServer, RemoteSink, RemoteSource};

pub use failure::CopyError;
pub use progress::{Progress, Report, Transport};
pub use rate_limit::RateLimit;
pub use retry::Retry;
pub use sessions::SessionCount;
pub use tree::{copy_tree, is_begun, list};

/// Size in bytes of one request of a copy.
pub(crate) const CHUNK: u32 = 1 << 20;

/// How to treat a partial file of an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlierAttempt {
    /// Start over.
    Discard,
    /// Keep its correct blocks.
    Continue,
}

/// How to verify a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Verify each block as it arrives.
    Blocks,
    /// Read the written data back and compare it with the source, block by block.
    Written,
}

/// Attributes to copy in addition to data, permission bits and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExtraAttributes {
    /// Nothing.
    None,
    /// Extended attributes of the `user` name space.
    Extended,
}

/// Settings of a copy.
#[derive(Debug, Clone)]
pub struct CopySettings {
    /// Connection options.
    pub options: Options,
    /// Sessions that one part of a copy leaves to the next.
    pub sessions: Arc<SessionPool>,
    /// How to treat an earlier attempt.
    pub earlier: EarlierAttempt,
    /// How to verify.
    pub verification: Verification,
    /// Number of sessions that share the work.
    pub session_count: SessionCount,
    /// Limit on the bytes to copy, from the beginning.
    pub most: Option<u64>,
    /// Whether data and names must be on stable storage.
    pub stable: Durability,
    /// Additional attributes to copy.
    pub extras: ExtraAttributes,
    /// How to treat existing files.
    pub existing: ExistingFiles,
    /// The part of a tree to copy.
    pub filter: Filter,
    /// Rate limit shared by all copies, if there is one.
    pub rate_limit: Option<Arc<RateLimit>>,
    /// How long to retry after a lost connection.
    pub retry: Retry,
    /// How much data is sent before its arrival is confirmed.
    pub start: ConnectionStart,
}

impl CopySettings {
    /// Settings for tests: defaults, with so many sessions and retries for so long.
    #[cfg(test)]
    fn of_tests(session_count: usize, timeout: std::time::Duration) -> Self {
        Self {
            options: Options::plain("tester"),
            sessions: Arc::default(),
            earlier: EarlierAttempt::Discard,
            verification: Verification::Blocks,
            session_count: SessionCount::Exactly(session_count),
            most: None,
            stable: Durability::Later,
            extras: ExtraAttributes::None,
            existing: ExistingFiles::Replace,
            filter: Filter::of(Vec::new()),
            rate_limit: None,
            retry: Retry {
                timeout,
                tell: |_| {},
            },
            start: ConnectionStart::Full,
        }
    }

    /// Waits as the rate limit requires after moving `bytes`.
    fn limit_rate(&self, bytes: u64) {
        if let Some(rate_limit) = &self.rate_limit {
            rate_limit.wait(bytes);
        }
    }
}

/// How a connection begins to move data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionStart {
    /// With as much in flight as allowed.
    Full,
    /// Block by block at first, because a connection was lost before: the next one may not last
    /// long either, and data in flight at its end is lost.
    Slow,
}

/// When data is forced to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the system writes it.
    Later,
    /// Data before the rename, and the name before the copy ends.
    First,
}

/// Copies one file, or a pipe (`-`).
///
/// # Errors
/// Returns the error and the file that it concerns.
pub fn copy_file(
    from: &Location,
    to: &Location,
    settings: &CopySettings,
    progress: &Progress,
) -> Result<(), CopyError> {
    let stream = match from {
        Location::Local(path) => stream_of(path)?,
        Location::Remote(..) => None,
    };
    if let Some((mut stream, mode)) = stream {
        // A pipe cannot be read again, so an earlier attempt's data cannot be compared.
        let settings = CopySettings {
            earlier: EarlierAttempt::Discard,
            ..settings.clone()
        };
        return match special(to)? {
            Some(mut sink) => {
                let moved = std::io::copy(&mut stream, &mut sink).about("write")?;
                progress.expect(moved);
                progress.moved(moved);
                progress.file();
                Ok(())
            }
            None if tree::stays(to, &FileFacts::of_a_stream(mode), &settings)? => {
                progress.left();
                Ok(())
            }
            None => {
                let sink = sink(to, &settings, progress)?;
                pipe::from_stream(&mut stream, &*sink, mode, &settings, progress)
            }
        };
    }
    if let Some(mut stream) = special(to)? {
        let open = || source(from, settings, progress);
        return pipe::to_stream(&open, &mut stream, settings, progress);
    }
    retry::retry_file(settings, progress, |settings, is_first| {
        let source = source(from, settings, progress)?;
        if is_first && tree::stays(to, source.facts(), settings)? {
            progress.left();
            return Ok(());
        }
        pipeline::copy(
            &*source,
            &*sink(to, settings, progress)?,
            settings,
            progress,
        )
    })
}

/// Writes a file to a stream as cat(1) does: changes during the read are no error. Data appended
/// after the open is not read, because a file may grow as fast as it is read.
///
/// # Errors
/// Returns the errors of opening or reading the file, and of writing to the stream.
pub fn stream_file(
    from: &Location,
    sink: &mut dyn Write,
    options: &Options,
) -> Result<(), CopyError> {
    let (address, path) = match from {
        Location::Remote(address, path) => (address, path),
        Location::Local(path) => {
            let mut file = std::fs::File::open(path).about(display_path(path))?;
            std::io::copy(&mut file, sink).about(display_path(path))?;
            return sink.flush().about("standard output");
        }
    };
    let name = || format!("{address}{path}");
    let session = MultiplexedConnection::for_copies(address, options).about(name())?;
    let file = SharedFile::open(session, path, OpenFlags::READ, 0).about(name())?;
    let size = file.attributes().size;
    let mut buffer = vec![0; size.min(8 * u64::from(CHUNK)) as usize];
    let mut offset = 0;
    while offset < size {
        buffer.truncate((size - offset).min(buffer.len() as u64) as usize);
        let read;
        (read, buffer) = file.read(offset, buffer).about(name())?;
        if read == 0 {
            break;
        }
        sink.write_all(&buffer[..read]).about("standard output")?;
        offset += read as u64;
    }
    sink.flush().about("standard output")
}

/// A source that is read once, in order, and the permission bits for the destination.
type Stream = (Box<dyn std::io::Read>, u32);

/// Opens the source as a stream unless it is a regular file or a directory.
fn stream_of(path: &LocalPath) -> Result<Option<Stream>, CopyError> {
    use std::os::unix::fs::PermissionsExt;
    if path.as_os_str() == "-" {
        return Ok(Some((Box::new(std::io::stdin()), 0o644)));
    }
    let about = std::fs::metadata(path).about(display_path(path))?;
    if about.is_file() || about.is_dir() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).about(display_path(path))?;
    Ok(Some((Box::new(file), about.permissions().mode() & 0o777)))
}

/// Opens a destination that is not a regular file and is written in order.
fn special(to: &Location) -> Result<Option<Box<dyn Write + Send>>, CopyError> {
    match to {
        Location::Local(path) if path.as_os_str() == "-" => Ok(Some(Box::new(std::io::stdout()))),
        Location::Local(path) if is_special(path) => {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .about(display_path(path))?;
            Ok(Some(Box::new(file)))
        }
        _ => Ok(None),
    }
}

fn source<'a>(
    from: &'a Location,
    settings: &'a CopySettings,
    progress: &'a Progress,
) -> Result<Box<dyn Source + 'a>, CopyError> {
    match from {
        Location::Local(path) => {
            let name = display_path(path);
            let file = std::fs::File::open(path).about(&name)?;
            if file.metadata().about(&name)?.is_dir() {
                return Err(local_error(std::io::Error::from_raw_os_error(libc::EISDIR)))
                    .about(&name);
            }
            let source = LocalSource::new(file, name.clone(), settings.extras).about(&name)?;
            Ok(Box::new(source))
        }
        Location::Remote(address, path) => {
            let there = RemoteServer {
                address,
                options: &settings.options,
                progress,
            };
            let source = RemoteSource::open(there, path, settings.extras);
            Ok(Box::new(source.about(format!("{address}{path}"))?))
        }
    }
}

fn sink<'a>(
    to: &'a Location,
    settings: &'a CopySettings,
    progress: &'a Progress,
) -> Result<Box<dyn Sink + 'a>, CopyError> {
    match to {
        Location::Local(path) => {
            let name = display_path(path);
            let (directory, last) = Directory::above(path).about(&name)?;
            let sink = LocalSink::open(Arc::new(directory), &last, name.clone(), settings.earlier);
            Ok(Box::new(sink.about(&name)?))
        }
        Location::Remote(address, path) => {
            let there = RemoteServer {
                address,
                options: &settings.options,
                progress,
            };
            let sink = RemoteSink::open(there, path, settings.earlier);
            Ok(Box::new(sink.about(format!("{address}{path}"))?))
        }
    }
}

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
mod facts;
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
mod settings;
mod tree;

use std::io::Write;
use std::path::Path as LocalPath;
use std::sync::Arc;

use verbena_rfio_protocol::Status;
use verbena_rfio_protocol::request::OpenFlags;

use super::address::Location;
use super::connection::{MultiplexedConnection, SharedFile};
use super::error::Error;
use super::options::Options;
use directory::Directory;
use facts::FileFacts;
use failure::{ErrorSubject, display_path, local_error};
use local::{LocalSink, LocalSource, is_special};
use pipeline::{Sink, Source};
use remote::{RemoteServer, RemoteSink, RemoteSource};
use resume::CHUNK;

pub use failure::CopyError;
pub use progress::{Progress, Report, Transport};
pub use rate_limit::RateLimit;
pub use sessions::SessionCount;
pub use settings::{
    ConnectionStart, CopySettings, Durability, EarlierAttempt, ExtraAttributes, Retry, Verification,
};
pub use tree::{copy_tree, is_begun, list};

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
    let name = || address.location(path);
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
            Ok(Box::new(source.about(address.location(path))?))
        }
    }
}

/// Returns the error for the parent of a local destination that cannot be opened.
fn parent_error(path: &LocalPath, error: std::io::Error) -> Error {
    let parent = path.parent().map(display_path).unwrap_or_default();
    match error.raw_os_error() {
        Some(libc::ENOENT) => Error::Explained(
            Status::errno(libc::ENOENT),
            format!("no directory {parent}; create it with 'mkdir -p {parent}'"),
        ),
        Some(libc::ENOTDIR) => Error::Explained(
            Status::errno(libc::ENOTDIR),
            format!("{parent} is not a directory"),
        ),
        _ => local_error(error),
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
            let above = Directory::above(path).map_err(|error| parent_error(path, error));
            let (directory, last) = above.about(&name)?;
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
            Ok(Box::new(sink.about(address.location(path))?))
        }
    }
}

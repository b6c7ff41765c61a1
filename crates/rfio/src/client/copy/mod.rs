//! Copying files to and from a service.
//!
//! What holds for every copy, of whatever size, in whatever direction:
//! - Data go to a partial file beside the destination, `.NAME.rfpart`; the destination's name appears by a rename when
//!   everything is there. Nobody ever sees half a file under its name.
//! - A partial file has one writer at a time; a second copy to the same place fails with "busy".
//! - To continue, the blocks of the partial file are compared with the source's by checksum and only those that differ
//!   or are missing are moved. So it does not matter how the copy ended, nor whether the source changed since.
//! - A source that changes while it is copied is an error, and so is one that changes too fast to be read.
//! - Below the place that was named, nothing is written through a symbolic link.
//! - Permission bits, times, holes and (in a tree) hard links are kept.
//!
//! [`pipeline`] is the one copy of one file; [`tree`] moves many of them, small ones whole.

pub mod choice;
mod directory;
mod failure;
mod lanes;
mod local;
mod pace;
mod paged;
pub mod pattern;
mod pipe;
mod pipeline;
pub mod progress;
mod remote;
mod resume;
mod retry;
mod tree;

use std::io::Write;
use std::path::Path as LocalPath;
use std::sync::Arc;

use verbena_rfio_protocol::request::OpenFlags;

use super::address::Location;
use super::exchange::{Exchange, SharedFile};
use super::options::Options;
use super::pool::SessionPool;
use choice::{Choice, Existing};
use directory::Directory;
use failure::{About, here, shown_path};
use local::{LocalSink, LocalSource, is_special};
use pipeline::{Facts, Sink, Source};
use remote::{RemoteSink, RemoteSource, There};

pub use failure::CopyError;
pub use lanes::Lanes;
pub use pace::Pace;
pub use progress::{Progress, Report, Route};
pub use retry::Retry;
pub use tree::{copy_tree, is_begun, list};

/// Bytes of one request of a copy.
pub(crate) const CHUNK: u32 = 1 << 20;

/// What to do with a partial file of an earlier attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    /// Start over.
    Discard,
    /// Keep what is right in it.
    Continue,
}

/// Whether the whole file's checksum is compared at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verification {
    /// Blocks only, as they arrive.
    Blocks,
    /// What was written is read back and compared with the source, block by block.
    Written,
}

/// What is copied beside data, permission bits and times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extras {
    /// Nothing.
    None,
    /// Extended attributes of the users' name space.
    Extended,
}

/// How to copy.
#[derive(Debug, Clone)]
pub struct Manner {
    /// How to connect.
    pub options: Options,
    /// Sessions that one part of a copy leaves to the next.
    pub sessions: Arc<SessionPool>,
    /// What to do with an earlier attempt.
    pub earlier: Earlier,
    /// What to verify.
    pub verification: Verification,
    /// Sessions that share the work.
    pub lanes: Lanes,
    /// Copy only so many bytes from the front.
    pub most: Option<u64>,
    /// Whether data and names must be on stable storage.
    pub stable: Stable,
    /// What else is copied.
    pub extras: Extras,
    /// What happens to files that are there.
    pub existing: Existing,
    /// What of a tree is copied.
    pub choice: Choice,
    /// Largest rate, of all copies together, if there is one.
    pub pace: Option<Arc<Pace>>,
    /// How long it goes on after a lost connection.
    pub retry: Retry,
    /// How much is moved before it is known to have arrived.
    pub start: Start,
}

impl Manner {
    /// After these bytes were moved.
    fn keep_pace(&self, bytes: u64) {
        if let Some(pace) = &self.pace {
            pace.wait(bytes);
        }
    }
}

/// How a connection begins to move data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With as much under way as there may be.
    Full,
    /// Block by block at first, because a connection was lost before: the next one may not live
    /// long either, and what is under way at its end counts for nothing.
    Slow,
}

/// Whether data are forced to stable storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stable {
    /// The system writes them when it likes.
    Later,
    /// The data before the rename, and the name before the copy is done.
    First,
}

/// Copies one file (or a pipe: `-`).
pub fn copy_file(
    from: &Location,
    to: &Location,
    manner: &Manner,
    progress: &Progress,
) -> Result<(), CopyError> {
    let stream = match from {
        Location::Local(path) => stream_of(path)?,
        Location::Remote(..) => None,
    };
    if let Some((mut stream, mode)) = stream {
        // What came through a pipe cannot come again, so nothing of an earlier attempt is of use.
        let manner = Manner {
            earlier: Earlier::Discard,
            ..manner.clone()
        };
        return match special(to)? {
            Some(mut sink) => {
                let moved = std::io::copy(&mut stream, &mut sink).about("write")?;
                progress.expect(moved);
                progress.moved(moved);
                progress.file();
                Ok(())
            }
            None if tree::stays(to, &Facts::of_a_stream(mode), &manner)? => {
                progress.left();
                Ok(())
            }
            None => {
                let sink = sink(to, &manner, progress)?;
                pipe::from_stream(&mut stream, &*sink, mode, &manner, progress)
            }
        };
    }
    if let Some(mut stream) = special(to)? {
        let open = || source(from, manner, progress);
        return pipe::to_stream(&open, &mut stream, manner, progress);
    }
    retry::persist_with_file(manner, progress, |manner, is_first| {
        let source = source(from, manner, progress)?;
        if is_first && tree::stays(to, source.facts(), manner)? {
            progress.left();
            return Ok(());
        }
        pipeline::copy(&*source, &*sink(to, manner, progress)?, manner, progress)
    })
}

/// Writes a file to a stream as it is read, as cat(1) does: changes meanwhile are nobody's error. What is appended after
/// the open is not waited for: a file may grow as fast as it is read.
pub fn stream_file(
    from: &Location,
    sink: &mut dyn Write,
    options: &Options,
) -> Result<(), CopyError> {
    let (address, path) = match from {
        Location::Remote(address, path) => (address, path),
        Location::Local(path) => {
            let mut file = std::fs::File::open(path).about(shown_path(path))?;
            std::io::copy(&mut file, sink).about(shown_path(path))?;
            return sink.flush().about("standard output");
        }
    };
    let name = || format!("{address}{path}");
    let session = Exchange::for_copies(address, options).about(name())?;
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

/// What is read once, in order; and the permission bits of what is made of it.
type Stream = (Box<dyn std::io::Read>, u32);

/// The stream that a source is if it is no regular file.
fn stream_of(path: &LocalPath) -> Result<Option<Stream>, CopyError> {
    use std::os::unix::fs::PermissionsExt;
    if path.as_os_str() == "-" {
        return Ok(Some((Box::new(std::io::stdin()), 0o644)));
    }
    let about = std::fs::metadata(path).about(shown_path(path))?;
    if about.is_file() || about.is_dir() {
        return Ok(None);
    }
    let file = std::fs::File::open(path).about(shown_path(path))?;
    Ok(Some((Box::new(file), about.permissions().mode() & 0o777)))
}

/// A destination that is no regular file: written to in order.
fn special(to: &Location) -> Result<Option<Box<dyn Write + Send>>, CopyError> {
    match to {
        Location::Local(path) if path.as_os_str() == "-" => Ok(Some(Box::new(std::io::stdout()))),
        Location::Local(path) if is_special(path) => {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .about(shown_path(path))?;
            Ok(Some(Box::new(file)))
        }
        _ => Ok(None),
    }
}

fn source<'a>(
    from: &'a Location,
    manner: &'a Manner,
    progress: &'a Progress,
) -> Result<Box<dyn Source + 'a>, CopyError> {
    match from {
        Location::Local(path) => {
            let name = shown_path(path);
            let file = std::fs::File::open(path).about(&name)?;
            if file.metadata().about(&name)?.is_dir() {
                return Err(here(std::io::Error::from_raw_os_error(libc::EISDIR))).about(&name);
            }
            let source = LocalSource::new(file, name.clone(), manner.extras).about(&name)?;
            Ok(Box::new(source))
        }
        Location::Remote(address, path) => {
            let there = There {
                address,
                options: &manner.options,
                progress,
            };
            let source = RemoteSource::open(there, path, manner.extras);
            Ok(Box::new(source.about(format!("{address}{path}"))?))
        }
    }
}

fn sink<'a>(
    to: &'a Location,
    manner: &'a Manner,
    progress: &'a Progress,
) -> Result<Box<dyn Sink + 'a>, CopyError> {
    match to {
        Location::Local(path) => {
            let name = shown_path(path);
            let (directory, last) = Directory::above(path).about(&name)?;
            let sink = LocalSink::open(Arc::new(directory), &last, name.clone(), manner.earlier);
            Ok(Box::new(sink.about(&name)?))
        }
        Location::Remote(address, path) => {
            let there = There {
                address,
                options: &manner.options,
                progress,
            };
            let sink = RemoteSink::open(there, path, manner.earlier);
            Ok(Box::new(sink.about(format!("{address}{path}"))?))
        }
    }
}

//! The marker of an incomplete copy of a tree to a new directory.
//!
//! `rfcp -r SRC NEW` creates NEW if it does not exist, and copies to NEW/SRC if it does. After an
//! interruption NEW exists, so the marker has to show that it is the tree itself and not the
//! directory that receives SRC: a file beside NEW, with the name of NEW's partial file, that
//! contains the source's name. It is created before NEW and removed when the copy is complete.
//! While the copy runs it is locked as partial files are, so a second copy to the same destination
//! fails with "busy".

use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock};

use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Path;

use super::super::directory::{Directory, is_plain_name, split};
use super::super::failure::{CopyError, ErrorSubject, display_path, local_error};
use super::super::local::{LocalSink, partial_name};
use super::super::pipeline::Sink;
use super::super::progress::Progress;
use super::super::remote::{RemoteServer, RemoteSink, partial_path};
use super::super::settings::{CopySettings, EarlierAttempt};
use crate::address::Location;
use crate::connection::{MultiplexedConnection, SharedFile};
use crate::error::Error;

/// Receives the counts of a marker, whose route is not that of the copied data.
static UNCOUNTED: LazyLock<Progress> = LazyLock::new(Progress::default);

/// A marker that was set; it locks the destination for this copy as long as it lives.
pub(super) struct IncompleteMarker<'a>(Box<dyn Sink + 'a>);

/// Returns the content of a marker.
fn content(from: &Location) -> Vec<u8> {
    let name = match from {
        Location::Local(path) => path.file_name().map(OsStrExt::as_bytes).unwrap_or_default(),
        Location::Remote(_, path) => split(trimmed(path)).1,
    };
    [b"rfcp -r ", name, b"\n"].concat()
}

fn trimmed(path: &Path) -> &[u8] {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    &bytes[..end.map_or(0, |end| end + 1)]
}

/// Returns the remote path that a marker is for, without trailing slashes; `None` for the root of a
/// server.
fn marker_path(path: &Path) -> Option<Path> {
    let bytes = trimmed(path);
    is_plain_name(split(bytes).1)
        .then(|| Path::new(bytes))
        .flatten()
}

impl<'a> IncompleteMarker<'a> {
    /// Sets a marker for the copy of a tree; returns `None` for destinations that cannot be new. On
    /// a server, the marker is opened in `session`.
    ///
    /// # Errors
    /// Returns the errors of creating and writing the marker.
    pub fn set(
        from: &Location,
        to: &'a Location,
        session: Option<Arc<MultiplexedConnection>>,
        settings: &'a CopySettings,
    ) -> Result<Option<Self>, CopyError> {
        let sink: Box<dyn Sink + 'a> = match to {
            Location::Local(path) => {
                if path.file_name().is_none() {
                    return Ok(None);
                }
                let name = display_path(path);
                let (above, last) = Directory::above(path).about(&name)?;
                let sink = LocalSink::open(
                    Arc::new(above),
                    &last,
                    name.clone(),
                    EarlierAttempt::Discard,
                );
                Box::new(sink.about(name)?)
            }
            Location::Remote(address, path) => {
                let Some(path) = marker_path(path) else {
                    return Ok(None);
                };
                let there = RemoteServer {
                    address,
                    options: &settings.options,
                    progress: &UNCOUNTED,
                };
                let sink = match session {
                    Some(session) => {
                        RemoteSink::open_in(session, there, &path, EarlierAttempt::Discard)
                    }
                    None => RemoteSink::open(there, &path, EarlierAttempt::Discard),
                };
                Box::new(sink.about(address.location(&path))?)
            }
        };
        let written = sink.writer(0).and_then(|mut writer| {
            writer.write(0, &content(from))?;
            writer.finish()
        });
        written.about(sink.name())?;
        Ok(Some(Self(sink)))
    }

    /// Removes the marker of a completed copy.
    ///
    /// # Errors
    /// Returns the errors of removing a file.
    pub fn clear(&self) -> Result<(), CopyError> {
        self.0.discard().about(self.0.name())
    }
}

/// Returns whether a copy of this tree to this destination was begun and not completed.
///
/// # Errors
/// Returns the errors of reading the marker. A marker that cannot be opened counts as missing.
pub fn is_begun(
    from: &Location,
    to: &Location,
    settings: &CopySettings,
) -> Result<bool, CopyError> {
    let wanted = content(from);
    let mut found = vec![0; wanted.len() + 1];
    let read = match to {
        Location::Local(path) => read_local(path, &mut found).about(display_path(path)),
        Location::Remote(address, path) => match marker_path(path) {
            Some(path) => {
                read_remote(address, &path, settings, &mut found).about(address.location(&path))
            }
            None => Ok(0),
        },
    };
    Ok(found[..read?] == wanted)
}

/// Reads the marker of a local destination; returns 0 bytes if there is none.
fn read_local(path: &std::path::Path, into: &mut [u8]) -> Result<usize, Error> {
    // A symbolic link is not the tree of an earlier copy.
    if path.file_name().is_none() || !std::fs::symlink_metadata(path).is_ok_and(|at| at.is_dir()) {
        return Ok(0);
    }
    let (above, name) = Directory::above(path).map_err(local_error)?;
    match above.open_file(&partial_name(&name)) {
        Ok(file) => super::super::local::read_fully_at(&file, 0, into).map_err(local_error),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(local_error(error)),
    }
}

/// Reads the marker of a destination on a server; returns 0 bytes if there is none.
fn read_remote(
    address: &crate::Address,
    path: &Path,
    settings: &CopySettings,
    into: &mut [u8],
) -> Result<usize, Error> {
    let session = MultiplexedConnection::for_copies(address, &settings.options)?;
    let flags = OpenFlags::READ | OpenFlags::NO_FOLLOW;
    match SharedFile::open(session, &partial_path(path)?, flags, 0) {
        Ok(file) => {
            let (length, bytes) = file.read(0, vec![0; into.len()])?;
            into[..length].copy_from_slice(&bytes[..length]);
            Ok(length)
        }
        Err(Error::Refused(_)) => Ok(0),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_names_its_source_and_roots_have_none() {
        let local = |path: &str| content(&Location::Local(path.into()));
        assert_eq!(local("a/src"), b"rfcp -r src\n");
        assert_eq!(local("a/src/"), b"rfcp -r src\n");
        assert_eq!(local(".."), b"rfcp -r \n");
        let path = |path: &str| Path::new(path).unwrap();
        assert_eq!(marker_path(&path("/a/new//")), Some(path("/a/new")));
        for none in ["/", "", "//", "/a/..", "/."] {
            assert_eq!(marker_path(&path(none)), None, "{none}");
        }
    }
}

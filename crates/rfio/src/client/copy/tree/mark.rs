//! The mark of a tree that is being copied to a place where nothing was.
//!
//! `rfcp -r SRC NEW` makes NEW when it is not there, and goes into it, to NEW/SRC, when it is.
//! After an interruption NEW is there, so something has to tell that it is not the directory that
//! receives SRC but the tree itself: a file with the name of NEW's partial file, beside it, that
//! holds the source's name. It is made before NEW and removed when everything is there. As long as
//! the copy runs it is locked as partial files are, so a second copy to the same place is told that
//! it is busy.

use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, LazyLock};

use verbena_rfio_protocol::request::OpenFlags;
use verbena_rfio_protocol::types::Path;

use super::super::directory::{Directory, is_plain_name, split};
use super::super::failure::{About, CopyError, here, shown_path};
use super::super::local::{LocalSink, partial_name};
use super::super::pipeline::Sink;
use super::super::progress::Progress;
use super::super::remote::{RemoteSink, There, partial_path};
use super::super::{Earlier, Manner};
use crate::client::address::Location;
use crate::client::error::Error;
use crate::client::exchange::{Exchange, SharedFile};

/// The way of a mark is not that of any data.
static ASIDE: LazyLock<Progress> = LazyLock::new(Progress::default);

/// A mark that was set; the place is this copy's as long as it lives.
pub(super) struct Mark<'a>(Box<dyn Sink + 'a>);

/// What a mark says. Longer names than a file system has are cut.
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

/// The remote path that a mark is for, without slashes at its end; none if it is a service's root.
fn marked(path: &Path) -> Option<Path> {
    let bytes = trimmed(path);
    is_plain_name(split(bytes).1)
        .then(|| Path::new(bytes))
        .flatten()
}

impl<'a> Mark<'a> {
    /// Sets a mark for the copy of a tree; none at places that cannot be new. On a service, the
    /// mark is open in `session`.
    ///
    /// # Errors
    /// Those of creating and writing a file there.
    pub fn set(
        from: &Location,
        to: &'a Location,
        session: Option<Arc<Exchange>>,
        manner: &'a Manner,
    ) -> Result<Option<Self>, CopyError> {
        let sink: Box<dyn Sink + 'a> = match to {
            Location::Local(path) => {
                if path.file_name().is_none() {
                    return Ok(None);
                }
                let name = shown_path(path);
                let (above, last) = Directory::above(path).about(&name)?;
                let sink = LocalSink::open(Arc::new(above), &last, name.clone(), Earlier::Discard);
                Box::new(sink.about(name)?)
            }
            Location::Remote(address, path) => {
                let Some(path) = marked(path) else {
                    return Ok(None);
                };
                let there = There {
                    address,
                    options: &manner.options,
                    progress: &ASIDE,
                };
                let sink = match session {
                    Some(session) => RemoteSink::open_in(session, there, &path, Earlier::Discard),
                    None => RemoteSink::open(there, &path, Earlier::Discard),
                };
                Box::new(sink.about(format!("{address}{path}"))?)
            }
        };
        let written = sink.writer(0).and_then(|mut writer| {
            writer.write(0, &content(from))?;
            writer.finish()
        });
        written.about(sink.name())?;
        Ok(Some(Self(sink)))
    }

    /// Everything is there.
    pub fn clear(&self) -> Result<(), CopyError> {
        self.0.discard().about(self.0.name())
    }
}

/// Whether a copy of this tree to this very place was begun and not completed.
pub fn is_begun(from: &Location, to: &Location, manner: &Manner) -> Result<bool, CopyError> {
    let wanted = content(from);
    let mut found = vec![0; wanted.len() + 1];
    let read = match to {
        Location::Local(path) => read_here(path, &mut found).about(shown_path(path)),
        Location::Remote(address, path) => match marked(path) {
            Some(path) => read_there(address, &path, manner, &mut found)
                .about(format_args!("{address}{path}")),
            None => Ok(0),
        },
    };
    Ok(found[..read?] == wanted)
}

/// Reads the mark of a place on this host; nothing if there is none.
fn read_here(path: &std::path::Path, into: &mut [u8]) -> Result<usize, Error> {
    // A link there is no tree of an earlier copy.
    if path.file_name().is_none() || !std::fs::symlink_metadata(path).is_ok_and(|at| at.is_dir()) {
        return Ok(0);
    }
    let (above, name) = Directory::above(path).map_err(here)?;
    match above.open_file(&partial_name(&name)) {
        Ok(file) => super::super::local::read_fully_at(&file, 0, into).map_err(here),
        Err(_) => Ok(0),
    }
}

/// Reads the mark of a place on a service; nothing if there is none.
fn read_there(
    address: &crate::client::Address,
    path: &Path,
    manner: &Manner,
    into: &mut [u8],
) -> Result<usize, Error> {
    let session = Exchange::for_copies(address, &manner.options)?;
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
    fn a_mark_names_its_source_and_roots_have_none() {
        let local = |path: &str| content(&Location::Local(path.into()));
        assert_eq!(local("a/src"), b"rfcp -r src\n");
        assert_eq!(local("a/src/"), b"rfcp -r src\n");
        assert_eq!(local(".."), b"rfcp -r \n");
        let path = |path: &str| Path::new(path).unwrap();
        assert_eq!(marked(&path("/a/new//")), Some(path("/a/new")));
        for none in ["/", "", "//", "/a/..", "/."] {
            assert_eq!(marked(&path(none)), None, "{none}");
        }
    }
}

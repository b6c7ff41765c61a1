//! Detects copies of a tree into itself, which would never end or would end with copies of copies.
//!
//! Before anything is created, the directories above the destination are compared with the source
//! if both are on one system. They are compared by device and inode, so symbolic links in the path
//! do not matter. A source that reaches the destination by another path (a server on this host,
//! another address of it) meets the destination's root directory during the walk, and that
//! directory is not entered.

use std::os::fd::AsFd;

use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Reply, Request, request::OnPath};

use std::sync::Arc;

use super::super::directory::{Directory, split};
use super::super::failure::{CopyError, ErrorSubject, display_path};
use super::super::settings::CopySettings;
use super::entry::EntryKind;
use super::interface::{SourceTree, TargetTree};
use super::remote;
use crate::address::Location;
use crate::connection::MultiplexedConnection;
use crate::error::Error;

/// The error of a copy into itself.
pub fn into_itself() -> Error {
    Error::Setup("a directory cannot be copied into itself".into())
}

/// Checks that the destination is neither the source nor below it, if both are on one system.
///
/// # Errors
/// Returns [`into_itself`] if it is, else the errors of examining either.
pub fn must_be_apart(
    from: &Location,
    to: &Location,
    origin: &dyn SourceTree,
    settings: &CopySettings,
) -> Result<(), CopyError> {
    let source = || -> Result<_, CopyError> {
        let root = origin.root().about(origin.name(b""))?;
        Ok(root.identity)
    };
    let (is_within, name) = match (from, to) {
        (Location::Local(_), Location::Local(path)) => {
            (is_within_local(path, source()?), display_path(path))
        }
        (Location::Remote(one, _), Location::Remote(other, path)) if one == other => {
            let name = format!("{other}{path}");
            let session = settings.sessions.take(other, &settings.options);
            let session = session.about(&name)?;
            let is_within = is_within_remote(&session, path, source()?);
            (is_within.about(&name)?, name)
        }
        _ => return Ok(()),
    };
    match is_within {
        true => Err(into_itself()).about(name),
        false => Ok(()),
    }
}

/// Returns whether a directory of the source, met in the walk, is the target's root.
///
/// # Errors
/// Returns the errors of examining either directory.
pub fn are_one(origin: &dyn SourceTree, at: &[u8], target: &dyn TargetTree) -> Result<bool, Error> {
    // Inode numbers of two systems may be equal by chance, but not the time of the last change as
    // well. A directory that is being changed is examined again.
    for _ in 0..3 {
        let (one, other) = (origin.directory(at)?, target.root()?);
        if one.identity != other.identity {
            return Ok(false);
        }
        if one.changed == other.changed {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a local path, or a directory above it, has this device and inode number.
fn is_within_local(path: &std::path::Path, identity: (u64, u64)) -> bool {
    let start = match path.is_dir() {
        true => Directory::named(path),
        false => Directory::above(path).map(|(above, _)| above),
    };
    let Ok(mut at) = start else {
        // A missing directory is reported by the copy itself.
        return false;
    };
    let mut below = None;
    while let Ok(about) = at.about() {
        let this = (about.st_dev, about.st_ino);
        if this == identity {
            return true;
        }
        // The root is its own parent.
        if below == Some(this) {
            return false;
        }
        below = Some(this);
        match Directory::parent(at.as_fd()) {
            Ok(parent) => at = parent,
            Err(_) => return false,
        }
    }
    false
}

/// Does the same on a server, which resolves `..`.
fn is_within_remote(
    session: &Arc<MultiplexedConnection>,
    path: &Path,
    identity: (u64, u64),
) -> Result<bool, Error> {
    let look = |path: Path| match session.call(Request::Status(OnPath { path })) {
        Ok(Reply::Status(about)) => Ok(Some(remote::item(b"", &about.attributes))),
        // A missing directory is reported by the copy itself; directories above the export are
        // invisible.
        Ok(_) | Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    };
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    let mut way = bytes[..end.map_or(0, |end| end + 1)].to_vec();
    let is_there = look(path.clone())?.is_some_and(|item| item.kind == EntryKind::Directory);
    if !is_there {
        way.truncate(split(&way).0.len());
    }
    let mut below = None;
    loop {
        let rooted = if way.is_empty() { b"/" } else { &way[..] };
        let Some(path) = Path::new(rooted) else {
            return Ok(false);
        };
        let Some(item) = look(path)? else {
            return Ok(false);
        };
        if item.identity == identity {
            return Ok(true);
        }
        if below == Some(item.identity) {
            return Ok(false);
        }
        below = Some(item.identity);
        way.extend_from_slice(b"/..");
    }
}

#[cfg(test)]
mod tests {
    use verbena_rfio_common::scratch::Scratch;

    use super::*;

    #[test]
    fn place_below_a_directory_is_found_through_links() {
        let scratch = Scratch::new();
        std::fs::create_dir_all(scratch.path("tree/a/b")).unwrap();
        std::fs::create_dir(scratch.path("treetop")).unwrap();
        std::os::unix::fs::symlink("tree/a", scratch.path("link")).unwrap();
        let tree = Directory::named(&scratch.path("tree")).unwrap();
        let about = tree.about().unwrap();
        let identity = (about.st_dev, about.st_ino);
        for within in [
            "tree",
            "tree/new",
            "tree/a/b/new",
            "link/new",
            "link",
            "link/b",
        ] {
            assert!(is_within_local(&scratch.path(within), identity), "{within}");
        }
        for apart in [
            "treetop",
            "treetop/new",
            "new",
            "nothing/new",
            "tree/../new",
        ] {
            assert!(!is_within_local(&scratch.path(apart), identity), "{apart}");
        }
    }
}

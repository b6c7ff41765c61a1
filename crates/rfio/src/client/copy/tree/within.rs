//! Whether a tree would be copied into itself: it would never end, or would end with copies of
//! copies.
//!
//! Before anything is made, the directories above the destination are compared with the source,
//! where both are of one system: by device and inode, so links on the way do not matter. A source
//! that comes to the destination by another way (a service on this host, another address of it)
//! meets the destination's own directory during the walk; that one is not entered.

use std::os::fd::AsFd;

use verbena_rfio_protocol::types::Path;
use verbena_rfio_protocol::{Reply, Request, request::OnPath};

use std::sync::Arc;

use super::super::Manner;
use super::super::directory::{Directory, split};
use super::super::failure::{About, CopyError, shown_path};
use super::{Kind, Origin, Target, remote};
use crate::client::address::Location;
use crate::client::error::Error;
use crate::client::exchange::Exchange;

/// The error.
pub fn into_itself() -> Error {
    Error::Setup("a directory cannot be copied into itself".into())
}

/// Fails if the destination is the source or below it, as far as the two are of one system.
pub fn must_be_apart(
    from: &Location,
    to: &Location,
    origin: &dyn Origin,
    manner: &Manner,
) -> Result<(), CopyError> {
    let source = || -> Result<_, CopyError> {
        let root = origin.root().about(origin.name(b""))?;
        Ok(root.identity)
    };
    let (is_within, name) = match (from, to) {
        (Location::Local(_), Location::Local(path)) => {
            (is_within_here(path, source()?), shown_path(path))
        }
        (Location::Remote(one, _), Location::Remote(other, path)) if one == other => {
            let name = format!("{other}{path}");
            let session = manner.sessions.take(other, &manner.options);
            let session = session.about(&name)?;
            let is_within = is_within_there(&session, path, source()?);
            (is_within.about(&name)?, name)
        }
        _ => return Ok(()),
    };
    match is_within {
        true => Err(into_itself()).about(name),
        false => Ok(()),
    }
}

/// Whether a directory of the source, met on the walk, is the target's root.
pub fn are_one(origin: &dyn Origin, at: &[u8], target: &dyn Target) -> Result<bool, Error> {
    // Numbers of two systems may be equal by chance, but not the moment of the last change as well.
    // What somebody is just changing is looked at again.
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

/// Whether a place on this host, or what is above it, is a directory.
fn is_within_here(path: &std::path::Path, identity: (u64, u64)) -> bool {
    let start = match path.is_dir() {
        true => Directory::named(path),
        false => Directory::above(path).map(|(above, _)| above),
    };
    let Ok(mut at) = start else {
        // What is not there is an error of the copy's.
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

/// The same on a service, which resolves the way up.
fn is_within_there(
    session: &Arc<Exchange>,
    path: &Path,
    identity: (u64, u64),
) -> Result<bool, Error> {
    let look = |path: Path| match session.call(Request::Status(OnPath { path })) {
        Ok(Reply::Status(about)) => Ok(Some(remote::item(b"", &about.attributes))),
        // What is not there is an error of the copy's; above the export nothing is to be seen.
        Ok(_) | Err(Error::Refused(_)) => Ok(None),
        Err(error) => Err(error),
    };
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|&byte| byte != b'/');
    let mut way = bytes[..end.map_or(0, |end| end + 1)].to_vec();
    let is_there = look(path.clone())?.is_some_and(|item| item.kind == Kind::Directory);
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
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn what_is_below_a_directory_is_found_through_links() {
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
            assert!(is_within_here(&scratch.path(within), identity), "{within}");
        }
        for apart in [
            "treetop",
            "treetop/new",
            "new",
            "nothing/new",
            "tree/../new",
        ] {
            assert!(!is_within_here(&scratch.path(apart), identity), "{apart}");
        }
    }
}

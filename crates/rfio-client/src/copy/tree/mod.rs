//! Recursive copies of directory trees.
//!
//! One walk serves all combinations of local and remote trees: it lists and reads a [`SourceTree`]
//! and writes a [`TargetTree`]. Small files are transferred whole ([`small_files`]) by threads
//! beside the walk, with many requests in flight; large files go through the pipeline one by one.
//! Operations on names are sent in batches, so that none waits for the reply to another. An error
//! ends the copy of one file, not of the tree. After a lost connection the copy continues over a
//! new one ([`retry`]); if none can be made, it ends with a single message.
//!
//! Memory is bounded: directories are listed page by page, files are moved once enough have been
//! found, and a directory is finished as soon as nothing below it is pending.

mod existing;
mod incomplete_marker;
mod listed_names;
mod local;
mod remote;
mod request_window;
mod self_copy;
mod small_files;
mod walk;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use verbena_rfio_protocol::reply::Listing;
use verbena_rfio_protocol::request::List;
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use super::failure::{CopyError, ErrorSubject, display_path, local_error};
use super::pipeline::{FileFacts, Sink, Source};
use super::progress::Progress;
use super::retry;
use super::{CopySettings, Durability, EarlierAttempt};
use crate::address::Location;
use crate::bounds::{self, ListingBounds};
use crate::error::Error;

use incomplete_marker::IncompleteMarker;
use local::LocalTree;
use remote::RemoteTree;
use small_files::{Fetcher, SmallFileCopier, Storer};
use walk::Walk;

pub(super) use existing::stays;
pub use incomplete_marker::is_begun;

/// Size limit in bytes of files that are transferred whole.
const SMALL: u64 = 256 << 10;

/// Callback for errors after which the copy of a tree continues.
pub type OnError<'a> = &'a (dyn Fn(CopyError) + Sync);

/// Type of a tree entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryKind {
    Directory,
    Link,
    File,
    /// A device, socket or FIFO, which is not copied; the string describes it.
    Other(&'static str),
}

impl EntryKind {
    fn of_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Link,
            libc::S_IFREG => Self::File,
            libc::S_IFIFO => Self::Other("a FIFO"),
            libc::S_IFSOCK => Self::Other("a socket"),
            libc::S_IFCHR => Self::Other("a character device"),
            libc::S_IFBLK => Self::Other("a block device"),
            _ => Self::Other("a file of unknown type"),
        }
    }
}

/// Returns the mode bits that a copy keeps: the permission bits, and for a directory the sticky and
/// set-group-ID bits as well, which govern the names in it. Files lose set-user-ID and
/// set-group-ID, so a copied program never runs with another user's rights.
fn kept_bits(mode: u32) -> u32 {
    match EntryKind::of_mode(mode) {
        EntryKind::Directory => mode & 0o3777,
        _ => mode & 0o777,
    }
}

/// An entry of a directory in a tree.
#[derive(Debug, Clone)]
struct TreeEntry {
    name: Vec<u8>,
    kind: EntryKind,
    facts: FileFacts,
    /// Device and inode number, which identify a file within one system.
    identity: (u64, u64),
    /// Last change of the inode, in nanoseconds since 1970.
    changed: i64,
    links: u64,
}

/// A symbolic link to create.
#[derive(Debug, Clone)]
struct Link {
    at: Vec<u8>,
    text: Vec<u8>,
    /// Last change of the original link, in nanoseconds since 1970.
    modified: i64,
}

/// Results of a batch, in the order of its elements, or the error that prevented the whole batch.
type BatchResult<T> = Result<Vec<Result<T, Error>>, Error>;

/// Part of a directory and the cookie of the next part; a cookie of 0 means the beginning or the
/// end.
type Page = (Vec<TreeEntry>, u64);

/// A tree to read. Paths are relative to its root, which is the empty path.
trait SourceTree: Sync {
    fn name(&self, at: &[u8]) -> String;
    fn root(&self) -> Result<TreeEntry, Error>;
    /// Returns the entry of a directory in the tree.
    fn directory(&self, at: &[u8]) -> Result<TreeEntry, Error>;
    /// Lists the part of a directory that begins at a cookie.
    fn list(&self, at: &[u8], cookie: u64) -> Result<Page, Error>;
    /// Returns the number of directories whose first parts should be requested together.
    fn together(&self) -> usize;
    /// Lists the first parts of directories.
    fn list_first(&self, directories: &[Vec<u8>]) -> BatchResult<Page>;
    fn read_links(&self, links: &[Vec<u8>]) -> BatchResult<Vec<u8>>;
    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error>;
    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error>;
}

/// A tree to write.
trait TargetTree: SourceTree {
    /// Creates directories with these permission bits unless they exist; returns whether each was
    /// created.
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> BatchResult<bool>;
    /// Sets the permission bits and times of directories, in this order, and puts their names on
    /// stable storage if requested.
    fn finish_directories(
        &self,
        directories: &[(Vec<u8>, FileFacts)],
        stable: Durability,
    ) -> BatchResult<()>;
    /// Creates symbolic links with the times of the original links.
    fn make_links(&self, links: &[Link]) -> BatchResult<()>;
    /// Creates hard links; each pair holds the existing name and the new one.
    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> BatchResult<()>;
    fn create(&self, at: &[u8], earlier: EarlierAttempt) -> Result<Box<dyn Sink + '_>, Error>;
    /// Returns the size limit in bytes of files that it accepts whole.
    fn most_whole(&self) -> u64;
    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error>;
    /// Puts an existing file on stable storage.
    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error>;
    /// Puts the names in the tree's root, and the name of the root itself, on stable storage.
    fn synchronise_above(&self) -> Result<(), Error>;
}

/// Copies a directory and everything in it.
///
/// # Errors
/// Returns errors that end the copy, such as a lost connection that could not be replaced. Errors
/// of single files go to `on_error` instead.
pub fn copy_tree(
    from: &Location,
    to: &Location,
    settings: &CopySettings,
    progress: &Progress,
    on_error: OnError<'_>,
) -> Result<(), CopyError> {
    let origin: Box<dyn SourceTree + '_> = match from {
        Location::Local(path) => {
            Box::new(LocalTree::named(path, settings).about(display_path(path))?)
        }
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, settings, progress);
            Box::new(tree.about(address)?)
        }
    };
    let apart = || self_copy::must_be_apart(from, to, &*origin, settings);
    retry::retry(settings, progress, apart)?;
    // The destination exists if an earlier attempt created it, and is this copy's all the same.
    let is_ours = || {
        let begun = settings.earlier == EarlierAttempt::Continue && is_begun(from, to, settings)?;
        Ok(begun || existing::is_missing(to, settings)?)
    };
    let is_ours = retry::retry(settings, progress, is_ours)?;
    let remote = match to {
        Location::Local(_) => None,
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, settings, progress);
            Some((tree.about(address)?, address))
        }
    };
    let set_marker = || {
        let names = remote.as_ref().map(|(tree, at)| tree.names().about(at));
        IncompleteMarker::set(from, to, names.transpose()?, settings)
    };
    let marker = match is_ours {
        true => retry::retry(settings, progress, set_marker)?,
        false => None,
    };
    let (target, made, target_root): (Box<dyn TargetTree + '_>, _, _) = match (remote, to) {
        (Some((tree, _)), _) => {
            let (made, root) = retry::retry(settings, progress, || {
                let facts = origin.root().about(origin.name(b""))?.facts;
                tree.make_root(facts.mode | 0o700).about(tree.name(b""))
            })?;
            (Box::new(tree), made, root)
        }
        (None, Location::Local(path)) => {
            let (tree, made) = LocalTree::made(path, settings).about(display_path(path))?;
            let root = tree.root().about(tree.name(b""))?;
            (Box::new(tree), made, root)
        }
        (None, Location::Remote(..)) => unreachable!("connected above"),
    };
    let target_root = target_root.identity;
    let has_failed = AtomicBool::new(false);
    let on_error = |error: CopyError| {
        has_failed.fetch_or(!error.is_left_out(), Ordering::Relaxed);
        on_error(error);
    };
    let copier = SmallFileCopier::new(&*origin, &*target, settings, progress, &on_error);
    let walk = Walk::new(
        &*origin,
        &*target,
        settings,
        progress,
        &on_error,
        &copier,
        target_root,
    );
    copier.run_beside_walk(|| walk.run(made || marker.is_some()))?;
    match marker {
        Some(marker) if !has_failed.load(Ordering::Relaxed) => {
            retry::retry(settings, progress, || marker.clear())
        }
        _ => Ok(()),
    }
}

/// Lists a directory of a server through `call`.
///
/// # Errors
/// Returns the errors of `call`, and an error if the reply is unexpected or exceeds the client's
/// bounds.
pub fn list(
    mut call: impl FnMut(Request) -> Result<Reply, Error>,
    path: &Path,
) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    let mut bounds = ListingBounds::default();
    loop {
        let mut page = page_of(call(list_request(path, cookie))?)?;
        bounds.take(&page.entries, page.cookie != 0)?;
        entries.append(&mut page.entries);
        if page.cookie == 0 {
            return Ok(entries);
        }
        cookie = page.cookie;
    }
}

/// Builds the request for the part of a directory that begins at a cookie.
fn list_request(path: &Path, cookie: u64) -> Request {
    Request::List(List {
        path: path.clone(),
        cookie,
        count: 4096,
    })
}

/// Returns the part of a directory in a reply.
fn page_of(reply: Reply) -> Result<Listing, Error> {
    match reply {
        Reply::Listing(listing) => {
            bounds::page_ends(listing.entries.len(), listing.cookie != 0)?;
            Ok(listing)
        }
        other => Err(Error::unexpected(&other)),
    }
}

/// Converts an error of a local operation.
fn local<T>(result: io::Result<T>) -> Result<T, Error> {
    result.map_err(local_error)
}

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

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use verbena_rfio_protocol::reply::Listing;
use verbena_rfio_protocol::request::List;
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use super::directory::{join, split};
use super::failure::{CopyError, ErrorSubject, display_path, local_error};
use super::filter::ExistingFiles;
use super::local::partial_name;
use super::pipeline::{self, FileFacts, Sink, Source};
use super::progress::Progress;
use super::resume::segments;
use super::retry;
use super::{CopySettings, Durability, EarlierAttempt, Verification};
use crate::address::Location;
use crate::bounds::{self, HELD_NAMES, ListingBounds};
use crate::error::Error;

use incomplete_marker::IncompleteMarker;
use listed_names::ListedNames;
use local::LocalTree;
use remote::RemoteTree;
use small_files::{Fetcher, SmallFileCopier, Storer};

pub(super) use existing::stays;
pub use incomplete_marker::is_begun;

/// Size limit in bytes of files that are transferred whole.
const SMALL: u64 = 256 << 10;

/// Number of files that the walk finds before it waits for their copies; bounds memory use.
const BATCH: usize = 8192;

/// Number of names in one batch of operations.
const NAMES: usize = 1024;

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
    let walk = Walk {
        origin: &*origin,
        target: &*target,
        settings,
        progress,
        on_error: &on_error,
        copier: &copier,
        files: 0,
        large: Vec::new(),
        directories: Vec::new(),
        links: Vec::new(),
        open: Vec::new(),
        entered: Vec::new(),
        unfinished: Vec::new(),
        second_names: Vec::new(),
        first_names: HashMap::new(),
        held: 0,
        held_before: 0,
        has_no_session: Cell::new(false),
        target_root,
    };
    copier.run_beside_walk(|| walk.run(made || marker.is_some()))?;
    match marker {
        Some(marker) if !has_failed.load(Ordering::Relaxed) => {
            retry::retry(settings, progress, || marker.clear())
        }
        _ => Ok(()),
    }
}

struct Walk<'a> {
    origin: &'a dyn SourceTree,
    target: &'a dyn TargetTree,
    settings: &'a CopySettings,
    progress: &'a Progress,
    on_error: OnError<'a>,
    copier: &'a SmallFileCopier<'a>,
    /// Number of files found since all found files were moved last.
    files: usize,
    large: Vec<Vec<u8>>,
    /// Directories and links found but not yet created; links with the times to set.
    directories: Vec<(Vec<u8>, FileFacts)>,
    links: Vec<(Vec<u8>, i64)>,
    /// Directories still to be listed, the next one last.
    open: Vec<Vec<u8>>,
    /// Directories whose first parts have been listed, the next one last.
    entered: Vec<(Vec<u8>, Page)>,
    /// Created directories that get their attributes once everything below them is done; parents
    /// come before their children. `None`: the tree's root, if it existed before the copy.
    unfinished: Vec<(Vec<u8>, Option<FileFacts>)>,
    /// Additional names of files with hard links: the first name, and the other one.
    second_names: Vec<(Vec<u8>, Vec<u8>)>,
    first_names: HashMap<(u64, u64), Vec<u8>>,
    /// Estimated bytes of memory of the names that are still needed.
    held: usize,
    held_before: usize,
    /// Whether the last batch failed as a whole; such an error is not reported per name.
    has_no_session: Cell<bool>,
    /// Device and inode number of the target's root.
    target_root: (u64, u64),
}

/// Bytes of memory that a name takes in addition to its text.
const EACH: usize = 64;

impl Walk<'_> {
    fn run(mut self, created_root: bool) -> Result<(), CopyError> {
        let root = self.retry(|| self.origin.root().about(self.origin.name(b"")))?;
        // A root that existed before keeps its attributes: they are the user's.
        self.unfinished
            .push((Vec::new(), created_root.then_some(root.facts)));
        self.open.push(Vec::new());
        while !self.copier.is_lost() {
            if self.open.is_empty() {
                self.make_found()?;
            }
            if self.open.is_empty() {
                break;
            }
            self.list_next()?;
            while let Some((at, first)) = self.entered.pop() {
                self.held = self.held.saturating_sub(at.len() + EACH);
                let entered = self.enter(&at, first);
                self.report_and_continue(entered)?;
                if self.held > HELD_NAMES {
                    return Err(Error::TooMuch(format!(
                        "the names of its directories and hard links need more than {} MiB of \
                         memory; copy it in parts",
                        HELD_NAMES >> 20
                    )))
                    .about(self.origin.name(b""));
                }
            }
        }
        if self.copier.is_lost() {
            return self.copier.finish().map(drop);
        }
        self.move_and_finish(None)?;
        if self.settings.stable == Durability::First {
            let done = self.retry(|| self.target.synchronise_above().about(self.target.name(b"")));
            self.report_and_continue(done)?;
        }
        Ok(())
    }

    /// Retries an operation until it succeeds or fails with an error that no retry can cure.
    fn retry<T>(&self, act: impl FnMut() -> Result<T, CopyError>) -> Result<T, CopyError> {
        retry::retry(self.settings, self.progress, act)
    }

    /// Retries a batch of operations likewise; the results of its elements may be passed to
    /// `report_and_continue`.
    fn on_each<I: Clone, T>(
        &self,
        things: &[I],
        name: impl Fn(&I) -> String,
        act: impl Fn(&[I]) -> BatchResult<T>,
    ) -> Result<Vec<Result<T, CopyError>>, CopyError> {
        let act = |some: &[I]| {
            let done = act(some).about(some.first().map(&name).unwrap_or_default())?;
            let done = some.iter().zip(done);
            Ok(done
                .map(|(one, done)| {
                    done.map_err(|error| CopyError {
                        subject: name(one),
                        error,
                    })
                })
                .collect())
        };
        let done = retry::retry_batch(self.settings, self.progress, things, act);
        self.has_no_session.set(done.is_err());
        done
    }

    /// Lists the first parts of the next directories.
    fn list_next(&mut self) -> Result<(), CopyError> {
        let together = self.origin.together();
        let mut next = self
            .open
            .split_off(self.open.len().saturating_sub(together));
        next.retain(|at| match bounds::depth(at).about(self.origin.name(at)) {
            Ok(()) => true,
            Err(error) => {
                (self.on_error)(error);
                false
            }
        });
        let name = |at: &Vec<u8>| self.origin.name(at);
        let pages = self.on_each(&next, name, |some| self.origin.list_first(some))?;
        for (at, page) in next.into_iter().zip(pages) {
            let page = page.map(|page| self.entered.push((at, page)));
            self.report_and_continue(page)?;
        }
        Ok(())
    }

    /// Creates the directories and links found so far, so that the walk can enter the directories.
    fn make_found(&mut self) -> Result<(), CopyError> {
        // The owner needs all permissions until the directory's contents are complete.
        let modes = self.directories.iter();
        let modes: Vec<_> = modes
            .map(|(at, facts)| (at.clone(), facts.mode | 0o700))
            .collect();
        let name = |(at, _): &(Vec<u8>, u32)| self.target.name(at);
        let made = self.on_each(&modes, name, |some| self.target.make_directories(some))?;
        for ((at, facts), made) in std::mem::take(&mut self.directories).into_iter().zip(made) {
            if made.is_ok() {
                self.unfinished.push((at.clone(), Some(facts)));
                self.open.push(at);
            }
            self.report_and_continue(made.map(drop))?;
        }
        let found: Vec<_> = std::mem::take(&mut self.links);
        let (names, times): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let name = |at: &Vec<u8>| self.origin.name(at);
        let texts = self.on_each(&names, name, |some| self.origin.read_links(some))?;
        let mut links = Vec::new();
        for ((at, modified), text) in names.into_iter().zip(times).zip(texts) {
            let text = text.map(|text| links.push(Link { at, text, modified }));
            self.report_and_continue(text)?;
        }
        let name = |link: &Link| self.target.name(&link.at);
        for made in self.on_each(&links, name, |some| self.target.make_links(some))? {
            self.report_and_continue(made)?;
        }
        Ok(())
    }

    /// Processes the entries of a directory, beginning with its first part.
    fn enter(&mut self, at: &[u8], first: Page) -> Result<(), CopyError> {
        let there = self.existing_items(at)?;
        let mut names = ListedNames::default();
        let (mut items, mut next) = first;
        loop {
            for item in items {
                if let Err(error) = names.take(&item.name).about(self.origin.name(at)) {
                    (self.on_error)(error);
                    names.may_go_on().about(self.origin.name(at))?;
                    continue;
                }
                let path = join(at, &item.name);
                if !self
                    .settings
                    .filter
                    .takes(&path, item.kind == EntryKind::Directory)
                {
                    continue;
                }
                let done = self.take(path, item, &there);
                self.report_and_continue(done)?;
                if self.directories.len() >= NAMES || self.links.len() >= NAMES {
                    self.make_found()?;
                }
            }
            let is_much = self.held > self.held_before + HELD_NAMES / 16;
            if self.files >= BATCH || is_much {
                self.move_and_finish(Some(at))?;
            }
            names.are_few().about(self.origin.name(at))?;
            if next == 0 || self.held > HELD_NAMES {
                return Ok(());
            }
            let page = self.retry(|| self.origin.list(at, next).about(self.origin.name(at)));
            (items, next) = page?;
        }
    }

    /// Recounts the memory of the names that are still needed.
    fn count_held(&mut self) {
        let entered = self.entered.iter().map(|(at, _)| at);
        let open = self.open.iter().chain(entered).map(|at| at.len() + EACH);
        let unfinished = self.unfinished.iter().map(|(at, _)| at.len() + 3 * EACH);
        let firsts = self.first_names.values().map(|at| at.len() + 2 * EACH);
        let seconds = self.second_names.iter();
        let seconds = seconds.map(|(one, other)| one.len() + other.len() + EACH);
        self.held = open.chain(unfinished).chain(firsts).chain(seconds).sum();
        self.held_before = self.held;
    }

    /// Moves everything found so far, then finishes the directories in which nothing more can be
    /// found: all except `within`, whose entries are being processed, the directories still to be
    /// listed, and the ancestors of these.
    fn move_and_finish(&mut self, within: Option<&[u8]>) -> Result<(), CopyError> {
        self.make_found()?;
        self.files = 0;
        self.large.append(&mut self.copier.finish()?);
        for path in std::mem::take(&mut self.large) {
            let moved = self.move_large(&path);
            self.report_and_continue(moved)?;
        }
        for some in std::mem::take(&mut self.second_names).chunks(NAMES) {
            let name = |(_, second): &(Vec<u8>, Vec<u8>)| self.target.name(second);
            for made in self.on_each(some, name, |some| self.target.make_hard_links(some))? {
                if made.is_ok() {
                    self.progress.file();
                }
                self.report_and_continue(made)?;
            }
        }
        let mut needed = HashSet::new();
        let entered = self.entered.iter().map(|(at, _)| at);
        let open = self.open.iter().chain(entered).map(Vec::as_slice);
        for at in open.chain(within) {
            let mut above = at;
            while needed.insert(above.to_vec()) && !above.is_empty() {
                above = split(above).0;
            }
        }
        // Innermost first: a change in a directory changes the directory's time.
        let unfinished = std::mem::take(&mut self.unfinished).into_iter();
        let (kept, done) = unfinished.partition(|(at, _)| needed.contains(at));
        self.unfinished = kept;
        let done: Vec<(Vec<u8>, Option<FileFacts>)> = done;
        // A root that existed before keeps its attributes.
        let done = done.into_iter().rev();
        let done: Vec<_> = done.filter_map(|(at, facts)| Some((at, facts?))).collect();
        let (stable, name) = (self.settings.stable, |(at, _): &(Vec<u8>, FileFacts)| {
            self.target.name(at)
        });
        for some in done.chunks(NAMES) {
            let finish = |some: &[_]| self.target.finish_directories(some, stable);
            for done in self.on_each(some, name, finish)? {
                self.report_and_continue(done)?;
            }
        }
        self.count_held();
        Ok(())
    }

    /// Reports an error and continues, unless the connection or the whole batch is lost.
    fn report_and_continue(&self, result: Result<(), CopyError>) -> Result<(), CopyError> {
        match result {
            Err(error) if error.is_loss() || self.has_no_session.get() => Err(error),
            Err(error) => {
                (self.on_error)(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Lists a directory of the target if existing files affect the copy.
    fn existing_items(&self, at: &[u8]) -> Result<HashMap<Vec<u8>, TreeEntry>, CopyError> {
        if self.settings.earlier == EarlierAttempt::Discard
            && self.settings.existing == ExistingFiles::Replace
        {
            return Ok(HashMap::new());
        }
        let (mut found, mut cookie, mut bytes) = (HashMap::new(), 0, 0);
        loop {
            let page = self.retry(|| self.target.list(at, cookie).about(self.target.name(at)));
            let (items, next) = page?;
            for item in items {
                bytes += 2 * item.name.len() + size_of::<TreeEntry>() + 64;
                found.insert(item.name.clone(), item);
            }
            if next == 0 {
                return Ok(found);
            }
            if bytes > HELD_NAMES {
                return Err(Error::TooMuch(format!(
                    "the names in it need more than {} MiB of memory",
                    HELD_NAMES >> 20
                )))
                .about(self.target.name(at));
            }
            cookie = next;
        }
    }

    fn take(
        &mut self,
        path: Vec<u8>,
        item: TreeEntry,
        there: &HashMap<Vec<u8>, TreeEntry>,
    ) -> Result<(), CopyError> {
        if let Some(have) = there.get(&item.name)
            && self.stays(&item, have)
        {
            self.progress.left();
            return Ok(());
        }
        match item.kind {
            EntryKind::Directory => {
                let is_target = || {
                    let are_one = self_copy::are_one(self.origin, &path, self.target);
                    are_one.about(self.origin.name(&path))
                };
                if item.identity == self.target_root && self.retry(is_target)? {
                    return Err(self_copy::into_itself()).about(self.origin.name(&path));
                }
                self.held += 2 * path.len() + 4 * EACH;
                self.directories.push((path, item.facts));
            }
            EntryKind::Link => self.links.push((path, item.facts.modified)),
            EntryKind::File => {
                if item.links > 1 {
                    if let Some(first) = self.first_names.get(&item.identity) {
                        self.held += first.len() + path.len() + EACH;
                        self.second_names.push((first.clone(), path));
                        return Ok(());
                    }
                    self.held += path.len() + 2 * EACH;
                    self.first_names.insert(item.identity, path.clone());
                }
                if there
                    .get(&item.name)
                    .is_some_and(|have| self.is_same(&path, &item, have))
                {
                    if self.settings.stable == Durability::First {
                        self.retry(|| {
                            let done = self.target.synchronise_file(&path);
                            done.about(self.target.name(&path))
                        })?;
                    }
                    self.progress.expect(item.facts.size);
                    self.progress.kept(item.facts.size);
                    self.progress.file();
                } else if item.facts.size <= self.target.most_whole()
                    && !item.facts.is_sparse()
                    // The pipeline continues a partial file of an earlier attempt.
                    && !there.contains_key(&partial_name(&item.name))
                {
                    self.files += 1;
                    self.copier.put(path, item.facts.size);
                } else {
                    self.files += 1;
                    self.large.push(path);
                }
            }
            EntryKind::Other(what) => {
                self.progress.left_out();
                let left_out = Err(Error::LeftOut(what));
                return left_out.about(self.origin.name(&path));
            }
        }
        Ok(())
    }

    /// Returns whether an existing entry is left as it is. Directories are always entered.
    fn stays(&self, item: &TreeEntry, have: &TreeEntry) -> bool {
        let is_data = matches!(item.kind, EntryKind::File | EntryKind::Link);
        // An entry of another type is not a newer version of the same one.
        let compares = item.kind == have.kind || self.settings.existing == ExistingFiles::Keep;
        is_data && compares && self.settings.existing.stays(&have.facts, &item.facts)
    }

    /// Returns whether an earlier attempt has already copied this file: by size, mode and time, and
    /// by checksums too if written data is to be verified.
    fn is_same(&self, path: &[u8], item: &TreeEntry, have: &TreeEntry) -> bool {
        let alike = self.settings.earlier == EarlierAttempt::Continue
            && have.kind == EntryKind::File
            && have.facts.size == item.facts.size
            && have.facts.modified == item.facts.modified
            && have.facts.mode == item.facts.mode;
        alike
            && (self.settings.verification == Verification::Blocks
                || self.has_same_bytes(path).unwrap_or(false))
    }

    fn has_same_bytes(&self, path: &[u8]) -> Result<bool, Error> {
        let (one, other) = (self.origin.open(path)?, self.target.open(path)?);
        let (block, size) = (one.block().min(other.block()), one.facts().size);
        for segment in segments(size, block) {
            if one.checksums(block, segment)? != other.checksums(block, segment)? {
                return Ok(false);
            }
        }
        Ok(one.unchanged().is_ok() && other.unchanged().is_ok())
    }

    fn move_large(&self, path: &[u8]) -> Result<(), CopyError> {
        retry::retry_file(self.settings, self.progress, |settings, _| {
            let source = self.origin.open(path).about(self.origin.name(path))?;
            let sink = self.target.create(path, settings.earlier);
            let sink = sink.about(self.target.name(path))?;
            pipeline::copy(&*source, &*sink, settings, self.progress)
        })
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

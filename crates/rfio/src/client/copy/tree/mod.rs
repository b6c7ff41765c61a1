//! Directories, with everything in them.
//!
//! The walk is one, whatever the two ends are: an [`Origin`] lists and is read, a [`Target`] is
//! written. Small files travel whole ([`small`]), many ahead, on threads beside the walk; large
//! ones go through the pipeline one by one. Names are dealt with many together, so that none waits
//! for the answer about another. An error stops one file, not the tree. After a lost connection the
//! tree goes on over another one ([`retry`]); if there is none, it stops, with one message.
//!
//! What is remembered of a tree is bounded: a directory is listed page by page, what is found is
//! moved before there is too much of it, and a directory is finished when nothing below it is left.

mod local;
mod mark;
mod names;
mod remote;
mod small;
mod standing;
mod window;
mod within;

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use verbena_rfio_protocol::reply::Listing;
use verbena_rfio_protocol::request::List;
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use super::choice::Existing;
use super::directory::{join, split};
use super::failure::{About, CopyError, here, shown_path};
use super::local::partial_name;
use super::pipeline::{self, Facts, Sink, Source};
use super::progress::Progress;
use super::resume::segments;
use super::retry;
use super::{Earlier, Manner, Stable, Verification};
use crate::client::address::Location;
use crate::client::bounds::{self, HELD, ListingBounds};
use crate::client::error::Error;
use crate::client::session::unexpected;

use local::LocalTree;
use mark::Mark;
use names::Names;
use remote::RemoteTree;
use small::{Fetcher, Mover, Storer};

pub use mark::is_begun;
pub(super) use standing::stays;

/// Largest file that travels whole.
const SMALL: u64 = 256 << 10;

/// Files that the walk finds before it waits for their copies; bounds the memory of a large tree.
const BATCH: usize = 8192;

/// Names that something is done to together.
const NAMES: usize = 1024;

/// Where errors go; a tree goes on after them.
pub type OnError<'a> = &'a (dyn Fn(CopyError) + Sync);

/// What a name in a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Directory,
    Link,
    File,
    /// Devices, sockets and FIFOs are not data; which of them it is.
    Other(&'static str),
}

impl Kind {
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

/// The bits of a mode that a copy keeps: the permission bits, and of a directory those for sticky
/// and set-group-ID, which say what becomes of names in it. A file that a copy brings runs with
/// nobody else's rights.
fn kept_bits(mode: u32) -> u32 {
    match Kind::of_mode(mode) {
        Kind::Directory => mode & 0o3777,
        _ => mode & 0o777,
    }
}

/// A name in a directory of a tree.
#[derive(Debug, Clone)]
struct Item {
    name: Vec<u8>,
    kind: Kind,
    facts: Facts,
    /// Tells files of one system apart.
    identity: (u64, u64),
    /// Last change of the inode, nanoseconds since 1970.
    changed: i64,
    links: u64,
}

/// A symbolic link that is to be made.
#[derive(Debug, Clone)]
struct Link {
    at: Vec<u8>,
    text: Vec<u8>,
    /// Last change of the one that it is a copy of, nanoseconds since 1970.
    modified: i64,
}

/// What came of each of several things, in their order; or why nothing could be done to any.
type Each<T> = Result<Vec<Result<T, Error>>, Error>;

/// Part of a directory, from a cookie on, and the next cookie; both are 0 at the ends.
type Page = (Vec<Item>, u64);

/// A tree that is read. Paths are relative to its root, which is the empty one.
trait Origin: Sync {
    fn name(&self, at: &[u8]) -> String;
    fn root(&self) -> Result<Item, Error>;
    /// What a directory below is.
    fn directory(&self, at: &[u8]) -> Result<Item, Error>;
    /// The part of a directory that begins at a cookie.
    fn list(&self, at: &[u8], cookie: u64) -> Result<Page, Error>;
    /// How many directories' first parts are worth asking for together.
    fn together(&self) -> usize;
    /// The first parts of directories.
    fn list_first(&self, directories: &[Vec<u8>]) -> Each<Page>;
    fn read_links(&self, links: &[Vec<u8>]) -> Each<Vec<u8>>;
    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error>;
    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error>;
}

/// A tree that is written.
trait Target: Origin {
    /// Makes directories of these permission bits or finds them there; whether each was made.
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> Each<bool>;
    /// Gives directories their permission bits and times, in this order, and puts their names on
    /// stable storage if that is wanted.
    fn finish_directories(&self, directories: &[(Vec<u8>, Facts)], stable: Stable) -> Each<()>;
    /// Makes symbolic links with the times of those that they are copies of.
    fn make_links(&self, links: &[Link]) -> Each<()>;
    /// Makes hard links of existing and new names.
    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> Each<()>;
    fn create(&self, at: &[u8], earlier: Earlier) -> Result<Box<dyn Sink + '_>, Error>;
    /// Largest file that it takes whole.
    fn most_whole(&self) -> u64;
    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error>;
    /// Puts a file that is there on stable storage.
    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error>;
    /// The same for the name of the tree itself.
    fn synchronise_above(&self) -> Result<(), Error>;
}

/// Copies a directory and everything in it.
pub fn copy_tree(
    from: &Location,
    to: &Location,
    manner: &Manner,
    progress: &Progress,
    on_error: OnError<'_>,
) -> Result<(), CopyError> {
    let origin: Box<dyn Origin + '_> = match from {
        Location::Local(path) => Box::new(LocalTree::named(path, manner).about(shown_path(path))?),
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, manner, progress);
            Box::new(tree.about(address)?)
        }
    };
    let apart = || within::must_be_apart(from, to, &*origin, manner);
    retry::persist(manner, progress, apart)?;
    // The same place again, which an earlier attempt has made.
    let is_ours = || {
        let begun = manner.earlier == Earlier::Continue && is_begun(from, to, manner)?;
        Ok(begun || standing::is_free(to, manner)?)
    };
    let is_ours = retry::persist(manner, progress, is_ours)?;
    let remote = match to {
        Location::Local(_) => None,
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, manner, progress);
            Some((tree.about(address)?, address))
        }
    };
    let set_mark = || {
        let names = remote.as_ref().map(|(tree, at)| tree.names().about(at));
        Mark::set(from, to, names.transpose()?, manner)
    };
    let mark = match is_ours {
        true => retry::persist(manner, progress, set_mark)?,
        false => None,
    };
    let (target, made, target_root): (Box<dyn Target + '_>, _, _) = match (remote, to) {
        (Some((tree, _)), _) => {
            let (made, root) = retry::persist(manner, progress, || {
                let facts = origin.root().about(origin.name(b""))?.facts;
                tree.make_root(facts.mode | 0o700).about(tree.name(b""))
            })?;
            (Box::new(tree), made, root)
        }
        (None, Location::Local(path)) => {
            let (tree, made) = LocalTree::made(path, manner).about(shown_path(path))?;
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
    let mover = Mover::new(&*origin, &*target, manner, progress, &on_error);
    let walk = Walk {
        origin: &*origin,
        target: &*target,
        manner,
        progress,
        on_error: &on_error,
        mover: &mover,
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
    mover.beside(|| walk.run(made || mark.is_some()))?;
    match mark {
        Some(mark) if !has_failed.load(Ordering::Relaxed) => {
            retry::persist(manner, progress, || mark.clear())
        }
        _ => Ok(()),
    }
}

struct Walk<'a> {
    origin: &'a dyn Origin,
    target: &'a dyn Target,
    manner: &'a Manner,
    progress: &'a Progress,
    on_error: OnError<'a>,
    mover: &'a Mover<'a>,
    /// Files that were found since all of them were moved last, and those for the pipeline.
    files: usize,
    large: Vec<Vec<u8>>,
    /// Directories and links that were found and not made yet; links with the times that they get.
    directories: Vec<(Vec<u8>, Facts)>,
    links: Vec<(Vec<u8>, i64)>,
    /// Directories that are still to be entered, the next one last.
    open: Vec<Vec<u8>>,
    /// Directories whose first parts are here, the next one last.
    entered: Vec<(Vec<u8>, Page)>,
    /// Directories that are there and get their attributes when all that is below them is done;
    /// their parents come before them. None: the tree's root, if it was there before.
    unfinished: Vec<(Vec<u8>, Option<Facts>)>,
    /// Further names of files that have several: the first, and the other.
    second_names: Vec<(Vec<u8>, Vec<u8>)>,
    first_names: HashMap<(u64, u64), Vec<u8>>,
    /// Bytes of memory of the names that are come back to, about; and after they were counted last.
    held: usize,
    held_before: usize,
    /// Whether nothing could be done to any of several names, which are not told one by one.
    has_no_session: Cell<bool>,
    /// The target's root, as its system tells it from other directories.
    target_root: (u64, u64),
}

/// Bytes that a name takes beside its own.
const EACH: usize = 64;

impl Walk<'_> {
    fn run(mut self, made_root: bool) -> Result<(), CopyError> {
        let root = self.persist(|| self.origin.root().about(self.origin.name(b"")))?;
        // What the root was before is the user's, if it was there.
        self.unfinished
            .push((Vec::new(), made_root.then_some(root.facts)));
        self.open.push(Vec::new());
        while !self.mover.is_lost() {
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
                self.survive(entered)?;
                if self.held > HELD {
                    return Err(Error::TooMuch(format!(
                        "the names of its directories and hard links need more than {} MiB of \
                         memory; copy it in parts",
                        HELD >> 20
                    )))
                    .about(self.origin.name(b""));
                }
            }
        }
        if self.mover.is_lost() {
            return self.mover.finish().map(drop);
        }
        self.move_and_finish(None)?;
        if self.manner.stable == Stable::First {
            let done =
                self.persist(|| self.target.synchronise_above().about(self.target.name(b"")));
            self.survive(done)?;
        }
        Ok(())
    }

    /// Does something until it is done, or not worth trying again.
    fn persist<T>(&self, act: impl FnMut() -> Result<T, CopyError>) -> Result<T, CopyError> {
        retry::persist(self.manner, self.progress, act)
    }

    /// The same to each of many together; what came of it may be survived.
    fn on_each<I: Clone, T>(
        &self,
        things: &[I],
        name: impl Fn(&I) -> String,
        act: impl Fn(&[I]) -> Each<T>,
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
        let done = retry::persist_with_each(self.manner, self.progress, things, act);
        self.has_no_session.set(done.is_err());
        done
    }

    /// Begins to list the directories that are next.
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
            self.survive(page)?;
        }
        Ok(())
    }

    /// Makes the directories and links that were found; the walk may then enter the directories.
    fn make_found(&mut self) -> Result<(), CopyError> {
        // Until everything is in it, its owner must be able to put it there.
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
            self.survive(made.map(drop))?;
        }
        let found: Vec<_> = std::mem::take(&mut self.links);
        let (names, times): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let name = |at: &Vec<u8>| self.origin.name(at);
        let texts = self.on_each(&names, name, |some| self.origin.read_links(some))?;
        let mut links = Vec::new();
        for ((at, modified), text) in names.into_iter().zip(times).zip(texts) {
            let text = text.map(|text| links.push(Link { at, text, modified }));
            self.survive(text)?;
        }
        let name = |link: &Link| self.target.name(&link.at);
        for made in self.on_each(&links, name, |some| self.target.make_links(some))? {
            self.survive(made)?;
        }
        Ok(())
    }

    /// Takes what is in a directory, of which the first part is here.
    fn enter(&mut self, at: &[u8], first: Page) -> Result<(), CopyError> {
        let there = self.what_is_there(at)?;
        let mut names = Names::default();
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
                    .manner
                    .choice
                    .takes(&path, item.kind == Kind::Directory)
                {
                    continue;
                }
                let done = self.take(path, item, &there);
                self.survive(done)?;
                if self.directories.len() >= NAMES || self.links.len() >= NAMES {
                    self.make_found()?;
                }
            }
            let is_much = self.held > self.held_before + HELD / 16;
            if self.files >= BATCH || is_much {
                self.move_and_finish(Some(at))?;
            }
            names.are_few().about(self.origin.name(at))?;
            if next == 0 || self.held > HELD {
                return Ok(());
            }
            let page = self.persist(|| self.origin.list(at, next).about(self.origin.name(at)));
            (items, next) = page?;
        }
    }

    /// Counts the memory of the names that are come back to.
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

    /// Moves all that was found so far, and finishes the directories below which nothing is left to
    /// be found: those that are neither `within`, whose names are just being taken, nor above what
    /// is open.
    fn move_and_finish(&mut self, within: Option<&[u8]>) -> Result<(), CopyError> {
        self.make_found()?;
        self.files = 0;
        self.large.append(&mut self.mover.finish()?);
        for path in std::mem::take(&mut self.large) {
            let moved = self.move_large(&path);
            self.survive(moved)?;
        }
        for some in std::mem::take(&mut self.second_names).chunks(NAMES) {
            let name = |(_, second): &(Vec<u8>, Vec<u8>)| self.target.name(second);
            for made in self.on_each(some, name, |some| self.target.make_hard_links(some))? {
                if made.is_ok() {
                    self.progress.file();
                }
                self.survive(made)?;
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
        // Innermost first: a change in a directory changes its time.
        let unfinished = std::mem::take(&mut self.unfinished).into_iter();
        let (kept, done) = unfinished.partition(|(at, _)| needed.contains(at));
        self.unfinished = kept;
        let done: Vec<(Vec<u8>, Option<Facts>)> = done;
        // The root stays as it is if it was there.
        let done = done.into_iter().rev();
        let done: Vec<_> = done.filter_map(|(at, facts)| Some((at, facts?))).collect();
        let (stable, name) = (self.manner.stable, |(at, _): &(Vec<u8>, Facts)| {
            self.target.name(at)
        });
        for some in done.chunks(NAMES) {
            let finish = |some: &[_]| self.target.finish_directories(some, stable);
            for done in self.on_each(some, name, finish)? {
                self.survive(done)?;
            }
        }
        self.count_held();
        Ok(())
    }

    /// Reports an error and goes on, unless there is nothing to go on with.
    fn survive(&self, result: Result<(), CopyError>) -> Result<(), CopyError> {
        match result {
            Err(error) if error.is_loss() || self.has_no_session.get() => Err(error),
            Err(error) => {
                (self.on_error)(error);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// What is in a directory of the target, if it matters.
    fn what_is_there(&self, at: &[u8]) -> Result<HashMap<Vec<u8>, Item>, CopyError> {
        if self.manner.earlier == Earlier::Discard && self.manner.existing == Existing::Replace {
            return Ok(HashMap::new());
        }
        let (mut found, mut cookie, mut bytes) = (HashMap::new(), 0, 0);
        loop {
            let page = self.persist(|| self.target.list(at, cookie).about(self.target.name(at)));
            let (items, next) = page?;
            for item in items {
                bytes += 2 * item.name.len() + size_of::<Item>() + 64;
                found.insert(item.name.clone(), item);
            }
            if next == 0 {
                return Ok(found);
            }
            if bytes > HELD {
                return Err(Error::TooMuch(format!(
                    "the names in it need more than {} MiB of memory",
                    HELD >> 20
                )))
                .about(self.target.name(at));
            }
            cookie = next;
        }
    }

    fn take(
        &mut self,
        path: Vec<u8>,
        item: Item,
        there: &HashMap<Vec<u8>, Item>,
    ) -> Result<(), CopyError> {
        if let Some(have) = there.get(&item.name)
            && self.stays(&item, have)
        {
            self.progress.left();
            return Ok(());
        }
        match item.kind {
            Kind::Directory => {
                let is_target = || {
                    let are_one = within::are_one(self.origin, &path, self.target);
                    are_one.about(self.origin.name(&path))
                };
                if item.identity == self.target_root && self.persist(is_target)? {
                    return Err(within::into_itself()).about(self.origin.name(&path));
                }
                self.held += 2 * path.len() + 4 * EACH;
                self.directories.push((path, item.facts));
            }
            Kind::Link => self.links.push((path, item.facts.modified)),
            Kind::File => {
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
                    if self.manner.stable == Stable::First {
                        self.persist(|| {
                            let done = self.target.synchronise_file(&path);
                            done.about(self.target.name(&path))
                        })?;
                    }
                    self.progress.expect(item.facts.size);
                    self.progress.kept(item.facts.size);
                    self.progress.file();
                } else if item.facts.size <= self.target.most_whole()
                    && !item.facts.is_sparse()
                    // A part that an earlier attempt left is the pipeline's to continue.
                    && !there.contains_key(&partial_name(&item.name))
                {
                    self.files += 1;
                    self.mover.put(path, item.facts.size);
                } else {
                    self.files += 1;
                    self.large.push(path);
                }
            }
            Kind::Other(what) => {
                self.progress.left_out();
                let left_out = Err(Error::LeftOut(what));
                return left_out.about(self.origin.name(&path));
            }
        }
        Ok(())
    }

    /// Whether what is there stays as it is. Directories are entered, whoever made them.
    fn stays(&self, item: &Item, have: &Item) -> bool {
        let is_data = matches!(item.kind, Kind::File | Kind::Link);
        // What is of another kind is no newer state of the same.
        let compares = item.kind == have.kind || self.manner.existing == Existing::Keep;
        is_data && compares && self.manner.existing.stays(&have.facts, &item.facts)
    }

    /// Whether an earlier attempt brought this very file: by size and time, and by its bytes if what was written is to be
    /// verified.
    fn is_same(&self, path: &[u8], item: &Item, have: &Item) -> bool {
        let alike = self.manner.earlier == Earlier::Continue
            && have.kind == Kind::File
            && have.facts.size == item.facts.size
            && have.facts.modified == item.facts.modified
            && have.facts.mode == item.facts.mode;
        alike
            && (self.manner.verification == Verification::Blocks
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
        retry::persist_with_file(self.manner, self.progress, |manner, _| {
            let source = self.origin.open(path).about(self.origin.name(path))?;
            let sink = self.target.create(path, manner.earlier);
            let sink = sink.about(self.target.name(path))?;
            pipeline::copy(&*source, &*sink, manner, self.progress)
        })
    }
}

/// Everything in a directory of a service, which `call` asks, within the client's bounds.
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

/// Asks for the part of a directory of a service that begins at a cookie.
fn list_request(path: &Path, cookie: u64) -> Request {
    Request::List(List {
        path: path.clone(),
        cookie,
        count: 4096,
    })
}

/// The part that a reply brings.
fn page_of(reply: Reply) -> Result<Listing, Error> {
    match reply {
        Reply::Listing(listing) => {
            bounds::page_ends(listing.entries.len(), listing.cookie != 0)?;
            Ok(listing)
        }
        other => Err(unexpected(&other)),
    }
}

/// A failure here as an error of a tree.
fn local<T>(result: io::Result<T>) -> Result<T, Error> {
    result.map_err(here)
}

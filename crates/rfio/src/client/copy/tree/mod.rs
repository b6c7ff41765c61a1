//! Directories, with everything in them.
//!
//! The walk is one, whatever the two ends are: an [`Origin`] lists and is read, a [`Target`] is written. Small files travel
//! whole ([`small`]), many ahead; large ones go through the pipeline one by one. An error stops one file, not the tree; a
//! lost connection stops the tree, with one message.

mod local;
mod remote;
mod small;
mod standing;
mod window;

use std::collections::{HashMap, HashSet};
use std::io;

use verbena_rfio_protocol::request::List;
use verbena_rfio_protocol::types::{Entry, Path};
use verbena_rfio_protocol::{Reply, Request};

use super::choice::Existing;
use super::directory::{is_plain_name, join};
use super::failure::{About, CopyError, here};
use super::local::partial_name;
use super::pipeline::{self, Facts, Sink, Source};
use super::progress::Progress;
use super::{Earlier, Manner, Stable, Verification};
use crate::client::address::Location;
use crate::client::error::Error;
use crate::client::session::unexpected;

use local::LocalTree;
use remote::RemoteTree;
use small::{Fetcher, Mover, Storer};

pub(super) use standing::stays;

/// Largest file that travels whole.
const SMALL: u64 = 256 << 10;

/// Directories that are asked for together.
const TOGETHER: usize = 16;

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
    /// Devices, sockets and FIFOs are not data.
    Other,
}

impl Kind {
    fn of_mode(mode: u32) -> Self {
        match mode & libc::S_IFMT {
            libc::S_IFDIR => Self::Directory,
            libc::S_IFLNK => Self::Link,
            libc::S_IFREG => Self::File,
            _ => Self::Other,
        }
    }
}

/// A name in a directory of a tree.
#[derive(Debug, Clone)]
struct Item {
    name: Vec<u8>,
    kind: Kind,
    facts: Facts,
    /// Tells files apart, for hard links.
    identity: (u64, u64),
    links: u64,
}

/// A tree that is read. Paths are relative to its root, which is the empty one.
trait Origin: Sync {
    fn name(&self, at: &[u8]) -> String;
    fn root(&self) -> Result<Item, Error>;
    /// Says which directories will be listed next, in their order.
    fn list_ahead(&self, _directories: &[Vec<u8>]) -> Result<(), Error> {
        Ok(())
    }
    fn list(&self, at: &[u8]) -> Result<Vec<Item>, Error>;
    fn read_links(&self, links: &[Vec<u8>]) -> Vec<Result<Vec<u8>, Error>>;
    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error>;
    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error>;
}

/// A tree that is written. What is done to many names has an outcome for each, and does not wait for one after the other.
trait Target: Origin {
    /// Makes directories of these permission bits or finds them there; whether each was made.
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> Vec<Result<bool, Error>>;
    /// Gives directories their permission bits and times, in this order, and puts their names on stable storage if that is
    /// wanted.
    fn finish_directories(
        &self,
        directories: &[(Vec<u8>, Facts)],
        stable: Stable,
    ) -> Vec<Result<(), Error>>;
    /// Makes symbolic links of names and texts.
    fn make_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> Vec<Result<(), Error>>;
    /// Makes hard links of existing and new names.
    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> Vec<Result<(), Error>>;
    fn create(&self, at: &[u8]) -> Result<Box<dyn Sink + '_>, Error>;
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
        Location::Local(path) => Box::new(LocalTree::named(path, manner).about(path.display())?),
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, manner, progress);
            Box::new(tree.about(address)?)
        }
    };
    let made;
    let target: Box<dyn Target + '_> = match to {
        Location::Local(path) => {
            let (tree, fresh) = LocalTree::made(path, manner).about(path.display())?;
            made = fresh;
            Box::new(tree)
        }
        Location::Remote(address, path) => {
            let tree = RemoteTree::connect(address, path, manner, progress).about(address)?;
            let facts = origin.root().about(origin.name(b""))?.facts;
            let root = tree.make_directories(&[(Vec::new(), facts.mode | 0o700)]);
            made = only(root).about(tree.name(b""))?;
            Box::new(tree)
        }
    };
    let mover = Mover::new(&*origin, &*target, manner, progress, on_error);
    let walk = Walk {
        origin: &*origin,
        target: &*target,
        manner,
        progress,
        on_error,
        mover: &mover,
        large: Vec::new(),
        directories: Vec::new(),
        links: Vec::new(),
        second_names: Vec::new(),
        first_names: HashMap::new(),
    };
    mover.beside(|| walk.run(made))
}

/// The outcome for the only name.
fn only<T>(outcomes: Vec<Result<T, Error>>) -> Result<T, Error> {
    let none = || Err(Error::Dropped("without an answer"));
    outcomes.into_iter().next().unwrap_or_else(none)
}

/// Reports an error and goes on, unless there is nothing to go on with.
fn survive(on_error: OnError<'_>, result: Result<(), CopyError>) -> Result<(), CopyError> {
    match result {
        Err(error) if error.is_loss() => Err(error),
        Err(error) => {
            on_error(error);
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}

/// A file that is to be copied: its path, and what it was when it was listed.
type Wanted = Vec<u8>;

struct Walk<'a> {
    origin: &'a dyn Origin,
    target: &'a dyn Target,
    manner: &'a Manner,
    progress: &'a Progress,
    on_error: OnError<'a>,
    mover: &'a Mover<'a>,
    large: Vec<Wanted>,
    /// Directories and links that were found and not made yet.
    directories: Vec<(Vec<u8>, Facts)>,
    links: Vec<Vec<u8>>,
    /// Further names of files that have several: the first, and the other.
    second_names: Vec<(Vec<u8>, Vec<u8>)>,
    first_names: HashMap<(u64, u64), Vec<u8>>,
}

impl Walk<'_> {
    fn run(mut self, made_root: bool) -> Result<(), CopyError> {
        let root = self.origin.root().about(self.origin.name(b""))?;
        let mut open = vec![Vec::new()];
        let mut finished: Vec<(Vec<u8>, Option<Facts>)> = Vec::new();
        // What the root was before is the user's, if it was there.
        finished.push((Vec::new(), made_root.then_some(root.facts)));
        while !open.is_empty() && !self.mover.is_lost() {
            let entered = open.split_off(open.len().saturating_sub(TOGETHER));
            let asked = self.origin.list_ahead(&entered);
            asked.about(self.origin.name(b""))?;
            for at in &entered {
                let done = self.enter(at);
                self.survive(done)?;
            }
            self.make_found(&mut open, &mut finished)?;
        }
        self.move_small()?;
        for path in std::mem::take(&mut self.large) {
            let moved = self.move_large(&path);
            self.survive(moved)?;
        }
        for some in std::mem::take(&mut self.second_names).chunks(NAMES) {
            let made = self.target.make_hard_links(some);
            for ((_, second), made) in some.iter().zip(made) {
                if made.is_ok() {
                    self.progress.file();
                }
                self.survive(made.about(self.target.name(second)))?;
            }
        }
        // The innermost first: what is done in a directory changes its time. The root stays as it is if it was there.
        let ours = finished.into_iter().rev();
        let ours: Vec<_> = ours.filter_map(|(at, facts)| Some((at, facts?))).collect();
        for some in ours.chunks(NAMES) {
            let done = self.target.finish_directories(some, self.manner.stable);
            for ((at, _), done) in some.iter().zip(done) {
                self.survive(done.about(self.target.name(at)))?;
            }
        }
        if self.manner.stable == Stable::First {
            let done = self.target.synchronise_above();
            self.survive(done.about(self.target.name(b"")))?;
        }
        Ok(())
    }

    /// Takes what is in a directory.
    fn enter(&mut self, at: &[u8]) -> Result<(), CopyError> {
        let items = self.origin.list(at).about(self.origin.name(at))?;
        let there = self.what_is_there(at)?;
        let mut seen = HashSet::new();
        for item in items {
            if let Err(error) = self.is_sound(at, &item.name, &mut seen) {
                (self.on_error)(error);
                continue;
            }
            let path = join(at, &item.name);
            let is_directory = item.kind == Kind::Directory;
            if self.manner.choice.takes(&path, is_directory) {
                let done = self.take(path, item, &there);
                self.survive(done)?;
            }
        }
        Ok(())
    }

    /// Makes the directories and links that were found. Those directories that stand may be entered.
    fn make_found(
        &mut self,
        open: &mut Vec<Vec<u8>>,
        finished: &mut Vec<(Vec<u8>, Option<Facts>)>,
    ) -> Result<(), CopyError> {
        let found = std::mem::take(&mut self.directories);
        // Until everything is in it, its owner must be able to put it there.
        let modes = found.iter();
        let modes: Vec<_> = modes
            .map(|(at, facts)| (at.clone(), facts.mode | 0o700))
            .collect();
        for ((at, facts), made) in found.into_iter().zip(self.target.make_directories(&modes)) {
            let made = made.about(self.target.name(&at)).map(drop);
            if made.is_ok() {
                finished.push((at.clone(), Some(facts)));
                open.push(at);
            }
            self.survive(made)?;
        }
        let found = std::mem::take(&mut self.links);
        for some in found.chunks(NAMES) {
            let mut links = Vec::new();
            for (at, text) in some.iter().zip(self.origin.read_links(some)) {
                let text = text.about(self.origin.name(at));
                let text = text.map(|text| links.push((at.clone(), text)));
                self.survive(text)?;
            }
            let made = self.target.make_links(&links);
            for ((at, _), made) in links.iter().zip(made) {
                self.survive(made.about(self.target.name(at)))?;
            }
        }
        Ok(())
    }

    fn survive(&self, result: Result<(), CopyError>) -> Result<(), CopyError> {
        survive(self.on_error, result)
    }

    /// A name that leads elsewhere, or comes twice, is an attack or a bug.
    fn is_sound(
        &self,
        at: &[u8],
        name: &[u8],
        seen: &mut HashSet<Vec<u8>>,
    ) -> Result<(), CopyError> {
        let what = match (is_plain_name(name), seen.insert(name.to_vec())) {
            (true, true) => return Ok(()),
            (false, _) => "a name that is none",
            (true, false) => "a name twice",
        };
        let shown = String::from_utf8_lossy(name).escape_debug().to_string();
        Err(Error::Protocol(format!("it lists {what}: '{shown}'"))).about(self.origin.name(at))
    }

    /// What is in a directory of the target, if it matters.
    fn what_is_there(&self, at: &[u8]) -> Result<HashMap<Vec<u8>, Item>, CopyError> {
        if self.manner.earlier == Earlier::Discard && self.manner.existing == Existing::Replace {
            return Ok(HashMap::new());
        }
        let items = self.target.list(at).about(self.target.name(at))?;
        Ok(items
            .into_iter()
            .map(|item| (item.name.clone(), item))
            .collect())
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
            Kind::Directory => self.directories.push((path, item.facts)),
            Kind::Link => self.links.push(path),
            Kind::File => {
                if item.links > 1 {
                    if let Some(first) = self.first_names.get(&item.identity) {
                        self.second_names.push((first.clone(), path));
                        return Ok(());
                    }
                    self.first_names.insert(item.identity, path.clone());
                }
                if there
                    .get(&item.name)
                    .is_some_and(|have| self.is_same(&path, &item, have))
                {
                    if self.manner.stable == Stable::First {
                        let done = self.target.synchronise_file(&path);
                        done.about(self.target.name(&path))?;
                    }
                    self.progress.expect(item.facts.size);
                    self.progress.kept(item.facts.size);
                    self.progress.file();
                } else if item.facts.size <= self.target.most_whole()
                    && !item.facts.is_sparse()
                    // A part that an earlier attempt left is the pipeline's to continue.
                    && !there.contains_key(&partial_name(&item.name))
                {
                    self.mover.put(path, item.facts.size);
                } else {
                    self.large.push(path);
                }
            }
            Kind::Other => {}
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
        let same = one.checksums(block, size)? == other.checksums(block, size)?;
        Ok(same && one.unchanged().is_ok() && other.unchanged().is_ok())
    }

    fn move_small(&mut self) -> Result<(), CopyError> {
        self.large.append(&mut self.mover.finish()?);
        Ok(())
    }

    fn move_large(&self, path: &[u8]) -> Result<(), CopyError> {
        let source = self.origin.open(path).about(self.origin.name(path))?;
        let sink = self.target.create(path).about(self.target.name(path))?;
        pipeline::copy(&*source, &*sink, self.manner, self.progress)
    }
}

/// Everything in a directory of a service, which `call` asks.
pub fn list(
    mut call: impl FnMut(&Request) -> Result<Reply, Error>,
    path: &Path,
) -> Result<Vec<Entry>, Error> {
    let (mut entries, mut cookie) = (Vec::new(), 0);
    loop {
        let request = Request::List(List {
            path: path.clone(),
            cookie,
            count: 4096,
        });
        match call(&request)? {
            Reply::Listing(mut listing) => {
                entries.append(&mut listing.entries);
                if listing.cookie == 0 {
                    return Ok(entries);
                }
                cookie = listing.cookie;
            }
            other => return Err(unexpected(&other)),
        }
    }
}

/// A failure here as an error of a tree.
fn local<T>(result: io::Result<T>) -> Result<T, Error> {
    result.map_err(here)
}

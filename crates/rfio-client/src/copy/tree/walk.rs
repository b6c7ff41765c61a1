//! The walk over a tree: lists directories, creates them and links, and passes on the files.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use super::entry::{EntryKind, Link, TreeEntry};
use super::interface::{BatchResult, OnError, Page, SourceTree, TargetTree};
use super::listed_names::ListedNames;
use super::self_copy;
use super::small_files::SmallFileCopier;
use crate::bounds::{self, HELD_NAMES};
use crate::copy::directory::{join, split};
use crate::copy::facts::FileFacts;
use crate::copy::failure::{CopyError, ErrorSubject};
use crate::copy::filter::ExistingFiles;
use crate::copy::local::partial_name;
use crate::copy::pipeline;
use crate::copy::progress::Progress;
use crate::copy::resume::segments;
use crate::copy::retry;
use crate::copy::settings::{CopySettings, Durability, EarlierAttempt, Verification};
use crate::error::Error;

/// Number of files that the walk finds before it waits for their copies; bounds memory use.
const BATCH: usize = 8192;

/// Number of names in one batch of operations.
const NAMES: usize = 1024;

/// Bytes of memory that a name takes in addition to its text.
const EACH: usize = 64;

/// A walk in progress.
pub(super) struct Walk<'a> {
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

impl<'a> Walk<'a> {
    /// Returns a walk that has found nothing yet.
    pub(super) fn new(
        origin: &'a dyn SourceTree,
        target: &'a dyn TargetTree,
        settings: &'a CopySettings,
        progress: &'a Progress,
        on_error: OnError<'a>,
        copier: &'a SmallFileCopier<'a>,
        target_root: (u64, u64),
    ) -> Self {
        Self {
            origin,
            target,
            settings,
            progress,
            on_error,
            copier,
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
        }
    }

    /// Copies the tree except the contents of small files; `created_root` says that its root did
    /// not exist before.
    pub(super) fn run(mut self, created_root: bool) -> Result<(), CopyError> {
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

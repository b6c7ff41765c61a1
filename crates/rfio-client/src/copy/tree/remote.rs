//! A tree on a server.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use verbena_rfio_protocol::checksum;
use verbena_rfio_protocol::request::{
    Fetch, OnPath, OpenFlags, PathMode, PathTimes, Request, Store, StoreCare, TwoPaths,
};
use verbena_rfio_protocol::types::{Attributes, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::super::directory::split;
use super::super::facts::{ExtendedAttributes, FileFacts};
use super::super::pipeline::{Sink, Source};
use super::super::progress::{Progress, Transport};
use super::super::remote::{
    RemoteServer, RemoteSink, RemoteSource, extended_in, set_extended, synchronise_directory,
};
use super::super::settings::{
    CopySettings, Durability, EarlierAttempt, ExtraAttributes, Verification,
};
use super::entry::{EntryKind, Link, TreeEntry, kept_bits};
use super::interface::{
    BatchResult, FetchedFile, Fetcher, Page, SMALL, SmallFile, SourceTree, Storer, TargetTree,
};
use super::listing::{list_request, page_of};
use super::request_window::RequestWindow;
use crate::address::Address;
use crate::connection::{MultiplexedConnection, Operation, PendingOperation};
use crate::error::Error;
use crate::session_pool::PooledSession;

/// Directories that are listed together; their pages are held in memory at the same time.
const TOGETHER: usize = 16;

/// Size limit in bytes of files whose requests are combined with others.
const KEPT: usize = 16 << 10;

/// A tree on a server.
pub struct RemoteTree<'a> {
    there: RemoteServer<'a>,
    root: Path,
    settings: &'a CopySettings,
    /// Session for everything but data.
    names: Mutex<PooledSession>,
    /// Largest payload of a request, in bytes.
    most_payload: u32,
}

impl<'a> RemoteTree<'a> {
    /// Opens the tree at a path of a server.
    ///
    /// # Errors
    /// Returns the errors of connecting.
    pub fn connect(
        address: &'a Address,
        root: &Path,
        settings: &'a CopySettings,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        let there = RemoteServer {
            address,
            options: &settings.options,
            progress,
        };
        let session = there.take(&settings.sessions)?;
        Ok(Self {
            root: root.clone(),
            settings,
            most_payload: session.server_limits().most_payload,
            names: Mutex::new(session),
            there,
        })
    }

    fn path(&self, at: &[u8]) -> Result<Path, Error> {
        let root = self.root.as_bytes();
        let slash: &[u8] = match root.ends_with(b"/") || at.is_empty() {
            true => b"",
            false => b"/",
        };
        Path::new([root, slash, at].concat()).ok_or_else(|| Error::Setup("path too long".into()))
    }

    fn session(&self) -> Result<PooledSession, Error> {
        self.there.take(&self.settings.sessions)
    }

    /// Returns the session for names, a new one if the previous one was lost.
    pub(super) fn names(&self) -> Result<Arc<MultiplexedConnection>, Error> {
        let names = self.names.lock();
        let mut session = names.unwrap_or_else(|poison| poison.into_inner());
        if session.is_broken() {
            *session = self.session()?;
        }
        Ok(Arc::clone(&session))
    }

    fn call(&self, request: Request) -> Result<Reply, Error> {
        self.names()?.call(request)
    }

    fn about(&self, at: &[u8]) -> Result<Attributes, Error> {
        let path = self.path(at)?;
        match self.call(Request::LinkStatus(OnPath { path }))? {
            Reply::LinkStatus(about) => Ok(about.attributes),
            other => Err(Error::unexpected(&other)),
        }
    }

    /// Sends requests without data ahead of their replies; returns the results in the order of the
    /// requests.
    fn on_each(
        &self,
        requests: impl Iterator<Item = Result<Request, Error>>,
    ) -> BatchResult<Reply> {
        let session = self.names()?;
        let (mut window, mut outcomes) = (RequestWindow::default(), Vec::new());
        let mut due: VecDeque<Result<PendingOperation, Error>> = VecDeque::new();
        let mut take = |due: &mut VecDeque<_>, window: &mut RequestWindow| {
            let oldest = due.pop_front();
            window.remove();
            outcomes
                .extend(oldest.map(|pending: Result<PendingOperation, _>| Ok(pending?.reply()?.0)));
        };
        for request in requests {
            while !window.has_room() {
                take(&mut due, &mut window);
            }
            let length = request.as_ref().map_or(0, |request| request.encode().len());
            window.add(length, 0);
            due.push_back(
                request.and_then(|request| {
                    session.begin_batched(Operation::Call(request), Vec::new())
                }),
            );
        }
        while !due.is_empty() {
            take(&mut due, &mut window);
        }
        Ok(outcomes)
    }

    /// Creates the root directory unless it exists, in one round trip. Returns whether it was
    /// created, and its attributes.
    ///
    /// # Errors
    /// Returns the server's error, or that of the connection.
    pub(super) fn make_root(&self, mode: u32) -> Result<(bool, TreeEntry), Error> {
        let path = self.root.clone();
        let make = Request::MakeDirectory(PathMode {
            path: path.clone(),
            mode,
        });
        // The server executes it after the preceding change of names.
        let look = Request::Status(OnPath { path });
        let mut done = self.on_each([Ok(make), Ok(look)].into_iter())?.into_iter();
        match (done.next(), done.next()) {
            (Some(Ok(_)), Some(Ok(Reply::Status(about)))) => {
                Ok((true, item(b"", &about.attributes)))
            }
            (Some(Ok(_)), Some(looked)) => Err(match looked {
                Ok(other) => Error::unexpected(&other),
                Err(error) => error,
            }),
            _ => {
                let made = self.make_directories(&[(Vec::new(), mode)])?.pop();
                let made = made.unwrap_or(Err(Error::Dropped("without an answer")))?;
                Ok((made, self.root()?))
            }
        }
    }

    fn link_request(&self, at: &[u8], text: &[u8]) -> Result<Request, Error> {
        let to = self.path(at)?;
        let from = Path::new(text).ok_or_else(|| Error::Setup("link too long".into()))?;
        Ok(Request::MakeLink(TwoPaths { from, to }))
    }

    fn hard_link_request(&self, existing: &[u8], at: &[u8]) -> Result<Request, Error> {
        let (from, to) = (self.path(existing)?, self.path(at)?);
        Ok(Request::MakeHardLink(TwoPaths { from, to }))
    }

    /// Creates a symbolic link in place of an existing file.
    fn replace_by_link(&self, link: &Link) -> Result<(), Error> {
        let there = self.read_links(std::slice::from_ref(&link.at))?.pop();
        if there.is_some_and(|there| there.is_ok_and(|there| there == link.text)) {
            return Ok(());
        }
        let path = self.path(&link.at)?;
        self.call(Request::Unlink(OnPath { path }))?;
        let request = self.link_request(&link.at, &link.text)?;
        self.call(request).map(drop)
    }

    /// Creates a hard link in place of an existing file.
    fn replace_by_hard_link(&self, existing: &[u8], at: &[u8]) -> Result<(), Error> {
        let path = self.path(at)?;
        self.call(Request::Unlink(OnPath { path }))?;
        let request = self.hard_link_request(existing, at)?;
        self.call(request).map(drop)
    }

    /// Returns whether the path is the root of an export, which can neither be created nor changed.
    fn is_export(&self, at: &[u8]) -> bool {
        at.is_empty() && self.root.as_bytes().iter().all(|&byte| byte == b'/')
    }
}

/// Returns `false` (not created) if an existing file is a directory, else the error to report. A
/// symbolic link is never accepted as a directory, even if it leads to one.
fn is_directory(mode: u32, error: Error) -> Result<bool, Error> {
    match EntryKind::of_mode(mode) {
        EntryKind::Directory => Ok(false),
        EntryKind::Link => Err(Error::Setup(
            "a symbolic link is in the place of the directory; it is not followed".into(),
        )),
        _ => Err(error),
    }
}

/// Converts attributes into an entry of a tree.
pub fn item(name: &[u8], about: &Attributes) -> TreeEntry {
    TreeEntry {
        name: name.to_vec(),
        kind: EntryKind::of_mode(about.mode),
        facts: FileFacts {
            size: about.size,
            mode: kept_bits(about.mode),
            modified: about.modified,
            allocated: about.blocks.saturating_mul(512),
            extended: Vec::new(),
        },
        identity: (about.device, about.inode),
        changed: about.changed,
        links: about.links,
    }
}

/// Converts a reply into part of a directory and the cookie of the next part.
fn page(reply: Reply) -> Result<Page, Error> {
    let page = page_of(reply)?;
    let entries = page.entries.iter();
    let items = entries.map(|entry| item(entry.name.as_bytes(), &entry.attributes));
    Ok((items.collect(), page.cookie))
}

impl SourceTree for RemoteTree<'_> {
    fn name(&self, at: &[u8]) -> String {
        let shown = self.path(at).unwrap_or_default();
        self.there.address.location(&shown)
    }

    fn root(&self) -> Result<TreeEntry, Error> {
        let path = self.root.clone();
        match self.call(Request::Status(OnPath { path }))? {
            Reply::Status(about) => Ok(item(b"", &about.attributes)),
            other => Err(Error::unexpected(&other)),
        }
    }

    fn directory(&self, at: &[u8]) -> Result<TreeEntry, Error> {
        self.about(at).map(|about| item(b"", &about))
    }

    fn list(&self, at: &[u8], cookie: u64) -> Result<Page, Error> {
        page(self.call(list_request(&self.path(at)?, cookie))?)
    }

    fn together(&self) -> usize {
        TOGETHER
    }

    fn list_first(&self, directories: &[Vec<u8>]) -> BatchResult<Page> {
        let requests = directories.iter();
        let requests = requests.map(|at| Ok(list_request(&self.path(at)?, 0)));
        let replies = self.on_each(requests)?.into_iter();
        Ok(replies.map(|reply| page(reply?)).collect())
    }

    fn read_links(&self, links: &[Vec<u8>]) -> BatchResult<Vec<u8>> {
        let requests = links.iter().map(|at| {
            let path = self.path(at)?;
            Ok(Request::ReadLink(OnPath { path }))
        });
        let text = |outcome: Result<Reply, Error>| match outcome? {
            Reply::Target(target) => Ok(target.path.as_bytes().to_vec()),
            other => Err(Error::unexpected(&other)),
        };
        Ok(self.on_each(requests)?.into_iter().map(text).collect())
    }

    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error> {
        let source = RemoteSource::open(self.there.clone(), &self.path(at)?, self.settings.extras)?;
        Ok(Box::new(source))
    }

    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error> {
        Ok(Box::new(RemoteFetcher {
            tree: self,
            session: self.session()?,
            asked: VecDeque::new(),
            window: RequestWindow::default(),
        }))
    }
}

impl TargetTree for RemoteTree<'_> {
    fn make_directories(&self, directories: &[(Vec<u8>, u32)]) -> BatchResult<bool> {
        let requests = directories.iter().map(|(at, mode)| {
            let (path, mode) = (self.path(at)?, *mode);
            Ok(Request::MakeDirectory(PathMode { path, mode }))
        });
        let made = self.on_each(requests)?;
        let is_there = |error: &Error| error.errno() == Some(libc::EEXIST);
        let there = directories.iter().zip(&made);
        let there = there.filter(|(_, made)| made.as_ref().is_err_and(is_there));
        let looks: Vec<_> = there
            .map(|((at, _), _)| {
                let path = self.path(at)?;
                Ok(Request::LinkStatus(OnPath { path }))
            })
            .collect();
        let mut looks = self.on_each(looks.into_iter())?.into_iter();
        let outcome = |((at, _), made): (&(Vec<u8>, u32), Result<Reply, Error>)| match made {
            Ok(_) => Ok(true),
            // The root of an export cannot be created, but it exists.
            Err(error) if error.errno() == Some(libc::EBUSY) && self.is_export(at) => Ok(false),
            Err(error) if is_there(&error) => match looks.next() {
                Some(Ok(Reply::LinkStatus(about))) => is_directory(about.attributes.mode, error),
                Some(Ok(other)) => Err(Error::unexpected(&other)),
                Some(Err(error)) => Err(error),
                None => Err(error),
            },
            Err(error) => Err(error),
        };
        Ok(directories.iter().zip(made).map(outcome).collect())
    }

    fn finish_directories(
        &self,
        directories: &[(Vec<u8>, FileFacts)],
        stable: Durability,
    ) -> BatchResult<()> {
        let requests = directories.iter().flat_map(|(at, facts)| {
            let mode = kept_bits(libc::S_IFDIR | facts.mode);
            let (accessed, modified) = (facts.modified, facts.modified);
            let change_mode = self.path(at).map(|path| PathMode { path, mode });
            let change_times = self.path(at).map(|path| PathTimes {
                path,
                accessed,
                modified,
            });
            let synchronise = || self.path(at).map(|path| OnPath { path });
            let synchronise = (stable == Durability::First).then(synchronise);
            [
                Some(change_mode.map(Request::ChangeMode)),
                Some(change_times.map(Request::ChangeTimes)),
                synchronise.map(|on| on.map(Request::SynchroniseDirectory)),
            ]
            .into_iter()
            .flatten()
        });
        let each = 2 + usize::from(stable == Durability::First);
        let mut outcomes = self.on_each(requests)?.into_iter();
        let outcome = |_| {
            let mut of_one = Ok(());
            // All replies are consumed; the first error is returned.
            for done in outcomes.by_ref().take(each) {
                of_one = of_one.and(done.map(drop));
            }
            of_one
        };
        Ok(directories.iter().map(outcome).collect())
    }

    fn make_links(&self, links: &[Link]) -> BatchResult<()> {
        let requests = links.iter();
        let requests = requests.map(|link| self.link_request(&link.at, &link.text));
        let mut outcomes = Vec::new();
        for (link, made) in links.iter().zip(self.on_each(requests)?) {
            outcomes.push(match made {
                Err(error) if error.errno() == Some(libc::EEXIST) => self.replace_by_link(link),
                other => other.map(drop),
            });
        }
        let made = links.iter().zip(&mut outcomes);
        let (made, outcomes_of_made): (Vec<_>, Vec<_>) =
            made.filter(|(_, made)| made.is_ok()).unzip();
        let times = made.iter().map(|link| {
            let (accessed, modified) = (link.modified, link.modified);
            let path = self.path(&link.at)?;
            Ok(Request::ChangeTimes(PathTimes {
                path,
                accessed,
                modified,
            }))
        });
        for (outcome, done) in outcomes_of_made.into_iter().zip(self.on_each(times)?) {
            *outcome = done.map(drop);
        }
        Ok(outcomes)
    }

    fn make_hard_links(&self, links: &[(Vec<u8>, Vec<u8>)]) -> BatchResult<()> {
        let requests = links.iter();
        let requests = requests.map(|(existing, at)| self.hard_link_request(existing, at));
        let made = self.on_each(requests)?;
        let mut outcomes = Vec::new();
        for ((existing, at), made) in links.iter().zip(made) {
            outcomes.push(match made {
                Err(error) if error.errno() == Some(libc::EEXIST) => {
                    self.replace_by_hard_link(existing, at)
                }
                other => other.map(drop),
            });
        }
        Ok(outcomes)
    }

    fn create(&self, at: &[u8], earlier: EarlierAttempt) -> Result<Box<dyn Sink + '_>, Error> {
        let path = self.path(at)?;
        let sink = RemoteSink::open(self.there.clone(), &path, earlier)?;
        Ok(Box::new(sink))
    }

    fn most_whole(&self) -> u64 {
        SMALL.min(self.most_payload.into())
    }

    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error> {
        Ok(Box::new(RemoteStorer {
            tree: self,
            session: self.session()?,
            put: VecDeque::new(),
            window: RequestWindow::default(),
        }))
    }

    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error> {
        let file = self.there.open(&self.path(at)?, OpenFlags::READ, 0)?;
        file.synchronise()
    }

    fn synchronise_above(&self) -> Result<(), Error> {
        let names = self.names()?;
        let (parent, _) = split(self.root.as_bytes());
        let parent = Path::new(parent).unwrap_or_default();
        for path in [&self.root, &parent] {
            match synchronise_directory(&names, path) {
                // The directory above several exports belongs to no file system of the server.
                Err(error) if error.status() == Status::errno(libc::EISDIR) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

struct RemoteFetcher<'a> {
    tree: &'a RemoteTree<'a>,
    session: PooledSession,
    /// Tickets for a file, and for its extended attributes if they are copied.
    asked: VecDeque<(PendingOperation, Option<PendingOperation>)>,
    window: RequestWindow,
}

impl Fetcher for RemoteFetcher<'_> {
    fn has_room(&self) -> bool {
        self.window.has_room()
    }

    fn ask(&mut self, at: &[u8], size: u64) -> Result<(), Error> {
        let path = self.tree.path(at)?;
        // A file that has grown is left to the pipeline. No server can make the client hold more
        // bytes than it announced.
        let most = size
            .min(SMALL)
            .min(self.session.server_limits().most_payload.into()) as u32;
        let fetch = Operation::Call(Request::Fetch(Fetch {
            path: path.clone(),
            most,
        }));
        self.tree.there.progress.record_transport(Transport::Stream);
        self.window.add(path.as_bytes().len(), most as usize);
        let memory = vec![0; most as usize];
        let fetch = self.session.begin_batched(fetch, memory)?;
        let extended = match self.tree.settings.extras {
            ExtraAttributes::None => None,
            ExtraAttributes::Extended => {
                let request = Operation::Call(Request::Extended(OnPath { path }));
                Some(self.session.begin_batched(request, Vec::new())?)
            }
        };
        self.asked.push_back((fetch, extended));
        Ok(())
    }

    fn take(&mut self) -> Result<FetchedFile, Error> {
        let Some((fetch, extended)) = self.asked.pop_front() else {
            return Err(Error::Setup("no file was asked for".into()));
        };
        self.window.remove();
        let fetched = fetch.reply();
        let extended = extended.map(|pending| extended_in(pending.reply()?.0));
        let (reply, bytes) = fetched?;
        let Reply::Fetched(fetched) = reply else {
            return Err(Error::unexpected(&reply));
        };
        if !fetched.whole {
            return Ok(FetchedFile::ForThePipeline);
        }
        let found = checksum::crc32c(&bytes);
        if found != fetched.checksum {
            return Err(Error::Damaged {
                offset: 0,
                expected: fetched.checksum,
                found,
            });
        }
        Ok(FetchedFile::SmallFile(SmallFile {
            bytes,
            checksum: fetched.checksum,
            mode: fetched.attributes.mode & 0o777,
            modified: fetched.attributes.modified,
            extended: extended.transpose()?.unwrap_or_default(),
        }))
    }
}

struct RemoteStorer<'a> {
    tree: &'a RemoteTree<'a>,
    session: PooledSession,
    put: VecDeque<(Path, ExtendedAttributes, PendingOperation)>,
    window: RequestWindow,
}

impl Storer for RemoteStorer<'_> {
    fn has_room(&self) -> bool {
        self.window.has_room()
    }

    fn put(&mut self, at: &[u8], whole: SmallFile) -> Result<(), Error> {
        let path = self.tree.path(at)?;
        let mut care = 0;
        if self.tree.settings.stable == Durability::First {
            care |= StoreCare::STABLE;
        }
        if self.tree.settings.verification == Verification::Written {
            care |= StoreCare::READ_BACK;
        }
        let request = Request::Store(Store {
            path: path.clone(),
            mode: whole.mode,
            modified: whole.modified,
            checksum: whole.checksum,
            care,
        });
        self.tree.there.progress.record_transport(Transport::Stream);
        let (store, length) = (Operation::Call(request), whole.bytes.len());
        // Small data is kept until the reply arrives; larger data is sent at once, so that it need
        // not be kept.
        let (pending, kept) = match length > KEPT {
            true => (self.session.begin_borrowed(store, &whole.bytes)?, 0),
            false => {
                let pending = self.session.begin_batched(store, whole.bytes)?;
                (pending, length)
            }
        };
        // An error reply may name the file.
        self.window.add(2 * path.as_bytes().len(), kept);
        self.put.push_back((path, whole.extended, pending));
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let Some((path, extended, pending)) = self.put.pop_front() else {
            return Err(Error::Setup("no file was put".into()));
        };
        self.window.remove();
        pending.reply()?;
        if extended.is_empty() {
            return Ok(());
        }
        set_extended(&self.tree.names()?, &path, &extended)
    }
}

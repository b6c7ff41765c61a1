//! A tree on a service.

use std::sync::{Mutex, MutexGuard};

use verbena_rfio_protocol::request::{
    Fetch, OnPath, OpenFlags, PathMode, PathTimes, Request, Store, StoreCare, TwoPaths,
};
use verbena_rfio_protocol::types::{Attributes, Path};
use verbena_rfio_protocol::{Reply, Status};

use super::super::directory::split;
use super::super::pipeline::{ExtendedAttributes, Facts, Sink, Source};
use super::super::progress::{Progress, Route};
use super::super::remote::{
    RemoteSink, RemoteSource, There, extended_of, set_extended, synchronise_directory,
};
use super::super::{Earlier, Extras, Manner, Stable, Verification};
use super::small::{Fetched, Fetcher, Storer, Whole};
use super::{Item, Kind, Origin, SMALL, Target, kept_bits, list_page};
use crate::checksum;
use crate::client::address::Address;
use crate::client::error::Error;
use crate::client::file::RemoteFile;
use crate::client::session::{Session, unexpected};

/// Small files under way on one session.
const AHEAD: usize = 64;

/// The tree.
pub struct RemoteTree<'a> {
    there: There<'a>,
    root: Path,
    manner: &'a Manner,
    /// For everything but data.
    names: Mutex<Session>,
    /// Largest payload of a request.
    most_payload: u32,
}

impl<'a> RemoteTree<'a> {
    /// The tree at a path of a service.
    pub fn connect(
        address: &'a Address,
        root: &Path,
        manner: &'a Manner,
        progress: &'a Progress,
    ) -> Result<Self, Error> {
        let there = There {
            address,
            options: &manner.options,
            progress,
        };
        let session = there.session()?;
        Ok(Self {
            root: root.clone(),
            manner,
            most_payload: session.terms().most_payload,
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

    /// The session for names; another one if it was lost.
    fn session(&self) -> Result<MutexGuard<'_, Session>, Error> {
        let names = self.names.lock();
        let mut session = names.unwrap_or_else(|poison| poison.into_inner());
        if session.is_broken() {
            *session = self.there.session()?;
        }
        Ok(session)
    }

    fn call(&self, request: &Request) -> Result<Reply, Error> {
        self.session()?.call(request)
    }

    fn about(&self, at: &[u8]) -> Result<Attributes, Error> {
        let request = Request::LinkStatus(OnPath {
            path: self.path(at)?,
        });
        match self.call(&request)? {
            Reply::LinkStatus(about) => Ok(about.attributes),
            other => Err(unexpected(&other)),
        }
    }

    /// Whether the path is that of an export, which can neither be made nor changed.
    fn is_export(&self, at: &[u8]) -> bool {
        at.is_empty() && self.root.as_bytes().iter().all(|&byte| byte == b'/')
    }
}

/// A name in a directory.
pub fn item(name: &[u8], about: &Attributes) -> Item {
    Item {
        name: name.to_vec(),
        kind: Kind::of_mode(about.mode),
        facts: Facts {
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

impl Origin for RemoteTree<'_> {
    fn name(&self, at: &[u8]) -> String {
        let shown = self.path(at).unwrap_or_default();
        format!("{}{shown}", self.there.address)
    }

    fn root(&self) -> Result<Item, Error> {
        let path = self.root.clone();
        match self.call(&Request::Status(OnPath { path }))? {
            Reply::Status(about) => Ok(item(b"", &about.attributes)),
            other => Err(unexpected(&other)),
        }
    }

    fn directory(&self, at: &[u8]) -> Result<Item, Error> {
        self.about(at).map(|about| item(b"", &about))
    }

    fn list(&self, at: &[u8], cookie: u64) -> Result<(Vec<Item>, u64), Error> {
        let page = list_page(|request| self.call(request), &self.path(at)?, cookie)?;
        let entries = page.entries.iter();
        let items = entries.map(|entry| item(entry.name.as_bytes(), &entry.attributes));
        Ok((items.collect(), page.cookie))
    }

    fn read_link(&self, at: &[u8]) -> Result<Vec<u8>, Error> {
        let path = self.path(at)?;
        match self.call(&Request::ReadLink(OnPath { path }))? {
            Reply::Target(target) => Ok(target.path.as_bytes().to_vec()),
            other => Err(unexpected(&other)),
        }
    }

    fn open(&self, at: &[u8]) -> Result<Box<dyn Source + '_>, Error> {
        let source = RemoteSource::open(self.there.clone(), &self.path(at)?, self.manner.extras)?;
        Ok(Box::new(source))
    }

    fn fetcher(&self) -> Result<Box<dyn Fetcher + '_>, Error> {
        self.there.progress.went(Route::Stream);
        Ok(Box::new(RemoteFetcher {
            tree: self,
            session: self.there.session()?,
            asked: std::collections::VecDeque::new(),
            landing: vec![0; SMALL as usize],
        }))
    }
}

impl Target for RemoteTree<'_> {
    fn make_directory(&self, at: &[u8], mode: u32) -> Result<bool, Error> {
        let path = self.path(at)?;
        match self.call(&Request::MakeDirectory(PathMode { path, mode })) {
            Ok(_) => Ok(true),
            // The root of an export cannot be made, and is there.
            Err(error) if error.errno() == Some(libc::EBUSY) && self.is_export(at) => Ok(false),
            Err(error) if error.errno() == Some(libc::EEXIST) => {
                // A link is not a directory here, wherever it leads.
                match Kind::of_mode(self.about(at)?.mode) {
                    Kind::Directory => Ok(false),
                    Kind::Link => Err(Error::Setup(
                        "a symbolic link stands where a directory is to be; it is not followed"
                            .into(),
                    )),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    fn finish_directory(&self, at: &[u8], facts: &Facts, stable: Stable) -> Result<(), Error> {
        let path = self.path(at)?;
        self.call(&Request::ChangeMode(PathMode {
            path: path.clone(),
            mode: kept_bits(libc::S_IFDIR | facts.mode),
        }))?;
        self.call(&Request::ChangeTimes(PathTimes {
            path: path.clone(),
            accessed: facts.modified,
            modified: facts.modified,
        }))?;
        match stable {
            Stable::First => synchronise_directory(&mut *self.session()?, &path),
            Stable::Later => Ok(()),
        }
    }

    fn make_link(&self, at: &[u8], text: &[u8], modified: i64) -> Result<(), Error> {
        let to = self.path(at)?;
        let times = Request::ChangeTimes(PathTimes {
            path: to.clone(),
            accessed: modified,
            modified,
        });
        let from = Path::new(text).ok_or_else(|| Error::Setup("link too long".into()))?;
        let request = Request::MakeLink(TwoPaths {
            from,
            to: to.clone(),
        });
        match self.call(&request) {
            Err(error) if error.errno() == Some(libc::EEXIST) => {
                if !self.read_link(at).is_ok_and(|there| there == text) {
                    self.call(&Request::Unlink(OnPath { path: to }))?;
                    self.call(&request)?;
                }
            }
            other => drop(other?),
        }
        self.call(&times).map(|_| ())
    }

    fn make_hard_link(&self, existing: &[u8], at: &[u8]) -> Result<(), Error> {
        let to = self.path(at)?;
        let request = Request::MakeHardLink(TwoPaths {
            from: self.path(existing)?,
            to: to.clone(),
        });
        match self.call(&request) {
            Err(error) if error.errno() == Some(libc::EEXIST) => {
                self.call(&Request::Unlink(OnPath { path: to }))?;
                self.call(&request).map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    fn create(&self, at: &[u8], earlier: Earlier) -> Result<Box<dyn Sink + '_>, Error> {
        let path = self.path(at)?;
        let sink = RemoteSink::open(self.there.clone(), &path, earlier)?;
        Ok(Box::new(sink))
    }

    fn most_whole(&self) -> u64 {
        SMALL.min(self.most_payload.into())
    }

    fn storer(&self) -> Result<Box<dyn Storer + '_>, Error> {
        self.there.progress.went(Route::Stream);
        Ok(Box::new(RemoteStorer {
            tree: self,
            session: self.there.session()?,
            put: std::collections::VecDeque::new(),
        }))
    }

    fn synchronise_file(&self, at: &[u8]) -> Result<(), Error> {
        let session = self.there.connect()?;
        RemoteFile::open(&session, &self.path(at)?, OpenFlags::READ, 0)?.synchronise()
    }

    fn synchronise_above(&self) -> Result<(), Error> {
        let mut session = self.session()?;
        let (parent, _) = split(self.root.as_bytes());
        let parent = Path::new(parent).unwrap_or_default();
        for path in [&self.root, &parent] {
            match synchronise_directory(&mut session, path) {
                // The directory above several exports is none of the server's file systems.
                Err(error) if error.status() == Status::errno(libc::EISDIR) => {}
                other => other?,
            }
        }
        Ok(())
    }
}

struct RemoteFetcher<'a> {
    tree: &'a RemoteTree<'a>,
    session: Session,
    asked: std::collections::VecDeque<Path>,
    /// Where the next file comes, of the largest size.
    landing: Vec<u8>,
}

impl Fetcher for RemoteFetcher<'_> {
    fn most_ahead(&self) -> usize {
        match self.tree.manner.extras {
            // Each needs a request of its own besides, between the others.
            Extras::Extended => 1,
            Extras::None => AHEAD.min(self.session.terms().most_requests as usize),
        }
    }

    fn ask(&mut self, at: &[u8]) -> Result<(), Error> {
        let path = self.tree.path(at)?;
        let most = (SMALL as u32).min(self.session.terms().most_payload);
        let request = Request::Fetch(Fetch {
            path: path.clone(),
            most,
        });
        self.session.send_with_others(&request, &[])?;
        self.asked.push_back(path);
        Ok(())
    }

    fn take(&mut self) -> Result<Fetched, Error> {
        let path = self.asked.pop_front().unwrap_or_default();
        let (reply, length) = self.session.receive(&mut self.landing)?;
        let Reply::Fetched(fetched) = reply else {
            return Err(unexpected(&reply));
        };
        if !fetched.whole {
            return Ok(Fetched::ForThePipeline);
        }
        let bytes = self.landing[..length].to_vec();
        let found = checksum::crc32c(&bytes);
        if found != fetched.checksum {
            return Err(Error::Damaged {
                offset: 0,
                expected: fetched.checksum,
                found,
            });
        }
        Ok(Fetched::Whole(Whole {
            bytes,
            checksum: fetched.checksum,
            mode: fetched.attributes.mode & 0o777,
            modified: fetched.attributes.modified,
            extended: match self.tree.manner.extras {
                Extras::Extended => extended_of(&mut self.session, &path)?,
                Extras::None => Vec::new(),
            },
        }))
    }
}

struct RemoteStorer<'a> {
    tree: &'a RemoteTree<'a>,
    session: Session,
    put: std::collections::VecDeque<(Path, ExtendedAttributes)>,
}

impl Storer for RemoteStorer<'_> {
    fn most_ahead(&self) -> usize {
        match self.tree.manner.extras {
            Extras::Extended => 1,
            Extras::None => AHEAD.min(self.session.terms().most_requests as usize),
        }
    }

    fn put(&mut self, at: &[u8], whole: Whole) -> Result<(), Error> {
        let path = self.tree.path(at)?;
        let mut care = 0;
        if self.tree.manner.stable == Stable::First {
            care |= StoreCare::STABLE;
        }
        if self.tree.manner.verification == Verification::Written {
            care |= StoreCare::READ_BACK;
        }
        let request = Request::Store(Store {
            path: path.clone(),
            mode: whole.mode,
            modified: whole.modified,
            checksum: whole.checksum,
            care,
        });
        self.session.send_with_others(&request, &whole.bytes)?;
        self.put.push_back((path, whole.extended));
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let (path, extended) = self.put.pop_front().unwrap_or_default();
        self.session.receive(&mut [])?;
        set_extended(&mut self.session, &path, &extended)
    }
}

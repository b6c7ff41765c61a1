//! Small files, whole: their cost is the latency of a request, and that is hidden by many requests ahead on each of
//! several sessions.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::failure::{About, CopyError};
use super::super::pipeline::ExtendedAttributes;
use super::{Origin, Target, Walk};
use crate::client::error::Error;

/// A small file, with its attributes.
#[derive(Debug)]
pub struct Whole {
    /// The data.
    pub bytes: Vec<u8>,
    /// CRC32C of the data as the origin had them.
    pub checksum: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last change, nanoseconds since 1970.
    pub modified: i64,
    /// Extended attributes, if they are copied.
    pub extended: ExtendedAttributes,
}

/// What came of the wish for a small file.
#[derive(Debug)]
pub enum Fetched {
    /// The file, of one state.
    Whole(Whole),
    /// It grew or is being written: the pipeline can wait for it.
    ForThePipeline,
}

/// Brings small files, in the order in which they were asked for.
pub trait Fetcher: Send {
    /// Files that may be asked for before the first is taken.
    fn most_ahead(&self) -> usize;
    /// Asks for one.
    fn ask(&mut self, at: &[u8]) -> Result<(), Error>;
    /// The oldest that was asked for.
    fn take(&mut self) -> Result<Fetched, Error>;
}

/// Takes small files.
pub trait Storer: Send {
    /// Files that may be put before the first outcome is taken.
    fn most_ahead(&self) -> usize;
    /// Puts one.
    fn put(&mut self, at: &[u8], whole: Whole) -> Result<(), Error>;
    /// The outcome of the oldest that was put.
    fn take(&mut self) -> Result<(), Error>;
}

/// A file of a tree, for messages: only if there is one is its name made up.
struct Named<'a>(&'a dyn Origin, &'a [u8]);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.name(self.1))
    }
}

/// Copies small files; those that the pipeline has to copy. Fails only if the connection is lost.
pub(super) fn copy(
    origin: &dyn Origin,
    target: &dyn Target,
    wanted: &[Vec<u8>],
    walk: &Walk<'_>,
) -> Result<Vec<Vec<u8>>, CopyError> {
    let shared = Shared {
        origin,
        target,
        wanted,
        walk,
        next: AtomicUsize::new(0),
        others: Mutex::default(),
        loss: Mutex::default(),
    };
    let lanes = walk.manner.parallel.clamp(1, wanted.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                if let Err(error) = shared.run() {
                    shared.loss(error);
                }
            });
        }
    });
    match shared
        .loss
        .into_inner()
        .unwrap_or_else(|poison| poison.into_inner())
    {
        Some(error) => Err(error),
        None => Ok(shared
            .others
            .into_inner()
            .unwrap_or_else(|poison| poison.into_inner())),
    }
}

struct Shared<'a> {
    origin: &'a dyn Origin,
    target: &'a dyn Target,
    wanted: &'a [Vec<u8>],
    walk: &'a Walk<'a>,
    next: AtomicUsize,
    others: Mutex<Vec<Vec<u8>>>,
    loss: Mutex<Option<CopyError>>,
}

impl Shared<'_> {
    /// Notes that the connection is lost. One message says so, however many files and lanes there are.
    fn loss(&self, error: CopyError) {
        self.next.store(self.wanted.len(), Ordering::Relaxed);
        let mut loss = self
            .loss
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        loss.get_or_insert(error);
    }

    fn next(&self) -> Option<&Vec<u8>> {
        self.wanted.get(self.next.fetch_add(1, Ordering::Relaxed))
    }

    fn run(&self) -> Result<(), CopyError> {
        let mut fetcher = self.origin.fetcher().about(self.origin.name(b""))?;
        let mut storer = self.target.storer().about(self.target.name(b""))?;
        let (mut asked, mut put) = (VecDeque::new(), VecDeque::new());
        loop {
            // Half of them at a time, both ways: what is asked for together travels together.
            if asked.len() <= fetcher.most_ahead() / 2 {
                while asked.len() < fetcher.most_ahead()
                    && let Some(at) = self.next()
                {
                    match fetcher.ask(at).about(Named(self.origin, at)) {
                        Ok(()) => asked.push_back(at),
                        Err(error) => self.walk.survive(Err(error))?,
                    }
                }
            }
            let Some(at) = asked.pop_front() else { break };
            let fetched = fetcher.take().about(Named(self.origin, at));
            match fetched {
                Ok(Fetched::Whole(whole)) => {
                    if put.len() >= storer.most_ahead() {
                        while put.len() > storer.most_ahead() / 2 {
                            self.settle(&mut *storer, &mut put)?;
                        }
                    }
                    let length = whole.bytes.len() as u64;
                    self.walk.progress.expect(length);
                    self.walk.manner.keep_pace(length);
                    match storer.put(at, whole).about(Named(self.target, at)) {
                        Ok(()) => put.push_back((at, length)),
                        Err(error) => self.walk.survive(Err(error))?,
                    }
                }
                Ok(Fetched::ForThePipeline) => self
                    .others
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner())
                    .push(at.clone()),
                Err(error) => self.walk.survive(Err(error))?,
            }
        }
        while !put.is_empty() {
            self.settle(&mut *storer, &mut put)?;
        }
        Ok(())
    }

    fn settle(
        &self,
        storer: &mut dyn Storer,
        put: &mut VecDeque<(&Vec<u8>, u64)>,
    ) -> Result<(), CopyError> {
        let Some((at, length)) = put.pop_front() else {
            return Ok(());
        };
        let stored = storer.take().about(Named(self.target, at));
        if stored.is_ok() {
            self.walk.progress.moved(length);
            self.walk.progress.file();
        }
        self.walk.survive(stored)
    }
}

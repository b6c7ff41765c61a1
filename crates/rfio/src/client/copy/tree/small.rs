//! Small files, whole: their cost is the latency of a request, and that is hidden by many requests ahead on each of
//! several sessions.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

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

/// What came of small files.
#[derive(Debug, Default)]
pub struct Copied {
    /// Those that the pipeline has to copy.
    pub for_the_pipeline: Vec<Vec<u8>>,
    /// Those whose outcome is not known, if the connection was lost.
    pub left: Vec<Vec<u8>>,
    /// The loss.
    pub loss: Option<CopyError>,
}

/// Copies small files.
pub(super) fn copy(
    origin: &dyn Origin,
    target: &dyn Target,
    wanted: &[Vec<u8>],
    walk: &Walk<'_>,
) -> Copied {
    let shared = Shared {
        origin,
        target,
        wanted,
        walk,
        next: AtomicUsize::new(0),
        ended: wanted.iter().map(|_| AtomicBool::new(false)).collect(),
        copied: Mutex::default(),
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
    let copied = shared.copied.into_inner();
    let mut copied = copied.unwrap_or_else(|poison| poison.into_inner());
    let ended = wanted.iter().zip(&shared.ended);
    let left = ended.filter(|(_, ended)| !ended.load(Ordering::Relaxed));
    copied.left = left.map(|(at, _)| at.clone()).collect();
    copied
}

struct Shared<'a> {
    origin: &'a dyn Origin,
    target: &'a dyn Target,
    wanted: &'a [Vec<u8>],
    walk: &'a Walk<'a>,
    next: AtomicUsize,
    /// Of each whether its outcome is known.
    ended: Vec<AtomicBool>,
    copied: Mutex<Copied>,
}

impl Shared<'_> {
    fn copied(&self) -> MutexGuard<'_, Copied> {
        self.copied
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Notes that the connection is lost. One message says so, however many files and lanes there are.
    fn loss(&self, error: CopyError) {
        self.next.store(self.wanted.len(), Ordering::Relaxed);
        self.copied().loss.get_or_insert(error);
    }

    fn next(&self) -> Option<usize> {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        (next < self.wanted.len()).then_some(next)
    }

    /// A file's outcome is known: it is there, or an error is reported. Fails if the connection is
    /// lost.
    fn ends(&self, number: usize, outcome: Result<(), CopyError>) -> Result<(), CopyError> {
        self.walk.survive(outcome)?;
        self.ended[number].store(true, Ordering::Relaxed);
        Ok(())
    }

    fn run(&self) -> Result<(), CopyError> {
        let mut fetcher = self.origin.fetcher().about(self.origin.name(b""))?;
        let mut storer = self.target.storer().about(self.target.name(b""))?;
        let (mut asked, mut put) = (VecDeque::new(), VecDeque::new());
        loop {
            // Half of them at a time, both ways: what is asked for together travels together.
            if asked.len() <= fetcher.most_ahead() / 2 {
                while asked.len() < fetcher.most_ahead()
                    && let Some(number) = self.next()
                {
                    let at = &self.wanted[number];
                    match fetcher.ask(at).about(Named(self.origin, at)) {
                        Ok(()) => asked.push_back(number),
                        Err(error) => self.ends(number, Err(error))?,
                    }
                }
            }
            let Some(number) = asked.pop_front() else {
                break;
            };
            let at = &self.wanted[number];
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
                        Ok(()) => put.push_back((number, length)),
                        Err(error) => {
                            self.walk.progress.take_back(length, 0);
                            self.ends(number, Err(error))?;
                        }
                    }
                }
                Ok(Fetched::ForThePipeline) => {
                    self.copied().for_the_pipeline.push(at.clone());
                    self.ends(number, Ok(()))?;
                }
                Err(error) => self.ends(number, Err(error))?,
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
        put: &mut VecDeque<(usize, u64)>,
    ) -> Result<(), CopyError> {
        let Some((number, length)) = put.pop_front() else {
            return Ok(());
        };
        let at = &self.wanted[number];
        let stored = storer.take().about(Named(self.target, at));
        match stored {
            Ok(()) => {
                self.walk.progress.moved(length);
                self.walk.progress.file();
            }
            // Counted again when it is tried again.
            Err(_) => self.walk.progress.take_back(length, 0),
        }
        self.ends(number, stored)
    }
}

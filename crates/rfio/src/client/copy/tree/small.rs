//! Small files, whole: their cost is the latency of a request, and that is hidden by many requests ahead on each of
//! several sessions, while the walk still finds the next ones.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::super::Manner;
use super::super::failure::{About, CopyError};
use super::super::pipeline::ExtendedAttributes;
use super::super::progress::Progress;
use super::{OnError, Origin, Target, Wanted, survive};
use crate::client::error::Error;

/// Files that wait for a lane at most: then the walk waits too, which bounds the memory that a large tree takes.
const WAITING: usize = 8192;

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
    /// Whether one more may be asked for before the oldest is taken.
    fn has_room(&self) -> bool;
    /// Asks for one that was found to have so many bytes.
    fn ask(&mut self, at: &[u8], size: u64) -> Result<(), Error>;
    /// The oldest that was asked for.
    fn take(&mut self) -> Result<Fetched, Error>;
}

/// Takes small files.
pub trait Storer: Send {
    /// Whether one more may be put before the outcome of the oldest is taken.
    fn has_room(&self) -> bool;
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

/// Copies small files on threads of its own.
pub(super) struct Mover<'a> {
    pub origin: &'a dyn Origin,
    pub target: &'a dyn Target,
    pub manner: &'a Manner,
    pub progress: &'a Progress,
    pub on_error: OnError<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Wanted, u64)>,
    /// Files that lanes have taken and that are neither copied nor given up yet.
    under_way: usize,
    /// Those that the pipeline has to copy.
    others: Vec<Wanted>,
    /// Why nothing can be copied any more. One message says so, however many files and lanes there are.
    loss: Option<CopyError>,
    is_lost: bool,
    is_closed: bool,
    /// Threads that wait for a change of this.
    asleep: usize,
}

/// Tells the other threads of the end of one, however it ends: nobody waits for one that has panicked.
struct Ending<'a, 'b> {
    mover: &'a Mover<'b>,
    is_the_walk: bool,
}

impl Drop for Ending<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.mover.lock();
        queue.is_closed |= self.is_the_walk;
        queue.is_lost |= std::thread::panicking();
        self.mover.tell(queue);
    }
}

impl<'a> Mover<'a> {
    pub fn new(
        origin: &'a dyn Origin,
        target: &'a dyn Target,
        manner: &'a Manner,
        progress: &'a Progress,
        on_error: OnError<'a>,
    ) -> Self {
        Self {
            origin,
            target,
            manner,
            progress,
            on_error,
            queue: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Runs a walk, and copies meanwhile what it puts here.
    pub fn beside<T>(&self, walk: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for _ in 0..self.manner.parallel.max(1) {
                scope.spawn(|| {
                    let _ending = self.ending(false);
                    if let Err(error) = self.run() {
                        let mut queue = self.lock();
                        queue.is_lost = true;
                        queue.loss.get_or_insert(error);
                    }
                });
            }
            let _ending = self.ending(true);
            walk()
        })
    }

    /// Has a file of so many bytes copied; waits while many wait already.
    pub fn put(&self, at: Wanted, size: u64) {
        let mut queue = self.lock();
        while queue.waiting.len() >= WAITING && !queue.is_lost {
            queue = self.wait(queue);
        }
        queue.waiting.push_back((at, size));
        self.tell(queue);
    }

    /// Whether nothing can be copied any more.
    pub fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Waits until everything that was put is copied or given up; those that the pipeline has to copy. Fails only if the
    /// connection is lost.
    pub fn finish(&self) -> Result<Vec<Wanted>, CopyError> {
        let mut queue = self.lock();
        while !queue.is_lost && (queue.under_way > 0 || !queue.waiting.is_empty()) {
            queue = self.wait(queue);
        }
        match queue.loss.take() {
            Some(error) => Err(error),
            None => Ok(std::mem::take(&mut queue.others)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    fn ending(&self, is_the_walk: bool) -> Ending<'_, 'a> {
        Ending {
            mover: self,
            is_the_walk,
        }
    }

    fn wait<'q>(&self, mut queue: MutexGuard<'q, Queue>) -> MutexGuard<'q, Queue> {
        queue.asleep += 1;
        let mut queue = self
            .changed
            .wait(queue)
            .unwrap_or_else(|poison| poison.into_inner());
        queue.asleep -= 1;
        queue
    }

    /// Lets go of the queue, and tells whoever waits for a change.
    fn tell(&self, queue: MutexGuard<'_, Queue>) {
        let wakes = queue.asleep > 0;
        drop(queue);
        if wakes {
            self.changed.notify_all();
        }
    }

    /// The next file, if one waits.
    fn next(&self) -> Option<(Wanted, u64)> {
        let mut queue = self.lock();
        if queue.is_lost {
            return None;
        }
        let next = queue.waiting.pop_front();
        queue.under_way += usize::from(next.is_some());
        if queue.waiting.len() == WAITING / 2 {
            // The walk may wait for room.
            self.tell(queue);
        }
        next
    }

    /// Waits until a file waits; false if there will be none.
    fn is_to_go_on(&self) -> bool {
        let mut queue = self.lock();
        loop {
            if queue.is_lost || (queue.is_closed && queue.waiting.is_empty()) {
                return false;
            }
            if !queue.waiting.is_empty() {
                return true;
            }
            queue = self.wait(queue);
        }
    }

    /// A file is copied or given up.
    fn done(&self, result: Result<(), CopyError>) -> Result<(), CopyError> {
        let survived = survive(self.on_error, result);
        let mut queue = self.lock();
        queue.under_way -= 1;
        if queue.under_way == 0 {
            self.tell(queue);
        }
        survived
    }

    fn run(&self) -> Result<(), CopyError> {
        // Connected before the first file is found, and a failure is none as long as there is nothing to be copied.
        let (fetcher, storer) = (self.origin.fetcher(), self.target.storer());
        if !self.is_to_go_on() {
            return Ok(());
        }
        let fetcher = fetcher.about(self.origin.name(b""))?;
        let storer = storer.about(self.target.name(b""))?;
        Lane {
            mover: self,
            fetcher,
            storer,
            asked: VecDeque::new(),
            put: VecDeque::new(),
        }
        .run()
    }
}

/// What one thread has under way.
struct Lane<'a> {
    mover: &'a Mover<'a>,
    fetcher: Box<dyn Fetcher + 'a>,
    storer: Box<dyn Storer + 'a>,
    asked: VecDeque<Wanted>,
    put: VecDeque<(Wanted, u64)>,
}

impl Lane<'_> {
    fn run(mut self) -> Result<(), CopyError> {
        loop {
            while self.fetcher.has_room()
                && let Some((at, size)) = self.mover.next()
            {
                let asked = self.fetcher.ask(&at, size);
                match asked.about(Named(self.mover.origin, &at)) {
                    Ok(()) => self.asked.push_back(at),
                    Err(error) => self.mover.done(Err(error))?,
                }
            }
            if let Some(at) = self.asked.pop_front() {
                self.pass_on(at)?;
            } else if !self.put.is_empty() {
                // Before it waits for the walk.
                self.settle()?;
            } else if !self.mover.is_to_go_on() {
                return Ok(());
            }
        }
    }

    /// Takes the oldest file that was asked for, and puts it.
    fn pass_on(&mut self, at: Wanted) -> Result<(), CopyError> {
        let mover = self.mover;
        match self.fetcher.take().about(Named(mover.origin, &at)) {
            Ok(Fetched::Whole(whole)) => {
                while !self.put.is_empty() && !self.storer.has_room() {
                    self.settle()?;
                }
                let length = whole.bytes.len() as u64;
                mover.progress.expect(length);
                mover.manner.keep_pace(length);
                match self.storer.put(&at, whole).about(Named(mover.target, &at)) {
                    Ok(()) => {
                        self.put.push_back((at, length));
                        Ok(())
                    }
                    Err(error) => mover.done(Err(error)),
                }
            }
            Ok(Fetched::ForThePipeline) => {
                mover.lock().others.push(at);
                mover.done(Ok(()))
            }
            Err(error) => mover.done(Err(error)),
        }
    }

    /// Takes the outcome of the oldest file that was put.
    fn settle(&mut self) -> Result<(), CopyError> {
        let Some((at, length)) = self.put.pop_front() else {
            return Ok(());
        };
        let stored = self.storer.take().about(Named(self.mover.target, &at));
        if stored.is_ok() {
            self.mover.progress.moved(length);
            self.mover.progress.file();
        }
        self.mover.done(stored)
    }
}

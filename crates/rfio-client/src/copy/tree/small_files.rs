//! Transfers small files whole. Their cost is the latency of a request, which is hidden by many
//! requests in flight on each of several sessions while the walk still finds further files. Files
//! whose result is unknown when a connection is lost are copied again over another one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::super::Manner;
use super::super::failure::{About, CopyError};
use super::super::pipeline::ExtendedAttributes;
use super::super::progress::Progress;
use super::super::retry::Trouble;
use super::{OnError, Origin, Target};
use crate::error::Error;

/// A small file with its attributes.
#[derive(Debug)]
pub struct Whole {
    /// The data.
    pub bytes: Vec<u8>,
    /// CRC32C of the data at the origin.
    pub checksum: u32,
    /// Permission bits.
    pub mode: u32,
    /// Last change, in nanoseconds since 1970.
    pub modified: i64,
    /// Extended attributes, if they are copied.
    pub extended: ExtendedAttributes,
}

/// Result of a request for a small file.
#[derive(Debug)]
pub enum Fetched {
    /// The whole file, in a consistent state.
    Whole(Whole),
    /// It grew or is being written; the pipeline can wait for it.
    ForThePipeline,
}

/// Fetches small files in the order of the requests.
pub trait Fetcher: Send {
    /// Returns whether another file may be requested before the oldest is taken.
    fn has_room(&self) -> bool;
    /// Requests a file whose size was `size` bytes when it was found.
    fn ask(&mut self, at: &[u8], size: u64) -> Result<(), Error>;
    /// Takes the oldest requested file.
    fn take(&mut self) -> Result<Fetched, Error>;
}

/// Stores small files.
pub trait Storer: Send {
    /// Returns whether another file may be put before the result of the oldest is taken.
    fn has_room(&self) -> bool;
    /// Starts to store a file.
    fn put(&mut self, at: &[u8], whole: Whole) -> Result<(), Error>;
    /// Takes the result of the oldest file that was put.
    fn take(&mut self) -> Result<(), Error>;
}

/// A file of a tree, for messages. Its name is formatted only when an error is reported.
struct Named<'a>(&'a dyn Origin, &'a [u8]);

impl std::fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.name(self.1))
    }
}

/// A file to copy: its path, and its size in bytes when it was found.
type Wanted = (Vec<u8>, u64);

/// Copies small files on its own threads.
pub(super) struct Mover<'a> {
    pub origin: &'a dyn Origin,
    pub target: &'a dyn Target,
    pub manner: &'a Manner,
    pub progress: &'a Progress,
    pub on_error: OnError<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
    losses: Mutex<Losses>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Wanted>,
    /// Files that a thread has taken and whose result is unknown yet.
    under_way: usize,
    /// Number of known results.
    known: u64,
    /// Files that the pipeline has to copy.
    others: Vec<Vec<u8>>,
    /// The error that ended the copy; reported once, however many files and threads there are.
    loss: Option<CopyError>,
    is_lost: bool,
    is_closed: bool,
    /// Threads that wait for a change of the queue.
    asleep: usize,
}

/// Recovery from lost connections. One thread at a time recovers, because the threads mostly lose
/// their connections together.
#[derive(Default)]
struct Losses {
    trouble: Trouble,
    /// Number of known results at the last loss.
    known: u64,
    /// Number of losses recovered from.
    over: u64,
}

/// Reports the end of a thread, even by a panic, so that no other thread waits for it.
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
            losses: Mutex::default(),
        }
    }

    /// Runs a walk while other threads copy the files that it puts. If the walk fails, the
    /// remaining files are not copied.
    pub fn beside(&self, walk: impl FnOnce() -> Result<(), CopyError>) -> Result<(), CopyError> {
        std::thread::scope(|scope| {
            for lane in 0..self.manner.lanes.of_a_tree() {
                scope.spawn(move || {
                    let _ending = self.ending(false);
                    self.run(lane);
                });
            }
            let _ending = self.ending(true);
            let done = walk();
            if done.is_err() {
                self.lock().is_lost = true;
            }
            done
        })
    }

    /// Queues a file of `size` bytes.
    pub fn put(&self, at: Vec<u8>, size: u64) {
        let mut queue = self.lock();
        queue.waiting.push_back((at, size));
        self.tell(queue);
    }

    /// Returns whether the copy has ended because of a loss.
    pub fn is_lost(&self) -> bool {
        self.lock().is_lost
    }

    /// Waits until every queued file is copied or given up; returns those that the pipeline has to
    /// copy.
    ///
    /// # Errors
    /// Returns the loss that ended the copy.
    pub fn finish(&self) -> Result<Vec<Vec<u8>>, CopyError> {
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

    /// Unlocks the queue and wakes the threads that wait for it.
    fn tell(&self, queue: MutexGuard<'_, Queue>) {
        let wakes = queue.asleep > 0;
        drop(queue);
        if wakes {
            self.changed.notify_all();
        }
    }

    /// Takes the next queued file, if there is one.
    fn next(&self) -> Option<Wanted> {
        let mut queue = self.lock();
        if queue.is_lost {
            return None;
        }
        let next = queue.waiting.pop_front();
        queue.under_way += usize::from(next.is_some());
        next
    }

    /// Waits for a queued file; returns false if there will be none.
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

    /// Records that a file was copied or given up.
    fn ended(&self, outcome: Result<(), CopyError>) {
        if let Err(error) = outcome {
            (self.on_error)(error);
        }
        let mut queue = self.lock();
        queue.under_way -= 1;
        queue.known += 1;
        if queue.under_way == 0 {
            self.tell(queue);
        }
    }

    fn run(&self, lane: usize) {
        while self.is_to_go_on() {
            let over = self.losses().over;
            match self.lane(lane) {
                Ok(true) => {}
                Ok(false) => return,
                Err(loss) => self.get_over(loss, over),
            }
        }
    }

    fn losses(&self) -> MutexGuard<'_, Losses> {
        self.losses
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits after a loss, unless another thread has recovered since that attempt began; or ends
    /// the copy.
    fn get_over(&self, loss: CopyError, over_before: u64) {
        let mut losses = self.losses();
        if losses.over != over_before || self.is_lost() {
            return;
        }
        let known = self.lock().known;
        if std::mem::replace(&mut losses.known, known) != known {
            losses.trouble = Trouble::default();
        }
        match losses.trouble.after(loss, self.manner, self.progress) {
            Ok(()) => losses.over += 1,
            Err(loss) => {
                let mut queue = self.lock();
                queue.is_lost = true;
                queue.loss = Some(loss);
                self.tell(queue);
            }
        }
    }

    /// Copies files while some are queued; the sessions are released when none are. Returns false
    /// if an optional session could not be opened.
    fn lane(&self, number: usize) -> Result<bool, CopyError> {
        let lanes = self.manner.lanes;
        let fetcher = lanes.opened(number, self.origin.fetcher());
        let storer = lanes.opened(number, self.target.storer());
        let fetcher = fetcher.about(self.origin.name(b""))?;
        let storer = storer.about(self.target.name(b""))?;
        let (Some(fetcher), Some(storer)) = (fetcher, storer) else {
            return Ok(false);
        };
        let mut lane = Lane {
            mover: self,
            fetcher,
            storer,
            asked: VecDeque::new(),
            put: VecDeque::new(),
            settled: 0,
            is_slow: self.losses().over > 0,
        };
        let done = lane.run();
        lane.give_back();
        done.map(|()| true)
    }
}

/// The files in flight of one thread.
struct Lane<'a> {
    mover: &'a Mover<'a>,
    fetcher: Box<dyn Fetcher + 'a>,
    storer: Box<dyn Storer + 'a>,
    asked: VecDeque<Wanted>,
    /// Files put, and the bytes counted for each.
    put: VecDeque<(Wanted, u64)>,
    /// Number of files known to be stored.
    settled: usize,
    /// Whether at most one file more is in flight than is known to be stored: a connection was lost
    /// before, and this one may not carry many either.
    is_slow: bool,
}

impl Lane<'_> {
    /// Returns whether another file may be put.
    fn has_room(&self) -> bool {
        self.storer.has_room() && !(self.is_slow && self.put.len() > self.settled)
    }

    fn run(&mut self) -> Result<(), CopyError> {
        loop {
            while self.fetcher.has_room()
                && let Some(file) = self.mover.next()
            {
                let asked = self.fetcher.ask(&file.0, file.1);
                match asked.about(Named(self.mover.origin, &file.0)) {
                    Ok(()) => self.asked.push_back(file),
                    failed => self.ends(file, failed)?,
                }
            }
            if let Some(file) = self.asked.pop_front() {
                self.pass_on(file)?;
            } else if !self.put.is_empty() {
                self.settle()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Reports the result of a file. Fails if the connection is lost, in which case the result is
    /// unknown.
    fn ends(&mut self, file: Wanted, outcome: Result<(), CopyError>) -> Result<(), CopyError> {
        match outcome {
            Err(loss) if loss.is_loss() => {
                self.asked.push_front(file);
                Err(loss)
            }
            known => {
                self.mover.ended(known);
                Ok(())
            }
        }
    }

    /// Takes the oldest requested file and puts it.
    fn pass_on(&mut self, file: Wanted) -> Result<(), CopyError> {
        let mover = self.mover;
        match self.fetcher.take().about(Named(mover.origin, &file.0)) {
            Ok(Fetched::Whole(whole)) => {
                while !self.put.is_empty() && !self.has_room() {
                    if let Err(loss) = self.settle() {
                        self.asked.push_front(file);
                        return Err(loss);
                    }
                }
                let length = whole.bytes.len() as u64;
                mover.progress.expect(length);
                mover.manner.keep_pace(length);
                let put = self.storer.put(&file.0, whole);
                match put.about(Named(mover.target, &file.0)) {
                    Ok(()) => {
                        self.put.push_back((file, length));
                        Ok(())
                    }
                    failed => {
                        mover.progress.take_back(length, 0);
                        self.ends(file, failed)
                    }
                }
            }
            Ok(Fetched::ForThePipeline) => {
                mover.lock().others.push(file.0);
                mover.ended(Ok(()));
                Ok(())
            }
            Err(error) => self.ends(file, Err(error)),
        }
    }

    /// Takes the result of the oldest file that was put.
    fn settle(&mut self) -> Result<(), CopyError> {
        let Some((file, length)) = self.put.pop_front() else {
            return Ok(());
        };
        let mover = self.mover;
        let stored = self.storer.take().about(Named(mover.target, &file.0));
        match stored {
            Ok(()) => {
                mover.progress.moved(length);
                mover.progress.file();
                self.settled += 1;
            }
            // A retry counts it again.
            Err(_) => mover.progress.take_back(length, 0),
        }
        self.ends(file, stored)
    }

    /// Queues the files in flight again, for a thread that has a connection.
    fn give_back(&mut self) {
        let mut queue = self.mover.lock();
        queue.under_way -= self.asked.len() + self.put.len();
        queue.waiting.extend(self.asked.drain(..));
        for (file, length) in self.put.drain(..) {
            self.mover.progress.take_back(length, 0);
            queue.waiting.push_back(file);
        }
        self.mover.tell(queue);
    }
}

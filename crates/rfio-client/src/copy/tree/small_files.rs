//! Transfers small files whole. Their cost is the latency of a request, which is hidden by many
//! requests in flight on each of several sessions while the walk still finds further files. Files
//! whose result is unknown when a connection is lost are copied again over another one.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

use super::super::failure::{CopyError, ErrorSubject};
use super::super::progress::Progress;
use super::super::retry::FailureSeries;
use super::super::settings::CopySettings;
use super::interface::{FetchedFile, Fetcher, OnError, SourceTree, Storer, TargetTree};

/// A file of a tree, for messages. Its name is formatted only when an error is reported.
struct TreePath<'a>(&'a dyn SourceTree, &'a [u8]);

impl std::fmt::Display for TreePath<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.name(self.1))
    }
}

/// A file to copy: its path, and its size in bytes when it was found.
type QueuedFile = (Vec<u8>, u64);

/// Copies small files on its own threads.
pub(super) struct SmallFileCopier<'a> {
    pub origin: &'a dyn SourceTree,
    pub target: &'a dyn TargetTree,
    pub settings: &'a CopySettings,
    pub progress: &'a Progress,
    pub on_error: OnError<'a>,
    queue: Mutex<Queue>,
    changed: Condvar,
    recovery: Mutex<Recovery>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<QueuedFile>,
    /// Files that a thread has taken and whose result is unknown yet.
    in_progress: usize,
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
struct Recovery {
    failures: FailureSeries,
    /// Number of known results at the last loss.
    known: u64,
    /// Number of losses recovered from.
    over: u64,
}

/// Reports the end of a thread, even by a panic, so that no other thread waits for it.
struct ThreadEnd<'a, 'b> {
    copier: &'a SmallFileCopier<'b>,
    is_the_walk: bool,
}

impl Drop for ThreadEnd<'_, '_> {
    fn drop(&mut self) {
        let mut queue = self.copier.lock();
        queue.is_closed |= self.is_the_walk;
        queue.is_lost |= std::thread::panicking();
        self.copier.unlock_and_wake(queue);
    }
}

impl<'a> SmallFileCopier<'a> {
    pub fn new(
        origin: &'a dyn SourceTree,
        target: &'a dyn TargetTree,
        settings: &'a CopySettings,
        progress: &'a Progress,
        on_error: OnError<'a>,
    ) -> Self {
        Self {
            origin,
            target,
            settings,
            progress,
            on_error,
            queue: Mutex::default(),
            changed: Condvar::new(),
            recovery: Mutex::default(),
        }
    }

    /// Runs a walk while other threads copy the files that it puts. If the walk fails, the
    /// remaining files are not copied.
    pub fn run_beside_walk(
        &self,
        walk: impl FnOnce() -> Result<(), CopyError>,
    ) -> Result<(), CopyError> {
        std::thread::scope(|scope| {
            for session_number in 0..self.settings.session_count.of_a_tree() {
                scope.spawn(move || {
                    let _end = self.thread_end(false);
                    self.run(session_number);
                });
            }
            let _end = self.thread_end(true);
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
        self.unlock_and_wake(queue);
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
        while !queue.is_lost && (queue.in_progress > 0 || !queue.waiting.is_empty()) {
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

    fn thread_end(&self, is_the_walk: bool) -> ThreadEnd<'_, 'a> {
        ThreadEnd {
            copier: self,
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
    fn unlock_and_wake(&self, queue: MutexGuard<'_, Queue>) {
        let wakes = queue.asleep > 0;
        drop(queue);
        if wakes {
            self.changed.notify_all();
        }
    }

    /// Takes the next queued file, if there is one.
    fn next(&self) -> Option<QueuedFile> {
        let mut queue = self.lock();
        if queue.is_lost {
            return None;
        }
        let next = queue.waiting.pop_front();
        queue.in_progress += usize::from(next.is_some());
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
        queue.in_progress -= 1;
        queue.known += 1;
        if queue.in_progress == 0 {
            self.unlock_and_wake(queue);
        }
    }

    fn run(&self, session_number: usize) {
        while self.is_to_go_on() {
            let over = self.recovery().over;
            match self.copy_queued(session_number) {
                Ok(true) => {}
                Ok(false) => return,
                Err(loss) => self.recover(loss, over),
            }
        }
    }

    fn recovery(&self) -> MutexGuard<'_, Recovery> {
        self.recovery
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }

    /// Waits after a loss, unless another thread has recovered since that attempt began; or ends
    /// the copy.
    fn recover(&self, loss: CopyError, over_before: u64) {
        let mut recovery = self.recovery();
        if recovery.over != over_before || self.is_lost() {
            return;
        }
        let known = self.lock().known;
        if std::mem::replace(&mut recovery.known, known) != known {
            recovery.failures = FailureSeries::default();
        }
        match recovery.failures.after(loss, self.settings, self.progress) {
            Ok(()) => recovery.over += 1,
            Err(loss) => {
                let mut queue = self.lock();
                queue.is_lost = true;
                queue.loss = Some(loss);
                self.unlock_and_wake(queue);
            }
        }
    }

    /// Copies files while some are queued; the sessions are released when none are. Returns false
    /// if an optional session could not be opened.
    fn copy_queued(&self, number: usize) -> Result<bool, CopyError> {
        let session_count = self.settings.session_count;
        let fetcher = session_count.opened(number, self.origin.fetcher());
        let storer = session_count.opened(number, self.target.storer());
        let fetcher = fetcher.about(self.origin.name(b""))?;
        let storer = storer.about(self.target.name(b""))?;
        let (Some(fetcher), Some(storer)) = (fetcher, storer) else {
            return Ok(false);
        };
        let mut thread = CopyThread {
            copier: self,
            fetcher,
            storer,
            asked: VecDeque::new(),
            put: VecDeque::new(),
            stored: 0,
            is_slow: self.recovery().over > 0,
        };
        let done = thread.run();
        thread.requeue();
        done.map(|()| true)
    }
}

/// The files in flight of one thread.
struct CopyThread<'a> {
    copier: &'a SmallFileCopier<'a>,
    fetcher: Box<dyn Fetcher + 'a>,
    storer: Box<dyn Storer + 'a>,
    asked: VecDeque<QueuedFile>,
    /// Files put, and the bytes counted for each.
    put: VecDeque<(QueuedFile, u64)>,
    /// Number of files known to be stored.
    stored: usize,
    /// Whether at most one file more is in flight than is known to be stored: a connection was lost
    /// before, and this one may not carry many either.
    is_slow: bool,
}

impl CopyThread<'_> {
    /// Returns whether another file may be put.
    fn has_room(&self) -> bool {
        self.storer.has_room() && !(self.is_slow && self.put.len() > self.stored)
    }

    fn run(&mut self) -> Result<(), CopyError> {
        loop {
            while self.fetcher.has_room()
                && let Some(file) = self.copier.next()
            {
                let asked = self.fetcher.ask(&file.0, file.1);
                match asked.about(TreePath(self.copier.origin, &file.0)) {
                    Ok(()) => self.asked.push_back(file),
                    failed => self.ends(file, failed)?,
                }
            }
            if let Some(file) = self.asked.pop_front() {
                self.store_oldest(file)?;
            } else if !self.put.is_empty() {
                self.take_stored()?;
            } else {
                return Ok(());
            }
        }
    }

    /// Reports the result of a file. Fails if the connection is lost, in which case the result is
    /// unknown.
    fn ends(&mut self, file: QueuedFile, outcome: Result<(), CopyError>) -> Result<(), CopyError> {
        match outcome {
            Err(loss) if loss.is_loss() => {
                self.asked.push_front(file);
                Err(loss)
            }
            known => {
                self.copier.ended(known);
                Ok(())
            }
        }
    }

    /// Takes the oldest requested file and puts it.
    fn store_oldest(&mut self, file: QueuedFile) -> Result<(), CopyError> {
        let copier = self.copier;
        match self.fetcher.take().about(TreePath(copier.origin, &file.0)) {
            Ok(FetchedFile::SmallFile(whole)) => {
                while !self.put.is_empty() && !self.has_room() {
                    if let Err(loss) = self.take_stored() {
                        self.asked.push_front(file);
                        return Err(loss);
                    }
                }
                let length = whole.bytes.len() as u64;
                copier.progress.expect(length);
                copier.settings.limit_rate(length);
                let put = self.storer.put(&file.0, whole);
                match put.about(TreePath(copier.target, &file.0)) {
                    Ok(()) => {
                        self.put.push_back((file, length));
                        Ok(())
                    }
                    failed => {
                        copier.progress.subtract(length, 0);
                        self.ends(file, failed)
                    }
                }
            }
            Ok(FetchedFile::ForThePipeline) => {
                copier.lock().others.push(file.0);
                copier.ended(Ok(()));
                Ok(())
            }
            Err(error) => self.ends(file, Err(error)),
        }
    }

    /// Takes the result of the oldest file that was put.
    fn take_stored(&mut self) -> Result<(), CopyError> {
        let Some((file, length)) = self.put.pop_front() else {
            return Ok(());
        };
        let copier = self.copier;
        let stored = self.storer.take().about(TreePath(copier.target, &file.0));
        match stored {
            Ok(()) => {
                copier.progress.moved(length);
                copier.progress.file();
                self.stored += 1;
            }
            // A retry counts it again.
            Err(_) => copier.progress.subtract(length, 0),
        }
        self.ends(file, stored)
    }

    /// Queues the files in flight again, for a thread that has a connection.
    fn requeue(&mut self) {
        let mut queue = self.copier.lock();
        queue.in_progress -= self.asked.len() + self.put.len();
        queue.waiting.extend(self.asked.drain(..));
        for (file, length) in self.put.drain(..) {
            self.copier.progress.subtract(length, 0);
            queue.waiting.push_back(file);
        }
        self.copier.unlock_and_wake(queue);
    }
}

//! Parameter studies: every combination of some values, each an independent point.
//!
//! A study is a file ([`Study`]). Its points are numbered in a fixed order, so that parts of it can
//! be computed anywhere: on the threads of one machine, or as the tasks of a Slurm array, each of
//! which takes every n-th point. Results are lines in a directory ([`Store`]), written as they
//! arrive; existing results are not computed again, and the parts of several tasks merge into one
//! table. A directory belongs to one study on one set of profiles.

mod definition;
mod fabric;
mod file;
mod point;
mod slurm;
mod store;
mod suite;

pub use definition::Study;
pub use fabric::FabricSource;
pub use point::{PointError, PointResult, Setting, StudyFigure, StudyPoint};
pub use slurm::Script;
pub use store::{Done, Store, StoreError};

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use verbena_model::profile::Library;
use verbena_model::threads::{limit_threads, register};

/// Share of the points that a task computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Index of the task, from 0.
    pub number: usize,
    /// Number of tasks.
    pub of: usize,
}

impl Part {
    /// The whole study.
    pub const ALL: Part = Part { number: 0, of: 1 };

    fn has(self, point: usize) -> bool {
        point % self.of == self.number
    }
}

impl FromStr for Part {
    type Err = &'static str;

    /// Parses `NUMBER/TASKS`, e.g. `0/16` to `15/16`.
    fn from_str(text: &str) -> Result<Part, &'static str> {
        let part = text.split_once('/').and_then(|(number, of)| {
            Some(Part {
                number: number.parse().ok()?,
                of: of.parse().ok()?,
            })
        });
        part.filter(|part| part.number < part.of)
            .ok_or("expected NUMBER/TASKS with a number from 0 to TASKS - 1, e.g. 0/16")
    }
}

/// Reason why a study stopped.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A point has no figure.
    #[error("point {number}: {source}")]
    Point {
        /// Number of the point.
        number: usize,
        /// The problem.
        source: PointError,
    },
    /// A result cannot be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Study {
    /// Returns the points of a part, with their numbers, that have no results yet.
    ///
    /// # Errors
    ///
    /// Returns [`StoreError`] if results cannot be read.
    pub fn missing(
        &self,
        store: &Store,
        part: Part,
    ) -> Result<Vec<(usize, StudyPoint)>, StoreError> {
        let known: BTreeSet<usize> = store.load()?.iter().map(|done| done.number).collect();
        Ok(self
            .points()
            .enumerate()
            .filter(|(number, _)| part.has(*number) && !known.contains(number))
            .collect())
    }
}

/// Computes the missing points of a part of the study on `threads` threads. After each point calls
/// `told` with the numbers of finished points and of points to compute.
///
/// # Errors
///
/// Returns [`Stopped`] if a point has no figure or a result cannot be read or stored.
pub fn run(
    study: &Study,
    library: &Library,
    store: &Store,
    part: Part,
    threads: usize,
    told: &(impl Fn(usize, usize) + Sync),
) -> Result<(), Stopped> {
    let missing = study.missing(store, part)?;
    let file = Mutex::new(store.append_to(part)?);
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let stopped: Mutex<Option<Stopped>> = Mutex::new(None);
    limit_threads(threads);
    let threads = threads.clamp(1, missing.len().max(1));
    let mut busy: Vec<_> = (0..threads).map(|_| register()).collect();
    std::thread::scope(|scope| {
        for busy in busy.drain(..) {
            let (missing, next, finished) = (&missing, &next, &finished);
            let (file, stopped) = (&file, &stopped);
            scope.spawn(move || {
                let _busy = busy;
                while let Some((number, point)) = missing.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let kept = point
                        .compute(library)
                        .map_err(|source| Stopped::Point {
                            number: *number,
                            source,
                        })
                        .and_then(|result| {
                            let done = Done::new(*number, point, result);
                            let mut file = file.lock().expect("no point panicked");
                            Ok(file.write(&done)?)
                        });
                    if let Err(error) = kept {
                        next.store(missing.len(), Ordering::Relaxed);
                        *stopped.lock().expect("no point panicked") = Some(error);
                        return;
                    }
                    told(finished.fetch_add(1, Ordering::Relaxed) + 1, missing.len());
                }
            });
        }
    });
    match stopped.into_inner().expect("no point panicked") {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

//! Runs benchmarks on a timing model, several at once on threads, and returns the results in the
//! requested order.

use super::options::MeasureOptions;
use crate::Failure;
use crate::interrupt;
use crate::model_target::ModelTarget;
use crate::service;
use crate::service::catalogue::{self, Subject};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbena_fabric::{Error, Result};
use verbena_reproduce::mpi_benchmarks;
use verbena_workloads::modelled::{Modelled, Ran};
use verbena_workloads::{Benchmark, Budget, Record, Sweep, find};

/// Interval at which results and the stop flag are checked.
const LOOK: Duration = Duration::from_millis(20);
/// Time for threads to end after the user's interrupt.
const STOP_GRACE: Duration = Duration::from_millis(300);

/// A benchmark's position and its result.
type Ended = (usize, Result<Ran>);

#[derive(Clone)]
pub struct Runner {
    pub target: ModelTarget,
    pub options: MeasureOptions,
}

impl Runner {
    /// Runs all benchmarks, each on one thread, and passes the results to `take` in order. After an
    /// interrupt, complete results are still passed on, and threads that do not end soon are
    /// abandoned.
    pub fn in_order(
        &self,
        benchmarks: &[&'static Benchmark],
        mut take: impl FnMut(usize, Result<Ran>),
    ) {
        let (receiver, threads) = self.started(benchmarks);
        let mut early = BTreeMap::new();
        let mut due = 0;
        let mut stopped = None;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok((number, ended)) => {
                    early.insert(number, ended);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            while let Some(ended) = early.remove(&due) {
                take(due, ended);
                due += 1;
            }
            if interrupt::is_wanted() {
                let since = *stopped.get_or_insert_with(Instant::now);
                if since.elapsed() > STOP_GRACE {
                    break;
                }
            }
        }
        early
            .into_iter()
            .for_each(|(number, ended)| take(number, ended));
        let left_behind = |thread: &JoinHandle<()>| interrupt::is_wanted() && !thread.is_finished();
        for thread in threads.into_iter().filter(|thread| !left_behind(thread)) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }

    /// Starts the threads; each takes benchmarks until none is left or the user interrupts.
    fn started(&self, benchmarks: &[&'static Benchmark]) -> (Receiver<Ended>, Vec<JoinHandle<()>>) {
        let next = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel();
        let threads = (0..self.options.threads.max(1)).map(|_| {
            let (sender, next) = (sender.clone(), Arc::clone(&next));
            let (runner, benchmarks) = (self.clone(), benchmarks.to_vec());
            std::thread::spawn(move || {
                while !interrupt::is_wanted() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(benchmark) = benchmarks.get(number) else {
                        return;
                    };
                    if sender.send((number, runner.one(benchmark))).is_err() {
                        return;
                    }
                }
            })
        });
        (receiver, threads.collect())
    }

    /// Runs a benchmark that models support; others need real processes and files.
    fn one(&self, benchmark: &'static Benchmark) -> Result<Ran> {
        if let Some(entry) = mpi_benchmarks::find(benchmark.name) {
            return self.message_passing(entry);
        }
        let system = self.target.machine.system();
        if system.is_some_and(|system| !system.has_verbs()) {
            return Err(Error::unsupported(
                format!("{} (needs verbs)", benchmark.name),
                format!("the model {}", self.target.machine.name()),
            ));
        }
        match (find(benchmark.name), catalogue::subject(benchmark)) {
            (Some(_), _) => self.modelled(benchmark).run(),
            (None, Some(Subject::Readers)) => self.file_service(),
            _ => Err(Error::unsupported(
                benchmark.name,
                format!("the model {}", self.target.machine.name()),
            )),
        }
    }

    /// MPI benchmarks need the model of a library, if the system names one.
    fn message_passing(&self, entry: &mpi_benchmarks::Entry) -> Result<Ran> {
        let system = self.target.machine.system();
        let Some(system) = system.filter(|system| system.mpi.is_some()) else {
            return Err(Error::unsupported(
                format!("{} (needs a message-passing library)", entry.benchmark.name),
                format!("the model {}", self.target.machine.name()),
            ));
        };
        let asked = self.options.sizes.as_ref();
        let sizes = asked.map(|sizes| sizes.iter().map(|&size| size as u64).collect());
        let sizes = sizes.unwrap_or_else(|| mpi_benchmarks::sizes(entry, self.options.quick));
        let crews =
            mpi_benchmarks::crews(entry, self.options.processes, self.options.pairs.as_deref());
        for ranks in &crews {
            entry.benchmark.check(*ranks)?;
        }
        let points = mpi_benchmarks::points(entry, (system, self.target.fidelity), &sizes, &crews);
        Ok(Ran {
            records: points
                .into_iter()
                .map(|point| Record::Point(Box::new(point)))
                .collect(),
            span: Duration::ZERO,
        })
    }

    /// The readers of the file service have a separate model.
    fn file_service(&self) -> Result<Ran> {
        let invalid = |failure: Failure| Error::invalid("bench", failure.to_string());
        let library = self.options.profiles.library().map_err(invalid)?;
        let system = self.target.system().map_err(invalid)?;
        let readers = catalogue::readers(self.options.quick);
        let readers = self.options.pairs.as_deref().unwrap_or(readers);
        let points = service::points(&library, system, readers).map_err(invalid)?;
        let record = |point| Record::Point(Box::new(point));
        Ok(Ran {
            records: points.into_iter().map(record).collect(),
            span: Duration::ZERO,
        })
    }

    fn modelled(&self, benchmark: &'static Benchmark) -> Modelled {
        let sweep = match self.options.quick {
            true => Sweep::Coarse,
            false => Sweep::Fine,
        };
        Modelled {
            fidelity: self.target.fidelity,
            options: self.options.for_benchmarks(),
            budget: Budget {
                sweep,
                ..Budget::virtual_time()
            },
            processes: self.options.processes,
            stop: interrupt::flag(),
            ..Modelled::new(self.target.machine.clone(), benchmark)
        }
    }
}

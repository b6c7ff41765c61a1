//! A session in a job of a cluster's launcher: processes persist, and each launch creates new queue
//! pairs and buffers.

use super::job::Job;
use super::local::Ended;
use super::plan::Task;
use super::process::{Standing, open, open_among, run_one};
use super::progress::Progress;
use super::rendezvous::JobRendezvous;
use super::result_sink::ResultSink;
use super::session::{Session, failure};
use crate::Failure;
use std::cell::RefCell;
use std::time::Instant;
use verbena_fabric::verbs::{AT_EXCHANGE, VerbsProcess};
use verbena_fabric::{Error, Fabric, Group, executor};
use verbena_measure::result::{Failure as PointFailure, Parameters};
use verbena_report::schema::Line;
use verbena_workloads::Benchmark;

impl Session<'_> {
    /// Runs all launches of all benchmarks that the job has enough processes for.
    pub(super) fn in_job(
        &self,
        task: &Task,
        job: &Job,
        sink: &mut ResultSink,
    ) -> Result<Ended, Failure> {
        let rendezvous =
            JobRendezvous::of(self.engine.host, job, self.options.exchange.as_deref())?;
        let ended = self.at(&rendezvous, task, job, sink);
        if job.rank == 0 {
            rendezvous.close();
        }
        match ended? {
            Ended::Failed(reason) if job.rank != 0 => Err(Failure::Suite(reason)),
            other => Ok(other),
        }
    }

    fn at(
        &self,
        rendezvous: &JobRendezvous,
        task: &Task,
        job: &Job,
        sink: &mut ResultSink,
    ) -> Result<Ended, Failure> {
        let standing = Standing {
            rank: job.rank,
            size: job.size,
            job: &rendezvous.job,
            rendezvous: &|| rendezvous.find_hub(),
            page: &rendezvous.page(),
        };
        let suite = |error: Error| Failure::Suite(error.to_string());
        let mut fabric = open(self.engine.host, task, standing).map_err(suite)?;
        let trouble = RefCell::new(None);
        let sink = RefCell::new(sink);
        let sink = |line| {
            if let Err(failure) = sink.borrow_mut().take(line) {
                trouble.borrow_mut().get_or_insert(failure);
            }
        };
        let tell = |line| {
            if job.rank == 0 {
                sink(line);
            }
        };
        let launches = self.options.launches();
        let mut fitting = self.benchmarks.clone();
        self.take_unreachable(&mut fitting, false)
            .into_iter()
            .for_each(|one| tell(self.unreachable(one)));
        let lacking = part(&mut fitting, job.size);
        lacking.iter().for_each(|one| tell(too_few(one, job.size)));
        let names = fitting.iter().map(|one| one.name);
        let mut progress = Progress::new(
            names.filter(|_| job.rank == 0),
            launches,
            &self.target.label(),
        );
        let mut ended = Ended::Well;
        let mut given_up = false;
        let started = Instant::now();
        'all: for number in 0..launches {
            match self.fits(&fabric, started, number) {
                Ok(true) => {}
                Ok(false) => break,
                Err(Error::LeftBehind) => {
                    left_behind(job);
                    break;
                }
                Err(error) => {
                    ended = Ended::Failed(reason(&error, job));
                    break;
                }
            }
            for benchmark in fitting.clone() {
                if benchmark.processes.least() > fabric.group().size() {
                    continue;
                }
                progress.begin(benchmark.name);
                match run_one(
                    self.engine.host,
                    &fabric,
                    task,
                    benchmark.name,
                    number,
                    &sink,
                ) {
                    Ok(()) => {}
                    Err(Error::Interrupted) => {
                        ended = Ended::Interrupted;
                        break 'all;
                    }
                    // All processes get the same error and continue.
                    Err(error @ Error::Invalid { .. }) => {
                        tell(failure(benchmark, number, error.to_string()));
                    }
                    Err(Error::LeftBehind) => {
                        left_behind(job);
                        break 'all;
                    }
                    // A hung process costs its part of the measurement; the others agree on the
                    // processes present and continue.
                    Err(error @ Error::PeerLost { .. }) => {
                        given_up = true;
                        tell(failure(benchmark, number, error.to_string()));
                        fabric = match without_the_hung(fabric, task) {
                            Ok(left) => left,
                            Err(error) => {
                                ended = Ended::Failed(reason(&error, job));
                                break 'all;
                            }
                        };
                        let size = fabric.group().size();
                        let lacking = part(&mut fitting, size);
                        lacking.iter().for_each(|one| tell(too_few(one, size)));
                    }
                    Err(error) => {
                        ended = Ended::Failed(reason(&error, job));
                        break 'all;
                    }
                }
                progress.end();
            }
        }
        if given_up && job.rank == 0 {
            eprintln!(
                "verbena: an abandoned process may still hang, and its launcher may wait for it; \
                 `scancel` ends a step, `srun --kill-on-bad-exit` prevents this"
            );
        }
        match trouble.into_inner() {
            Some(failure) => Err(failure),
            None => Ok(ended),
        }
    }

    /// Returns whether another launch fits into the time. All processes follow the first one,
    /// because their clocks differ.
    fn fits(&self, fabric: &VerbsProcess, started: Instant, number: u32) -> Result<bool, Error> {
        let mine = [u8::from(self.is_too_late(started, number))];
        let all = executor::block_on(fabric.group().all_gather(&mine))?;
        Ok(all.first().is_none_or(|first| first[..] != [1]))
    }
}

/// Explains why a job ended. A silent exchange can only be due to process 0, which hosts it.
fn reason(error: &Error, job: &Job) -> String {
    match error {
        Error::Stalled(stalled) if stalled.what == AT_EXCHANGE && job.rank != 0 => format!(
            "process 0, which holds the results, did not answer for {} s: it hangs, or its host \
             is down; earlier results are in its --out directory",
            stalled.waited.as_secs()
        ),
        other => other.to_string(),
    }
}

/// A process that resumes after a hang has no further work; it must not end the others' job by
/// failing.
fn left_behind(job: &Job) {
    eprintln!("verbena: process {}: {}", job.rank, Error::LeftBehind);
}

/// Opens the fabric again among the processes that respond.
fn without_the_hung(fabric: VerbsProcess, task: &Task) -> Result<VerbsProcess, Error> {
    let left = fabric.group().present()?;
    open_among(task, fabric, &left)
}

/// Removes and returns the benchmarks that need more processes.
fn part(benchmarks: &mut Vec<&'static Benchmark>, size: usize) -> Vec<&'static Benchmark> {
    benchmarks
        .extract_if(.., |benchmark| benchmark.processes.least() > size)
        .collect()
}

/// Reports a benchmark that needs more processes than the job has, as unsupported rather than
/// failed.
fn too_few(benchmark: &Benchmark, size: usize) -> Line {
    let least = benchmark.processes.least();
    Line::Failure(PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch: 0,
        parameters: Parameters::new(),
        reason: format!(
            "not applicable: it needs at least {least} processes, but the job has {size}"
        ),
        unsupported: true,
    })
}

//! A session: benchmarks on one target, run by the local launcher or in a cluster job. Records are
//! kept in memory and, if requested, written to a run directory as soon as they exist.

use super::adapter;
use super::environment;
use super::job::Job;
use super::local::{Ended, launch};
use super::options::MeasureOptions;
use super::plan::{Floors, Task};
use super::progress::Progress;
use super::resolved::Resolved;
use super::result_sink::ResultSink;
use crate::Failure;
use crate::engine::Engine;
use crate::external::{Launch, Prepared};
use crate::interrupt;
use crate::progress_line::Bar;
use crate::service::{self, catalogue};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use verbena_measure::clock::Clock;
use verbena_measure::pace::Paces;
use verbena_measure::processors;
use verbena_measure::result::{Failure as PointFailure, Parameters};
use verbena_measure::sample::Sample;
use verbena_report::csv;
use verbena_report::run_directory::{Loaded, POINTS};
use verbena_report::schema::{End, Line, Run, VERSION};
use verbena_workloads::{Benchmark, host};

/// Time to observe a processor for its full speed: longer than a time slice of the scheduler.
const PACE: Duration = Duration::from_millis(30);

/// Number and interval of measurements of the cache line latency: processors of a virtual machine
/// migrate.
const LINE_LOOKS: usize = 9;
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// Sizes in bytes of the copies that give the bound of streams over buffers in rotation.
const IN_TURN: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

fn relaxed() -> (String, String) {
    ("ordering of writes".to_owned(), "relaxed".to_owned())
}

/// Benchmarks on one target.
pub struct Session<'a> {
    pub engine: Engine<'a>,
    pub benchmarks: Vec<&'static Benchmark>,
    pub target: Resolved,
    pub options: &'a MeasureOptions,
    /// The run directory, if requested.
    pub directory: Option<&'a Path>,
    /// The command line, for the record.
    pub command: String,
}

impl Session<'_> {
    /// Runs all benchmarks. In a cluster job, returns `None` in all processes but the first.
    ///
    /// # Errors
    ///
    /// Fails if the environment lacks a requirement, or results cannot be written.
    pub fn run(self) -> Result<Option<Loaded>, Failure> {
        let job = Job::from_environment();
        // Reports missing requirements before anything is measured.
        let mut prepared = match &job {
            None => self
                .engine
                .external
                .prepared(&self.benchmarks, &self.target, self.options)?,
            Some(_) => None,
        };
        let clock = Clock::best();
        let nanos = (clock.name() == "tsc").then_some(clock.nanos_per_tick);
        let first = job.as_ref().is_none_or(|job| job.rank == 0);
        let paces = match job {
            None => Paces::measure(processors::count(), PACE, &clock),
            // All processes of the job start at this time, so all processors are busy.
            Some(_) => Paces::measure(1, PACE, &clock),
        };
        let floors = match first {
            true => {
                let _note = Bar::of_unknown_length("measuring this host's memory");
                floors(paces)
            }
            false => Floors {
                paces,
                ..Floors::default()
            },
        };
        let task = Task::new(self.target.clone(), self.options, nanos, floors);
        let launches = self.options.launches();
        let mut known = environment::describe();
        known.extend(prepared.iter().flat_map(|one| one.described()));
        // tcp and shm are measured beside an adapter with the same options, but these do not apply
        // to them.
        if first && self.target.is_adapter() {
            known.extend(adapter::describe(
                self.engine.host,
                &self.target,
                self.options.gid_index,
            ));
            known.extend(self.options.route.described());
            known.extend(self.options.relaxed_ordering.then(relaxed));
        }
        let run = Run {
            schema: VERSION,
            label: self.options.label_of(self.target.label()),
            fabric: self.target.kind.clone(),
            device: self.target.device().to_owned(),
            command: self.command.clone(),
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            seed: self.options.seed,
            effort: task.effort.clone(),
            launcher: job.as_ref().map_or("local", |job| job.launcher).to_owned(),
            launches,
            clock: environment::clock(&clock),
            environment: known,
            warnings: environment::warnings(&clock, launches),
        };
        let mut sink = ResultSink::open(self.directory.filter(|_| first), run)?;
        let started = Instant::now();
        let outcome = match &job {
            None => self.locally(&task, prepared.as_deref_mut(), &mut sink),
            Some(job) => self.in_job(&task, job, &mut sink),
        };
        // A failure after the user's signal is due to the signal.
        let outcome = match outcome {
            Ok(Ended::Failed(_)) | Err(_) if interrupt::is_wanted() => Ok(Ended::Interrupted),
            other => other,
        };
        if !first {
            return outcome.map(|_| None);
        }
        if matches!(outcome, Ok(Ended::Interrupted)) {
            // Killed processes leave files in the registry that no other process removes.
            self.engine.host.clean_up();
        }
        let launches = sink.loaded.points.iter().map(|point| point.launch + 1);
        let fitted = launches.max().unwrap_or(0);
        let (word, reason) = match &outcome {
            Ok(Ended::Well)
                if self.options.minutes.is_some() && fitted < self.options.launches() =>
            {
                let wanted = self.options.launches();
                let text = format!("{fitted} of {wanted} launches fit into the time limit");
                ("complete", Some(text))
            }
            Ok(Ended::Well) => ("complete", None),
            Ok(Ended::Interrupted) => ("interrupted", None),
            Ok(Ended::Failed(reason)) => ("failed", Some(reason.clone())),
            Err(failure) => ("failed", Some(failure.to_string())),
        };
        let seconds = started.elapsed().as_secs_f64();
        sink.take(Line::End(End {
            outcome: word.to_owned(),
            seconds,
            reason,
        }))?;
        if let Some(directory) = self.directory {
            csv::write(&directory.join(POINTS), &sink.loaded.points)?;
        }
        outcome.map(|_| Some(sink.loaded))
    }

    /// Runs all launches of all benchmarks, each in new processes. Launches alternate between the
    /// benchmarks, so that a disturbance of some seconds does not affect all launches of one (rule
    /// 8).
    fn locally(
        &self,
        task: &Task,
        mut prepared: Option<&mut (dyn Prepared + 'static)>,
        sink: &mut ResultSink,
    ) -> Result<Ended, Failure> {
        interrupt::watch(self.engine.host)?;
        let host = self.engine.host;
        let stop = interrupt::flag();
        let launches = self.options.launches();
        let mut order: Vec<&'static Benchmark> = self.benchmarks.clone();
        for one in self.take_unreachable(&mut order, prepared.is_some()) {
            sink.take(self.unreachable(one))?;
        }
        let mut random = verbena_measure::random::Random::new(task.seed);
        let mut progress = Progress::new(
            order.iter().map(|one| one.name),
            launches,
            &self.target.label(),
        );
        let started = Instant::now();
        for number in 0..launches {
            if self.is_too_late(started, number) {
                break;
            }
            if number > 0 {
                random.shuffle(&mut order);
            }
            for benchmark in &order {
                if interrupt::is_wanted() {
                    return Ok(Ended::Interrupted);
                }
                progress.begin(benchmark.name);
                let mut take = |line| sink.take(line);
                let external = prepared
                    .as_deref_mut()
                    .filter(|_| self.engine.external.starts(benchmark));
                let ended = match (external, catalogue::subject(benchmark)) {
                    (Some(external), _) => {
                        let launch = Launch {
                            task,
                            benchmark,
                            number,
                            processes: self.options.processes,
                            stop: &stop,
                        };
                        external.launch(&launch, &mut take)?
                    }
                    (None, Some(subject)) => {
                        service::launch(host, task, benchmark.name, subject, number, &stop, take)?
                    }
                    (None, None) => {
                        let size = task.processes(benchmark, self.options.processes);
                        launch(host, task, benchmark.name, number, size, &stop, take)?
                    }
                };
                match ended {
                    Ended::Well => {}
                    Ended::Interrupted => return Ok(Ended::Interrupted),
                    Ended::Failed(reason) => sink.take(failure(benchmark, number, reason))?,
                }
                progress.end();
            }
        }
        Ok(Ended::Well)
    }

    /// Returns whether another launch, as long as the average so far, would exceed the time limit.
    pub(super) fn is_too_late(&self, started: Instant, number: u32) -> bool {
        let after = started.elapsed() * (number + 1) / number.max(1);
        number > 0 && self.options.minutes.is_some_and(|limit| after > limit)
    }

    /// Removes and returns the benchmarks that cannot run on the target: external ones without a
    /// prepared launcher, and all others without an adapter.
    pub(super) fn take_unreachable(
        &self,
        benchmarks: &mut Vec<&'static Benchmark>,
        is_prepared: bool,
    ) -> Vec<&'static Benchmark> {
        benchmarks
            .extract_if(.., |benchmark| {
                match self.engine.external.starts(benchmark) {
                    true => !is_prepared,
                    false => !self.target.is_adapter(),
                }
            })
            .collect()
    }

    /// Reports such a benchmark, as unsupported rather than failed.
    pub(super) fn unreachable(&self, benchmark: &Benchmark) -> Line {
        let kind = self.target.kind.as_str();
        let reason = match self.engine.external.starts(benchmark) {
            false => format!("needs an adapter; {kind} supports only mpi.* and app.*"),
            true => "starts mpirun itself; run it outside mpirun and srun".to_owned(),
        };
        Line::Failure(PointFailure {
            benchmark: benchmark.name.to_owned(),
            launch: 0,
            parameters: Parameters::new(),
            reason,
            unsupported: true,
        })
    }
}

/// Reports a failed launch.
pub(super) fn failure(benchmark: &Benchmark, launch: u32, reason: String) -> Line {
    Line::Failure(PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch,
        parameters: Parameters::new(),
        reason,
        unsupported: false,
    })
}

/// Measures the latency floor and the bandwidth bounds of this host's memory. The floor is a
/// median, like the baseline's own figure; for copies the fastest one counts, because other load is
/// not part of a bound.
fn floors(paces: Paces) -> Floors {
    // Also if a launcher has bound this process to one processor.
    let several = processors::at_most() > 1;
    let looks = (0..LINE_LOOKS).filter(|_| several).filter_map(|_| {
        std::thread::sleep(BETWEEN_LOOKS);
        Some(Sample::new(host::cache_line())?.median())
    });
    let latency = Sample::new(looks.collect());
    let copies = (12..=22).step_by(2).filter_map(|power| {
        let size = 1 << power;
        Some((size, Sample::new(host::copy(size))?.max()))
    });
    let in_turn = IN_TURN
        .into_iter()
        .filter_map(|size| Some(Sample::new(host::copy_in_turn(size))?.max()));
    Floors {
        latency: latency.map(|s| s.median()),
        copies: copies.collect(),
        copies_in_turn: in_turn.reduce(f64::max),
        paces,
    }
}

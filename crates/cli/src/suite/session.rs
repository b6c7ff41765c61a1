//! A session: benchmarks on one target, by the local launcher or as a job of a cluster's, into memory and, where asked,
//! a run directory that holds every record as soon as it exists.

use super::books::Books;
use super::environment;
use super::job::Job;
use super::local::{Ended, launch};
use super::meeting::Meeting;
use super::options::MeasureOptions;
use super::plan::{Floors, Task};
use super::process::{Standing, open, run_one};
use super::progress::Progress;
use super::target::Resolved;
use crate::failure::Failure;
use crate::service::{self, catalogue};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use verbena_fabric::verbs::VerbsProcess;
use verbena_fabric::{Fabric, Group, executor};
use verbena_measure::clock::Clock;
use verbena_measure::pace::Paces;
use verbena_measure::processors;
use verbena_measure::result::{Failure as PointFailure, Parameters};
use verbena_measure::sample::Sample;
use verbena_report::csv;
use verbena_report::run_directory::{Loaded, POINTS};
use verbena_report::schema::{End, Line, Run, VERSION};
use verbena_workloads::{Benchmark, host};

/// How long a processor is watched for its full speed: longer than a slice of the system's scheduler.
const PACE: Duration = Duration::from_millis(30);

/// Bytes that are copied at a time for the bound of streams over buffers in turn.
const IN_TURN: [usize; 3] = [4 << 10, 64 << 10, 1 << 20];

/// What to run.
pub struct Session<'a> {
    /// The benchmarks, in order.
    pub benchmarks: Vec<&'static Benchmark>,
    /// On what.
    pub target: Resolved,
    /// How.
    pub options: &'a MeasureOptions,
    /// Where records go.
    pub directory: Option<&'a Path>,
    /// The name of the command, for the record.
    pub command: String,
}

impl Session<'_> {
    /// Runs everything. In a job of a cluster's launcher, `None` in all processes but the first.
    pub fn run(self) -> Result<Option<Loaded>, Failure> {
        let clock = Clock::best();
        let nanos = (clock.name() == "tsc").then_some(clock.nanos_per_tick);
        let job = Job::from_environment();
        let first = job.as_ref().is_none_or(|job| job.rank == 0);
        let paces = match job {
            None => Paces::measure(processors::count(), PACE, &clock),
            // All processes of the job begin at this time, and so all are at work.
            Some(_) => Paces::measure(1, PACE, &clock),
        };
        let floors = match first {
            true => floors(paces),
            false => Floors {
                paces,
                ..Floors::default()
            },
        };
        let task = Task::new(self.target.clone(), self.options, nanos, floors);
        let launches = self.options.launches();
        let run = Run {
            schema: VERSION,
            label: self.target.label(),
            fabric: self.target.kind.clone(),
            device: self.target.device.clone(),
            command: self.command.clone(),
            started: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
            seed: self.options.seed,
            effort: task.effort.clone(),
            launcher: job.as_ref().map_or("local", |job| job.launcher).to_owned(),
            launches,
            clock: environment::clock(&clock),
            environment: environment::describe(),
            warnings: environment::warnings(&clock, launches),
        };
        let mut books = Books::open(self.directory.filter(|_| first), run)?;
        let started = Instant::now();
        let outcome = match &job {
            None => self.locally(&task, &mut books),
            Some(job) => self.in_job(&task, job, &mut books),
        };
        if !first {
            return outcome.map(|_| None);
        }
        let launches = books.loaded.points.iter().map(|point| point.launch + 1);
        let fitted = launches.max().unwrap_or(0);
        let (word, reason) = match &outcome {
            Ok(Ended::Well)
                if self.options.minutes.is_some() && fitted < self.options.launches() =>
            {
                let wanted = self.options.launches();
                let text = format!("{fitted} of {wanted} launches fitted into the time");
                ("complete", Some(text))
            }
            Ok(Ended::Well) => ("complete", None),
            Ok(Ended::Interrupted) => ("interrupted", None),
            Ok(Ended::Failed(reason)) => ("failed", Some(reason.clone())),
            Err(failure) => ("failed", Some(failure.to_string())),
        };
        let seconds = started.elapsed().as_secs_f64();
        books.take(Line::End(End {
            outcome: word.to_owned(),
            seconds,
            reason,
        }))?;
        if let Some(directory) = self.directory {
            csv::write(&directory.join(POINTS), &books.loaded.points)?;
        }
        outcome.map(|_| Some(books.loaded))
    }

    /// All launches of all benchmarks, each in processes of its own. Launches go round over the benchmarks, so that a
    /// disturbance of some seconds does not fall on all launches of one (rule 8).
    fn locally(&self, task: &Task, books: &mut Books) -> Result<Ended, Failure> {
        let stop = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(|source| {
                Failure::System {
                    doing: "catch signals",
                    source,
                }
            })?;
        }
        let launches = self.options.launches();
        let mut order: Vec<&'static Benchmark> = self.benchmarks.clone();
        let mut random = verbena_measure::random::Random::new(task.seed);
        let mut progress = Progress::new(order.iter().map(|one| one.name), launches);
        let started = Instant::now();
        for number in 0..launches {
            if self.is_too_late(started, number) {
                break;
            }
            if number > 0 {
                random.shuffle(&mut order);
            }
            for benchmark in &order {
                progress.begin(benchmark.name);
                let take = |line| books.take(line);
                let ended = match catalogue::subject(benchmark) {
                    Some(subject) => {
                        service::launch(task, benchmark.name, subject, number, &stop, take)?
                    }
                    None => {
                        let size = task.processes(benchmark, self.options.processes);
                        launch(task, benchmark.name, number, size, &stop, take)?
                    }
                };
                match ended {
                    Ended::Well => {}
                    Ended::Interrupted => return Ok(Ended::Interrupted),
                    Ended::Failed(reason) => books.take(failure(benchmark, number, reason))?,
                }
                progress.end();
            }
        }
        Ok(Ended::Well)
    }

    /// Whether a launch, as long as those before it, would end too late.
    fn is_too_late(&self, started: Instant, number: u32) -> bool {
        let minutes = |minutes| Duration::from_secs(60) * minutes;
        let limit = self.options.minutes.map(minutes);
        let after = started.elapsed() * (number + 1) / number.max(1);
        number > 0 && limit.is_some_and(|limit| after > limit)
    }

    /// The same of a job, whose processes do as the first one says: each has a clock of its own.
    fn fits(
        &self,
        fabric: &VerbsProcess,
        started: Instant,
        number: u32,
    ) -> Result<bool, verbena_fabric::Error> {
        let mine = [u8::from(self.is_too_late(started, number))];
        let all = executor::block_on(fabric.group().all_gather(&mine))?;
        Ok(all.first().is_none_or(|first| first[..] != [1]))
    }

    /// In a job that a cluster's launcher started, processes stay and each launch makes new queue pairs and buffers.
    fn in_job(&self, task: &Task, job: &Job, books: &mut Books) -> Result<Ended, Failure> {
        let meeting = Meeting::of(job, self.options.exchange.as_deref())?;
        let standing = Standing {
            rank: job.rank,
            size: job.size,
            job: &meeting.job,
            rendezvous: &|| meeting.rendezvous(),
            page: &meeting.page(),
        };
        let suite = |error: verbena_fabric::Error| Failure::Suite(error.to_string());
        let fabric = open(task, standing).map_err(suite)?;
        let trouble = RefCell::new(None);
        let books = RefCell::new(books);
        let sink = |line| {
            if let Err(failure) = books.borrow_mut().take(line) {
                trouble.borrow_mut().get_or_insert(failure);
            }
        };
        let launches = self.options.launches();
        let (fitting, lacking): (Vec<_>, Vec<_>) = self
            .benchmarks
            .iter()
            .copied()
            .partition(|benchmark| benchmark.processes.least() <= job.size);
        if job.rank == 0 {
            lacking.iter().for_each(|one| sink(too_few(one, job.size)));
        }
        let names = fitting.iter().map(|one| one.name);
        let mut progress = Progress::new(names.filter(|_| job.rank == 0), launches);
        let mut ended = Ended::Well;
        let started = Instant::now();
        'all: for number in 0..launches {
            if !self.fits(&fabric, started, number).map_err(suite)? {
                break;
            }
            for benchmark in &fitting {
                progress.begin(benchmark.name);
                match run_one(&fabric, task, benchmark.name, number, &sink) {
                    Ok(()) => {}
                    Err(verbena_fabric::Error::Interrupted) => {
                        ended = Ended::Interrupted;
                        break 'all;
                    }
                    // Nothing that a job has: everybody knows, and goes on.
                    Err(error @ verbena_fabric::Error::Invalid { .. }) => {
                        if job.rank == 0 {
                            sink(failure(benchmark, number, error.to_string()));
                        }
                    }
                    Err(error) => {
                        ended = Ended::Failed(error.to_string());
                        break 'all;
                    }
                }
                progress.end();
            }
        }
        if job.rank == 0 {
            meeting.close();
        }
        if let Some(failure) = trouble.into_inner() {
            return Err(failure);
        }
        match ended {
            Ended::Failed(reason) if job.rank != 0 => Err(Failure::Suite(reason)),
            other => Ok(other),
        }
    }
}

/// What is said of a launch that failed.
fn failure(benchmark: &Benchmark, launch: u32, reason: String) -> Line {
    Line::Failure(PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch,
        parameters: Parameters::new(),
        reason,
        unsupported: false,
    })
}

/// What is said of a benchmark that wants more processes than the job has: it is no failure of the adapter.
fn too_few(benchmark: &Benchmark, size: usize) -> Line {
    let least = benchmark.processes.least();
    Line::Failure(PointFailure {
        benchmark: benchmark.name.to_owned(),
        launch: 0,
        parameters: Parameters::new(),
        reason: format!(
            "not applicable: it needs at least {least} processes, and the job has {size}"
        ),
        unsupported: true,
    })
}

/// The floor of latencies and the bounds of bandwidths through memory on this host. The floor is the figure that the baseline
/// itself gives, a median; of copies it is the fastest that was seen, for what else ran at the time is no part of a bound.
fn floors(paces: Paces) -> Floors {
    let latency = (processors::count() > 1)
        .then(host::cache_line)
        .and_then(Sample::new);
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

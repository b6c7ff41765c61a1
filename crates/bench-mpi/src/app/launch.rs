//! One launch of an application: runs it with 1, 2, 4... processes, each time in a new directory.

use super::catalogue::{self, Application};
use super::files::{Found, output_file};
use super::outcome::Outcome;
use super::recorded;
use crate::mpirun::{self, Mpirun};
use crate::path_check::{self, Counted};
use crate::ready::Ready;
use crate::recorder::{Compiler, put_before};
use crate::transport::Transport;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use verbena_bench::Failure;
use verbena_bench::counters;
use verbena_bench::external::Launch;
use verbena_bench::local::Ended;
use verbena_bench::plan::Task;
use verbena_bench::temporary::Directory;
use verbena_measure::result::{Conduct, Failure as PointFailure, Parameters, Point, Value};
use verbena_measure::warning::Warning;
use verbena_mpi_trace::{Summary, Trace, recorder};
use verbena_report::schema::Line;
use verbena_workloads::Sweep;

/// Time limit of a run. Usual runs take seconds to a minute.
const PATIENCE: Duration = Duration::from_secs(900);

/// State shared by the launches of a session.
#[derive(Default)]
pub struct Applications {
    /// Results over shared memory, by program and number of processes.
    computed: BTreeMap<(&'static str, usize), String>,
    /// Program, transport and number of processes whose communication was already recorded.
    recorded: BTreeSet<(&'static str, &'static str, usize)>,
}

/// The end of a run that is not an error of the launch.
enum Ran {
    To(Outcome, Counted),
    Badly(String),
    Interrupted,
}

impl Applications {
    /// Runs one launch and passes each point to `take` as soon as it is measured.
    ///
    /// # Errors
    ///
    /// Fails if a run cannot be started or `take` fails. A program that fails is reported as a
    /// failed point instead.
    pub fn launch(
        &mut self,
        ready: &Ready,
        launch: &Launch<'_>,
        mut take: impl FnMut(Line) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let Launch {
            task,
            benchmark,
            number,
            processes: wanted,
            stop,
        } = *launch;
        let Some(application) = catalogue::find(benchmark.name) else {
            return Ok(Ended::Failed(format!(
                "{} is not an application",
                benchmark.name
            )));
        };
        let fail = |reason: String, parameters, unsupported| {
            Line::Failure(PointFailure {
                benchmark: benchmark.name.to_owned(),
                launch: number,
                parameters,
                reason,
                unsupported,
            })
        };
        let found = match application.found(ready.library()) {
            Ok(found) => found,
            Err(reason) => {
                let is_missing = matches!(reason, Failure::Input(_));
                take(fail(reason.to_string(), Parameters::new(), is_missing))?;
                return Ok(Ended::Well);
            }
        };
        let runs = Runs {
            ready,
            application,
            found: &found,
            stop,
        };
        for processes in process_counts(task, wanted) {
            let parameters = parameters(processes);
            let told_of = parameters.clone();
            match self.checked(&runs, processes)? {
                Ran::Interrupted => return Ok(Ended::Interrupted),
                Ran::Badly(reason) => take(fail(reason, parameters, false))?,
                Ran::To(outcome, counted) => {
                    take(Line::Finding(counted.finding(
                        ready.transport(),
                        benchmark.name,
                        number,
                    )))?;
                    let mut point = Point {
                        benchmark: benchmark.name.to_owned(),
                        launch: number,
                        parameters,
                        metrics: outcome.metrics,
                        conduct: Conduct {
                            validated: true,
                            ..Conduct::default()
                        },
                        ..Point::default()
                    };
                    let cores = task.cores;
                    let is_crowded = processes > cores;
                    let crowd = Warning::OversubscribedCores { processes, cores };
                    point.warnings.extend(is_crowded.then_some(crowd));
                    take(Line::Point(Box::new(point)))?;
                    if task.budget().sweep == Sweep::Coarse || !self.first(&runs, processes) {
                        continue;
                    }
                    if let Some(summary) = runs.recorded(processes)? {
                        let told = recorded::findings(benchmark.name, number, &told_of, &summary);
                        told.into_iter()
                            .try_for_each(|one| take(Line::Finding(one)))?;
                    }
                }
            }
        }
        Ok(Ended::Well)
    }

    /// Returns whether this run's communication was not recorded before, and notes it.
    fn first(&mut self, runs: &Runs<'_>, processes: usize) -> bool {
        let name = runs.application.benchmark.name;
        self.recorded
            .insert((name, runs.ready.transport().name(), processes))
    }

    /// Runs the program, checks that its messages used the requested transport, and compares its
    /// result with that over shared memory.
    fn checked(&mut self, runs: &Runs<'_>, processes: usize) -> Result<Ran, Failure> {
        let transport = runs.ready.transport();
        let key = (runs.application.benchmark.name, processes);
        if transport != Transport::SharedMemory && !self.computed.contains_key(&key) {
            match runs.run(Transport::SharedMemory, processes)? {
                Ran::To(outcome, _) => self.computed.insert(key, outcome.computed),
                Ran::Badly(reason) => {
                    return Ok(Ran::Badly(format!(
                        "over shared memory, for comparison: {reason}"
                    )));
                }
                Ran::Interrupted => return Ok(Ran::Interrupted),
            };
        }
        let (outcome, counted) = match runs.run(transport, processes)? {
            Ran::To(outcome, counted) => (outcome, counted),
            other => return Ok(other),
        };
        if let Some(reason) = counted.contradicts(transport) {
            return Ok(Ran::Badly(reason));
        }
        let differs = self
            .computed
            .get(&key)
            .and_then(|theirs| difference(theirs, &outcome.computed));
        Ok(match differs {
            Some(line) => Ran::Badly(format!(
                "its result differs from that over shared memory: {line}"
            )),
            None => Ran::To(outcome, counted),
        })
    }
}

/// Runs of an application in one launch.
struct Runs<'a> {
    ready: &'a Ready,
    application: &'a Application,
    found: &'a Found,
    stop: &'a AtomicBool,
}

impl Runs<'_> {
    fn run(&self, transport: Transport, processes: usize) -> Result<Ran, Failure> {
        self.run_with(transport, processes, |_| ())
    }

    /// Runs the program; `prepare` may modify the command first.
    fn run_with(
        &self,
        transport: Transport,
        processes: usize,
        prepare: impl FnOnce(&mut Command),
    ) -> Result<Ran, Failure> {
        let (place, counters) = (Directory::create()?, Directory::create()?);
        let arguments = (self.application.prepare)(place.path(), self.found, processes);
        let arguments = arguments.map_err(|source| Failure::Directory {
            path: place.path().to_owned(),
            source,
        })?;
        let mut command =
            self.ready
                .command(transport, &self.found.program, processes, &counters)?;
        // The benchmark counts processes; additional threads would compete for their processors.
        command
            .args(arguments)
            .env("OMP_NUM_THREADS", "1")
            .current_dir(place.path());
        prepare(&mut command);
        let before = self.ready.before();
        let (mut mpirun, mut output) = Mpirun::start(command, self.ready.launcher())?;
        let mut told = output_file(place.path())?;
        let listener = std::thread::spawn(move || std::io::copy(&mut output, &mut told));
        let started = Instant::now();
        let mut is_late = false;
        while mpirun.ended()?.is_none() && !mpirun.is_overdue() {
            is_late |= started.elapsed() > PATIENCE;
            if is_late || self.stop.load(Ordering::Relaxed) {
                mpirun.tell_to_end();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let (status, said) = mpirun.end()?;
        // A process that survives a killed launcher may keep its output open forever.
        if !is_late && !self.stop.load(Ordering::Relaxed) {
            let _ = listener.join();
        }
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Ran::Interrupted);
        }
        let wrong = match is_late {
            true => Some(format!(
                "it ran for {} s and was killed",
                PATIENCE.as_secs()
            )),
            false => mpirun::trouble(status, &said),
        };
        if let Some(reason) = wrong {
            self.ready.clean_up();
            return Ok(Ran::Badly(reason));
        }
        let outcome = match (self.application.read)(place.path()) {
            Ok(outcome) => outcome,
            Err(reason) => return Ok(Ran::Badly(reason)),
        };
        if outcome.processes != processes {
            return Ok(Ran::Badly(format!(
                "{} processes were started, but {} worked together: {} is not linked with the MPI \
                 library of {} (choose with --mpi)",
                processes,
                outcome.processes,
                self.found.program.display(),
                self.ready.launcher().display()
            )));
        }
        let adapter = path_check::through_the_adapter(&counters::read(counters.path()));
        // A single process sends no messages.
        let counted = before.counted(u64::from(processes > 1), adapter);
        Ok(Ran::To(outcome, counted))
    }

    /// Records the communication in a further run. `None` if the recorder cannot be compiled or the
    /// run fails.
    fn recorded(&self, processes: usize) -> Result<Option<Summary>, Failure> {
        let compiler = Compiler::of(self.ready.compiler()).ok();
        let Some(library) = compiler.and_then(|compiler| compiler.recorder().ok()) else {
            return Ok(None);
        };
        let directory = Directory::create()?;
        let ran = self.run_with(self.ready.transport(), processes, |command| {
            put_before(command, &library);
            command.env(recorder::DIRECTORY, directory.path());
        })?;
        Ok(match ran {
            Ran::To(..) => Trace::open(directory.path())
                .ok()
                .map(|trace| Summary::of(&trace)),
            Ran::Badly(_) | Ran::Interrupted => None,
        })
    }
}

/// Returns the numbers of processes: powers of two up to the number of processors; only the largest
/// in quick mode.
fn process_counts(task: &Task, wanted: Option<usize>) -> Vec<usize> {
    let doubled = (0..)
        .map(|power| 1 << power)
        .take_while(|number| *number <= task.cores);
    match (wanted, task.budget().sweep) {
        (Some(processes), _) => vec![processes],
        (None, Sweep::Coarse) => doubled.last().into_iter().collect(),
        (None, _) => doubled.collect(),
    }
}

fn parameters(processes: usize) -> Parameters {
    [
        ("transport".to_owned(), Value::from("mpi")),
        ("processes".to_owned(), Value::from(processes)),
    ]
    .into_iter()
    .collect()
}

/// Returns the first differing line.
fn difference(theirs: &str, ours: &str) -> Option<String> {
    let (mut theirs, mut ours) = (theirs.lines(), ours.lines());
    loop {
        match (theirs.next(), ours.next()) {
            (None, None) => return None,
            (one, other) if one == other => {}
            (one, other) => {
                let words = |line: Option<&str>| line.unwrap_or("(nothing)").trim().to_owned();
                return Some(format!("{:?} instead of {:?}", words(other), words(one)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_differing_line_is_reported() {
        assert_eq!(difference("a\nb", "a\nb"), None);
        assert_eq!(
            difference("a\n b", "a\nc\nd").unwrap(),
            "\"c\" instead of \"b\""
        );
        assert_eq!(
            difference("a", "a\nc").unwrap(),
            "\"c\" instead of \"(nothing)\""
        );
    }
}

//! Runs one launch of an MPI benchmark: starts `mpirun` anew and processes its output as it
//! arrives.

use super::lines::{Fact, PrintedPoint, Reader};
use super::mpirun::{self, Mpirun};
use super::path_check;
use super::plan;
use super::points::Job;
use super::ready::Ready;
use std::io::{BufRead, BufReader, Read};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use verbena_bench::Failure;
use verbena_bench::counters;
use verbena_bench::external::Launch;
use verbena_bench::local::Ended;
use verbena_bench::plan::Task;
use verbena_bench::temporary::Directory;
use verbena_measure::result::Failure as PointFailure;
use verbena_report::schema::Line;
use verbena_workloads::Benchmark;

/// Time without output after which a run is ended: its processes do not find each other, or hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longest line read, in bytes.
const LONGEST_LINE: u64 = 1 << 20;

/// Runs one launch and passes each point to `take` as it arrives.
///
/// # Errors
///
/// Fails if `mpirun` cannot be run or starts another number of processes, or `take` fails.
pub fn launch(
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
    let sizes = plan::sizes(task, benchmark);
    if sizes.is_empty() {
        return Ok(Ended::Well);
    }
    let before = ready.before();
    let (mut payload, mut adapter) = (0, 0);
    for processes in plan::process_counts(task, benchmark, wanted) {
        let directory = Directory::create()?;
        let command = ready.measuring(task, benchmark, &sizes, processes, &directory)?;
        let mut job = Job {
            task,
            benchmark,
            launch: number,
            processes,
            unbound: false,
        };
        let mut moved = None;
        let ended = Run::start(command, ready)?.follow(stop, |fact| match fact {
            Fact::Begun(ranks, _) if ranks != processes => Err(Failure::Suite(format!(
                "mpirun started {ranks} processes instead of {processes}"
            ))),
            Fact::Begun(..) => Ok(()),
            Fact::Unbound => {
                job.unbound = true;
                Ok(())
            }
            Fact::Point(told) => take(line(&job, &told)),
            Fact::Moved(bytes) => {
                moved = Some(bytes);
                Ok(())
            }
        })?;
        if ended != Ended::Well {
            ready.clean_up();
            return Ok(ended);
        }
        let Some(moved) = moved else {
            return Ok(Ended::Failed(
                "the measuring program ended early".to_owned(),
            ));
        };
        payload += moved;
        adapter += path_check::through_the_adapter(&counters::read(directory.path()));
    }
    let counted = before.counted(payload, adapter);
    take(Line::Finding(counted.finding(
        ready.transport,
        benchmark.name,
        number,
    )))?;
    Ok(counted
        .contradicts(ready.transport)
        .map_or(Ended::Well, Ended::Failed))
}

/// Converts a point to a line of a results file: a failure if its data was wrong or its figures are
/// unusable.
fn line(job: &Job<'_>, told: &PrintedPoint) -> Line {
    let outcome = match &told.wrong {
        Some(wrong) => Err(format!("the received data differ from those sent: {wrong}")),
        None => job.point(told).and_then(|point| match point.unusable() {
            None => Ok(point),
            Some(reason) => Err(reason),
        }),
    };
    match outcome {
        Ok(point) => Line::Point(Box::new(point)),
        Err(reason) => Line::Failure(PointFailure {
            benchmark: job.benchmark.name.to_owned(),
            launch: job.launch,
            parameters: job.parameters(told),
            reason,
            unsupported: false,
        }),
    }
}

impl Ready {
    fn measuring(
        &self,
        task: &Task,
        benchmark: &Benchmark,
        sizes: &[usize],
        processes: usize,
        counters: &Directory,
    ) -> Result<Command, Failure> {
        let mut command = self.command(self.transport, &self.program, processes, counters)?;
        command.args(plan::arguments(task, benchmark, sizes, processes));
        Ok(command)
    }
}

/// A launcher whose processes measure and print.
struct Run {
    mpirun: Mpirun,
    lines: Receiver<std::io::Result<String>>,
}

impl Run {
    fn start(command: Command, ready: &Ready) -> Result<Run, Failure> {
        let (mpirun, output) = Mpirun::start(command, &ready.library.mpirun)?;
        Ok(Run {
            mpirun,
            lines: listen(output),
        })
    }

    /// Follows the run to its end.
    fn follow(
        mut self,
        stop: &AtomicBool,
        take: impl FnMut(Fact) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let heard = self.hear(stop, take);
        if heard.is_err() {
            self.mpirun.tell_to_end();
        }
        let (status, said) = self.mpirun.end()?;
        let wrong = heard?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        let wrong = wrong.or_else(|| mpirun::trouble(status, &said));
        Ok(wrong.map_or(Ended::Well, Ended::Failed))
    }

    /// Passes facts to `take` until the output ends or the launcher is overdue; returns a defect of
    /// the output, if any.
    fn hear(
        &mut self,
        stop: &AtomicBool,
        mut take: impl FnMut(Fact) -> Result<(), Failure>,
    ) -> Result<Option<String>, Failure> {
        let mut heard = Instant::now();
        let mut reader = Reader::default();
        let mut trouble = None;
        loop {
            match self.lines.recv_timeout(Duration::from_millis(20)) {
                Ok(line) => {
                    heard = Instant::now();
                    let line = line.map_err(|source| Failure::System {
                        doing: "read the output of the measuring program",
                        source,
                    })?;
                    match reader.take(&line) {
                        Ok(Some(fact)) => take(fact)?,
                        Ok(None) => {}
                        Err(reason) => {
                            trouble.get_or_insert(reason);
                        }
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(trouble),
            }
            let is_silent = heard.elapsed() > PATIENCE;
            if is_silent {
                let seconds = PATIENCE.as_secs();
                trouble.get_or_insert(format!(
                    "its processes did not answer for {seconds} s and were killed"
                ));
            }
            if is_silent || stop.load(Ordering::Relaxed) {
                self.mpirun.tell_to_end();
            }
            if self.mpirun.is_overdue() {
                return Ok(trouble);
            }
        }
    }
}

fn listen(output: impl Read + Send + 'static) -> Receiver<std::io::Result<String>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        loop {
            let mut line = Vec::new();
            let read = (&mut output)
                .take(LONGEST_LINE)
                .read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(_) => Ok(String::from_utf8_lossy(&line).into_owned()),
                Err(error) => Err(error),
            };
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

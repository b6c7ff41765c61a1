//! A launch: `mpirun` and its processes, anew each time, their facts taken as they are told.

use super::lines::{Fact, Reader, Told};
use super::points::Job;
use super::proof::{self, Counted};
use super::way::Way;
use super::{Ready, plan};
use crate::failure::Failure;
use crate::launch::environment::Environment;
use crate::launch::libraries::Libraries;
use crate::stats::collect;
use crate::stats::directory::Directory;
use crate::suite::local::Ended;
use crate::suite::plan::Task;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbena_hca::describe;
use verbena_hca::shm::registry;
use verbena_measure::result::Failure as PointFailure;
use verbena_report::schema::Line;
use verbena_workloads::Benchmark;

/// A run of the program that says nothing for so long is ended: its processes do not find each other, or hang.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long `mpirun` has to end its processes when it is told to.
const GRACE: Duration = Duration::from_secs(8);
/// The longest line that is read, and the most that is kept of what is said on the error stream.
const LONGEST_LINE: u64 = 1 << 20;
const SAID: u64 = 1 << 14;

/// Runs one launch; every point is handed on as it is told.
pub fn launch(
    ready: &Ready,
    task: &Task,
    benchmark: &Benchmark,
    number: u32,
    wanted: Option<usize>,
    stop: &AtomicBool,
    mut take: impl FnMut(Line) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let sizes = plan::sizes(task, benchmark);
    if sizes.is_empty() {
        return Ok(Ended::Well);
    }
    let before = proof::loopback();
    let mut counted = Counted::default();
    for processes in plan::crews(task, benchmark, wanted) {
        let directory = Directory::create()?;
        let command = ready.command(task, benchmark, &sizes, processes, &directory)?;
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
                "mpirun started {ranks} processes, and {processes} were asked for"
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
            // Of processes that were killed nobody else is left to tidy up.
            describe::sweep(&registry::directory());
            return Ok(ended);
        }
        let Some(moved) = moved else {
            return Ok(Ended::Failed(
                "the measuring program ended before its last line".to_owned(),
            ));
        };
        counted.payload += moved;
        counted.adapter += proof::through_the_adapter(&collect::read(directory.path()));
    }
    counted.loopback = before
        .zip(proof::loopback())
        .map(|(before, after)| after.saturating_sub(before));
    take(Line::Finding(counted.finding(benchmark.name, number)))?;
    Ok(counted
        .contradicts(ready.way)
        .map_or(Ended::Well, Ended::Failed))
}

/// A point as a line of a results file; one whose data was wrong is none.
fn line(job: &Job<'_>, told: &Told) -> Line {
    let outcome = match &told.wrong {
        Some(wrong) => Err(format!(
            "the data that arrived is not what was sent: {wrong}"
        )),
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
    fn command(
        &self,
        task: &Task,
        benchmark: &Benchmark,
        sizes: &[usize],
        processes: usize,
        counters: &Directory,
    ) -> Result<Command, Failure> {
        let mut command = Command::new(&self.library.mpirun);
        command
            .args(&self.settings.arguments)
            .args(["-n", &processes.to_string()])
            .arg(&self.program)
            .args(plan::arguments(task, benchmark, sizes, processes))
            .envs(self.settings.variables.iter().copied())
            // On another way too: whoever uses the adapter all the same is seen.
            .env("VERBENA_STATS_DIR", counters.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if self.way == Way::Software {
            let libraries = Libraries::beside_this_executable()?;
            command.envs(Environment::new(&libraries, None).variables());
        }
        Ok(command)
    }
}

/// A running `mpirun`.
struct Run {
    child: Child,
    lines: Receiver<std::io::Result<String>>,
    said: JoinHandle<String>,
    told: Option<Instant>,
}

impl Run {
    fn start(mut command: Command, ready: &Ready) -> Result<Run, Failure> {
        let name = || ready.library.mpirun.display().to_string();
        let mut child = command
            .spawn()
            .map_err(|error| Failure::of_exec(name(), error))?;
        let output = child.stdout.take().expect("its output is piped");
        let errors = child.stderr.take().expect("its errors are piped");
        Ok(Run {
            child,
            lines: listen(output),
            said: std::thread::spawn(move || keep(errors)),
            told: None,
        })
    }

    /// To its end, whichever it is.
    fn follow(
        mut self,
        stop: &AtomicBool,
        take: impl FnMut(Fact) -> Result<(), Failure>,
    ) -> Result<Ended, Failure> {
        let heard = self.hear(stop, take);
        if heard.is_err() {
            self.tell_to_end();
        }
        let (status, said) = self.end()?;
        let trouble = heard?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Ended::Interrupted);
        }
        let words = match said.is_empty() {
            true => String::new(),
            false => format!(": {said}"),
        };
        let bad = (!status.success()).then(|| format!("mpirun ended with {status}{words}"));
        Ok(trouble.or(bad).map_or(Ended::Well, Ended::Failed))
    }

    /// Hands on facts until nothing more is said; gives what was wrong with what was said, if anything was.
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
                        doing: "read what the measuring program says",
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
                    "its processes said nothing for {seconds} s and were ended"
                ));
            }
            if is_silent || stop.load(Ordering::Relaxed) {
                self.tell_to_end();
            }
            if self.told.is_some_and(|told| told.elapsed() > GRACE) {
                return Ok(trouble);
            }
        }
    }

    /// The launcher ends its processes.
    fn tell_to_end(&mut self) {
        if self.told.is_some() {
            return;
        }
        self.told = Some(Instant::now());
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for it; not for ever for one that was told to end.
    fn end(mut self) -> Result<(ExitStatus, String), Failure> {
        let waited = |source| Failure::System {
            doing: "wait for mpirun",
            source,
        };
        let status = loop {
            if let Some(status) = self.child.try_wait().map_err(waited)? {
                break status;
            }
            if self.told.is_some_and(|told| told.elapsed() > GRACE) {
                let _ = self.child.kill();
                break self.child.wait().map_err(waited)?;
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok((status, self.said.join().unwrap_or_default()))
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

/// The first of what is said; the rest is read and dropped, so that nobody waits for room.
fn keep(mut errors: impl Read) -> String {
    let mut said = Vec::new();
    let _ = (&mut errors).take(SAID).read_to_end(&mut said);
    let _ = std::io::copy(&mut errors, &mut std::io::sink());
    String::from_utf8_lossy(&said).trim().to_owned()
}

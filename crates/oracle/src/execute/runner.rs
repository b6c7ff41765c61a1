//! The runner: executes a program's steps on worker processes and checks their observations against
//! the reference.

use super::hosts::Host;
use super::message::{self, Order};
use super::observe::NEW_FACT;
use super::threads;
use super::worker::{self, NOT_MADE};
use crate::coverage::Coverage;
use crate::program::rule::Rule;
use crate::program::{Action, CqId, ProcessId, Program, QpId, SrqId, Step};
use crate::reference::candidate_states::{CandidateStates, Seen};
use crate::reference::outcome::{Event, EventKind, Subject};
use std::collections::HashMap;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Timeout for expected completions and events.
    pub patience: Duration,
    /// Parent of the programs' private runtime directories.
    pub directory: PathBuf,
    /// Hosts of the program's processes, in turn; if empty, all run on this host.
    pub hosts: Vec<Host>,
}

/// The result of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The library behaved as the reference allows.
    Agreed,
    /// It did not in this step.
    Differs {
        /// The step's position.
        step: usize,
        /// The observed and the allowed behaviour.
        words: String,
    },
    /// The program is too concurrent for the reference.
    TooConcurrent,
}

/// A larger arena is compared only after concurrent steps and at the end.
const SMALL_ARENA: u32 = 1 << 16;

enum Trouble {
    Difference(String),
    TooConcurrent,
}

/// Time for a completion that is optional and explains changed memory.
const EXPLANATION: Duration = Duration::from_millis(200);

/// Time for unexpected observations at the end of a program.
const AFTERWARDS: Duration = Duration::from_millis(3);

/// Runs a program to its end or to the first difference.
///
/// # Errors
///
/// The runtime directory cannot be created.
pub fn run(
    program: &Program,
    conditions: &Conditions,
    coverage: &mut Coverage,
) -> io::Result<Verdict> {
    let place = Place::new(&conditions.directory)?;
    let mut runner = match Runner::start(program, conditions, &place) {
        Ok(runner) => runner,
        Err(words) => return Ok(Verdict::Differs { step: 0, words }),
    };
    for (index, step) in program.steps.iter().enumerate() {
        match runner.step(index, step, coverage) {
            Ok(()) => {}
            Err(Trouble::TooConcurrent) => return Ok(Verdict::TooConcurrent),
            Err(Trouble::Difference(words)) => return Ok(Verdict::Differs { step: index, words }),
        }
    }
    match runner.finish(coverage) {
        Err(Trouble::Difference(words)) => Ok(Verdict::Differs {
            step: program.steps.len(),
            words,
        }),
        _ => Ok(Verdict::Agreed),
    }
}

/// A directory for one program.
struct Place(PathBuf);

impl Place {
    fn new(parent: &Path) -> io::Result<Place> {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("oracle-{}-{number}", std::process::id()));
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&path)?;
        Ok(Place(path))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

struct Worker {
    pid: libc::pid_t,
    stream: UnixStream,
    alive: bool,
}

impl Worker {
    fn signal(&self, signal: i32) {
        // SAFETY: the process is this process's child and was not waited for.
        unsafe { libc::kill(self.pid, signal) };
    }

    fn end(&mut self) {
        if self.alive {
            self.signal(libc::SIGKILL);
            let mut status = 0;
            // SAFETY: it is this process's child; the out-pointer is valid.
            unsafe { libc::waitpid(self.pid, &mut status, 0) };
            self.alive = false;
        }
    }

    /// Returns how an unresponsive worker has ended, if it has.
    fn ended(&mut self) -> Option<String> {
        let mut status = 0;
        for _ in 0..20 {
            // SAFETY: it is this process's child; the out-pointer is valid.
            if unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG) } == self.pid {
                self.alive = false;
                return Some(match libc::WIFSIGNALED(status) {
                    true => format!("was ended by signal {}", libc::WTERMSIG(status)),
                    false => format!("ended with status {}", libc::WEXITSTATUS(status)),
                });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

struct Runner<'a> {
    program: &'a Program,
    patience: Duration,
    workers: Vec<Worker>,
    candidates: CandidateStates,
    /// Every reported fact, in order, and the number that each worker has received.
    facts: Vec<[u64; 3]>,
    known: Vec<usize>,
    /// Queue pairs by process and number: those of different hosts may have the same number.
    numbers: HashMap<(usize, u32), QpId>,
}

impl<'a> Runner<'a> {
    fn start(
        program: &'a Program,
        conditions: &Conditions,
        place: &Place,
    ) -> Result<Runner<'a>, String> {
        // SAFETY: the runner has one thread.
        unsafe { std::env::set_var("VERBENA_RUNTIME_DIR", &place.0) };
        let workers: Vec<Worker> = (0..program.processes)
            .map(|process| spawn(program, process, conditions, &place.0))
            .collect::<io::Result<_>>()
            .map_err(|error| format!("no process: {error}"))?;
        let mut runner = Runner {
            program,
            patience: conditions.patience,
            known: vec![0; workers.len()],
            workers,
            candidates: CandidateStates::new(program),
            facts: Vec::new(),
            numbers: HashMap::new(),
        };
        for process in 0..runner.workers.len() {
            runner
                .reply(process)
                .map_err(|words| format!("while it started, {words}"))?;
        }
        Ok(runner)
    }

    fn step(&mut self, index: usize, step: &Step, coverage: &mut Coverage) -> Result<(), Trouble> {
        self.candidates
            .step(step)
            .map_err(|_| Trouble::TooConcurrent)?;
        let mut actors: Vec<usize> = Vec::new();
        let (mut killed, mut paused) = (Vec::new(), Vec::new());
        for call in &step.calls {
            let by = usize::from(call.by.0);
            match call.action {
                Action::Kill {} => {
                    coverage.call(call, 0);
                    killed.push(by);
                }
                Action::Pause {} => {
                    coverage.call(call, 0);
                    paused.push(by);
                }
                _ if !actors.contains(&by) => actors.push(by),
                _ => {}
            }
        }
        actors.retain(|actor| self.workers[*actor].alive);
        paused.retain(|process| self.workers[*process].alive);
        for process in &paused {
            self.workers[*process].signal(libc::SIGSTOP);
        }
        // Workers that expect completions observe them while they arrive.
        let watchers: Vec<usize> = self
            .living()
            .into_iter()
            .filter(|worker| !actors.contains(worker) && !paused.contains(worker))
            .filter(|worker| !killed.contains(worker))
            .filter(|worker| self.candidates.expects(ProcessId(*worker as u16)))
            .collect();
        for watcher in &watchers {
            self.send(*watcher, &[Order::Observe as u64, 2])?;
        }
        for actor in &actors {
            self.order_step(*actor, index)?;
        }
        for process in &killed {
            if actors.contains(process) {
                self.take_codes(*process, step, coverage)?;
            }
            self.workers[*process].end();
        }
        let mut late = Vec::new();
        for actor in actors.iter().filter(|actor| !killed.contains(actor)) {
            if paused.contains(actor) {
                late.push(*actor);
            } else {
                self.take_codes(*actor, step, coverage)?;
            }
        }
        for process in &paused {
            self.workers[*process].signal(libc::SIGCONT);
        }
        for actor in late {
            self.take_codes(actor, step, coverage)?;
        }
        for watcher in watchers {
            self.take_observations(watcher, coverage)?;
        }
        self.quiesce(coverage)?;
        let small = self.program.arena <= SMALL_ARENA;
        // Messages in flight must arrive before the next step revokes their access.
        if small || step.calls.len() > 1 || self.candidates.silent() {
            return self.compare_eventually(coverage);
        }
        Ok(())
    }

    /// Compares memory. An optional completion that has not arrived yet may explain a difference.
    /// If requests without completion may be under way, compares repeatedly until memory has the
    /// expected contents.
    fn compare_eventually(&mut self, coverage: &mut Coverage) -> Result<(), Trouble> {
        let start = Instant::now();
        loop {
            let patience = match self.candidates.silent() {
                true => self.patience,
                false => EXPLANATION.min(self.patience),
            };
            match self.compare_memory() {
                Err(Trouble::Difference(_)) if start.elapsed() < patience => {
                    self.observe(coverage)?;
                }
                result => return result,
            }
        }
    }

    fn order_step(&mut self, worker: usize, index: usize) -> Result<(), Trouble> {
        let mut words = vec![Order::Step as u64, index as u64];
        words.extend(self.facts[self.known[worker]..].iter().flatten());
        self.known[worker] = self.facts.len();
        self.send(worker, &words)
    }

    fn send(&mut self, worker: usize, words: &[u64]) -> Result<(), Trouble> {
        if message::send(&mut self.workers[worker].stream, words).is_err() {
            let words = self.silence(worker);
            return Err(Trouble::Difference(words));
        }
        Ok(())
    }

    fn silence(&mut self, worker: usize) -> String {
        match self.workers[worker].ended() {
            Some(how) => format!("p{worker} {how}"),
            None => format!(
                "p{worker} did not answer for {:?}: a call hangs ({})",
                self.patience,
                threads::of(self.workers[worker].pid)
            ),
        }
    }

    fn reply(&mut self, worker: usize) -> Result<Vec<u64>, String> {
        let timeout = Some(self.patience);
        let stream = &mut self.workers[worker].stream;
        stream
            .set_read_timeout(timeout)
            .map_err(|error| error.to_string())?;
        match message::receive(stream) {
            Ok(words) => Ok(words),
            Err(_) => Err(self.silence(worker)),
        }
    }

    fn take_codes(
        &mut self,
        worker: usize,
        step: &Step,
        coverage: &mut Coverage,
    ) -> Result<(), Trouble> {
        let words = self.reply(worker).map_err(Trouble::Difference)?;
        let count = words[0] as usize;
        for &[index, code] in words[1..1 + 2 * count].as_chunks().0 {
            let (index, code) = (index as usize, code as u32 as i32);
            let call = &step.calls[index];
            if code == NOT_MADE {
                continue;
            }
            coverage.call(call, code);
            self.candidates.returned(index, code).map_err(|allowed| {
                let error = io::Error::from_raw_os_error(code);
                Trouble::Difference(format!("`{call}` returned {code} ({error}); {allowed}"))
            })?;
        }
        for fact in words[1 + 2 * count..].as_chunks::<3>().0 {
            self.facts.push(*fact);
            if fact[0] == message::Fact::QpNumber as u64 {
                self.numbers
                    .insert((worker, fact[2] as u32), QpId(fact[1] as u16));
            }
        }
        Ok(())
    }

    /// Waits until a candidate state has no outstanding observation.
    fn quiesce(&mut self, coverage: &mut Coverage) -> Result<(), Trouble> {
        let end = Instant::now() + self.patience;
        loop {
            self.observe(coverage)?;
            if self.candidates.rests() {
                return Ok(());
            }
            if Instant::now() > end {
                let missing = self.candidates.settle().err().unwrap_or_default();
                return Err(Trouble::Difference(format!(
                    "nothing more arrived for {:?}; {missing}",
                    self.patience
                )));
            }
        }
    }

    fn living(&self) -> Vec<usize> {
        (0..self.workers.len())
            .filter(|worker| self.workers[*worker].alive)
            .collect()
    }

    fn observe(&mut self, coverage: &mut Coverage) -> Result<(), Trouble> {
        let living = self.living();
        let patient = u64::from(!self.candidates.rests());
        for worker in &living {
            self.send(*worker, &[Order::Observe as u64, patient])?;
        }
        for worker in living {
            self.take_observations(worker, coverage)?;
        }
        Ok(())
    }

    fn take_observations(&mut self, worker: usize, coverage: &mut Coverage) -> Result<(), Trouble> {
        let words = self.reply(worker).map_err(Trouble::Difference)?;
        let count = words[0] as usize;
        for entry in words[1..1 + 11 * count].as_chunks::<11>().0 {
            self.completed(worker, entry, coverage)?;
        }
        for event in words[1 + 11 * count..].as_chunks::<3>().0 {
            if event[0] & NEW_FACT != 0 {
                self.facts.push([event[0] & !NEW_FACT, event[1], event[2]]);
            } else {
                self.raised(worker, event, coverage)?;
            }
        }
        Ok(())
    }

    fn completed(
        &mut self,
        worker: usize,
        entry: &[u64],
        coverage: &mut Coverage,
    ) -> Result<(), Trouble> {
        let seen = Seen {
            cq: CqId(entry[0] as u16),
            qp: self.numbers.get(&(worker, entry[7] as u32)).copied(),
            id: entry[1],
            status: entry[2] as u32,
            opcode: entry[3] as u32,
            byte_len: entry[4] as u32,
            carried: entry[5] as u32,
            flags: entry[6] as u32,
            sum: (entry[9] == 1).then_some(entry[10]),
        };
        coverage.completion(&seen);
        self.candidates.completed(&seen).map_err(|allowed| {
            Trouble::Difference(format!("p{worker} saw {}; {allowed}", describe(&seen)))
        })
    }

    fn raised(
        &mut self,
        worker: usize,
        event: &[u64],
        coverage: &mut Coverage,
    ) -> Result<(), Trouble> {
        let kind = event[0] as u32;
        let unexpected = |allowed: String| {
            Trouble::Difference(format!(
                "p{worker} saw the event {kind} of {} {}; {allowed}",
                if event[1] == 1 { "srq" } else { "qp" },
                event[2] as i64
            ))
        };
        let Some(kind) = EventKind::from_abi(kind) else {
            return Err(unexpected("no such event".to_owned()));
        };
        let subject = match event[1] {
            1 => Subject::Srq(SrqId(event[2] as u16)),
            _ => Subject::Qp(QpId(event[2] as u16)),
        };
        coverage.event(kind);
        let seen = Event {
            process: ProcessId(worker as u16),
            kind,
            subject,
        };
        self.candidates.raised(&seen).map_err(unexpected)
    }

    fn compare_memory(&mut self) -> Result<(), Trouble> {
        let living = self.living();
        for worker in &living {
            self.send(*worker, &[Order::Memory as u64])?;
        }
        // Read all before judging any, so that no answer stays in a stream.
        let mut arenas = Vec::new();
        for worker in living {
            let mut bytes = vec![0; self.program.arena as usize];
            if self.workers[worker].stream.read_exact(&mut bytes).is_err() {
                return Err(Trouble::Difference(self.silence(worker)));
            }
            arenas.push((worker, bytes));
        }
        for (worker, bytes) in arenas {
            let process = ProcessId(worker as u16);
            self.candidates
                .holds(process, &bytes)
                .map_err(|words| Trouble::Difference(format!("p{worker}'s memory; {words}")))?;
        }
        Ok(())
    }

    /// Checks that nothing is missing and nothing unexpected arrives.
    fn finish(&mut self, coverage: &mut Coverage) -> Result<(), Trouble> {
        std::thread::sleep(AFTERWARDS);
        // Late messages may have arrived since the last step.
        let nothing = Step { calls: Vec::new() };
        self.candidates
            .step(&nothing)
            .map_err(|_| Trouble::TooConcurrent)?;
        // These observations may rule out the state that was complete; messages of the others may
        // still be in flight.
        self.quiesce(coverage)?;
        // By a rule, a poll may have returned nothing although a late message has arrived.
        self.compare_eventually(coverage)?;
        self.quiesce(coverage)?;
        self.candidates.settle().map_err(Trouble::Difference)
    }
}

fn describe(seen: &Seen) -> String {
    let qp = seen
        .qp
        .map_or("an unknown qp".to_owned(), |qp| format!("qp{}", qp.0));
    format!(
        "on cq{} of {qp}: wr {} status {} opcode {} len {} flags {:#x} carried {:#x}",
        seen.cq.0, seen.id, seen.status, seen.opcode, seen.byte_len, seen.flags, seen.carried
    )
}

fn spawn(
    program: &Program,
    process: u16,
    conditions: &Conditions,
    files: &Path,
) -> io::Result<Worker> {
    let (ours, theirs) = UnixStream::pair()?;
    // SAFETY: the runner has one thread, so the child may continue as an ordinary program.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(ours);
            close_others(theirs.as_raw_fd());
            // SAFETY: plain system call without pointers; the worker is killed when the runner
            // ends.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            if let Some(rules) = Rule::variable(&program.rules, ProcessId(process)) {
                // SAFETY: the worker has one thread, and has not loaded the library.
                unsafe { std::env::set_var("VERBENA_FAULTS", rules) };
            }
            let alive = enter(process, conditions, files)
                .and_then(|()| worker::live(program, process, theirs, files));
            let status = i32::from(alive.is_err());
            // SAFETY: exits the child without running the runner's exit handlers.
            unsafe { libc::_exit(status) }
        }
        pid => Ok(Worker {
            pid,
            stream: ours,
            alive: true,
        }),
    }
}

/// Moves a worker to its host.
fn enter(process: u16, conditions: &Conditions, files: &Path) -> io::Result<()> {
    let hosts = &conditions.hosts;
    let Some(index) = usize::from(process).checked_rem(hosts.len()) else {
        return Ok(());
    };
    hosts[index]
        .enter(&files.join(format!("host-{index}")))
        .inspect_err(|error| eprintln!("p{process} on {:?}: {error}", hosts[index]))
}

/// Closes the other workers' streams.
fn close_others(own: i32) {
    // SAFETY: descriptors above the standard ones belong to the runner's other workers.
    unsafe {
        if own > 3 {
            libc::close_range(3, own as u32 - 1, 0);
        }
        libc::close_range(own as u32 + 1, u32::MAX, 0);
    }
}

//! The local launcher: starts processes of this executable for each launch of each benchmark. A
//! process that dies ends the launch for the others; points measured so far are kept.

use super::plan::{LOCAL_JOB, Plan, Task, VARIABLE};
use super::runtime::RuntimeDirectory;
use crate::Failure;
use crate::host::Host;
use crate::interrupt::Scratch;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use verbena_fabric::verbs::{Hub, Secret};
use verbena_report::schema::Line;

/// Time limit of a launch.
const LONGEST: Duration = Duration::from_secs(600);
/// Time for the other processes to end after one has died.
const GRACE: Duration = Duration::from_secs(8);
/// Time for processes to end after the user's interrupt: their results so far have already arrived.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// The end of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All points were measured or reported as failed.
    Well,
    /// The user interrupted it.
    Interrupted,
    /// It failed as a whole, with the reason.
    Failed(String),
}

/// Runs one launch of a benchmark with `size` processes and passes each record to `take` as it
/// arrives.
///
/// # Errors
///
/// Fails if the exchange or a process cannot be started, or `take` fails.
pub fn launch(
    host: &dyn Host,
    task: &Task,
    benchmark: &str,
    number: u32,
    size: usize,
    stop: &AtomicBool,
    mut take: impl FnMut(Line) -> Result<(), Failure>,
) -> Result<Ended, Failure> {
    let system = |doing| move |source| Failure::System { doing, source };
    let secret = Secret::random();
    let hub = Hub::listen("127.0.0.1:0", LOCAL_JOB, &secret, size)
        .map_err(system("listen for the exchange"))?;
    let directory = RuntimeDirectory::open(host)?;
    let page = Page::new(&directory);
    let mut launched = Launched {
        children: Vec::new(),
        hub: &hub,
    };
    let mut output = None;
    for rank in 0..size {
        let plan = Plan {
            benchmark: benchmark.to_owned(),
            launch: number,
            task: task.clone(),
            rank,
            size,
            hub: hub.address().to_string(),
            secret: secret.reveal().to_owned(),
            page: directory.path(&page.name),
        };
        let mut child = spawn(&plan).map_err(system("start a process"))?;
        if rank == 0 {
            output = child.stdout.take();
        }
        launched.children.push(child);
    }
    let records = listen(output.expect("process 0 has its output piped"));
    let started = Instant::now();
    let mut deadline = started + LONGEST;
    let mut trouble = None;
    let mut signalled = false;
    let mut told = false;
    let mut open = true;
    while open || !launched.all_ended() {
        match records.recv_timeout(Duration::from_millis(20)) {
            Ok(Line::End(end)) => {
                if end.outcome == "complete" {
                    hub.expect_ends();
                } else if trouble.is_none() {
                    trouble = end.reason;
                }
            }
            Ok(line) => take(line)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                open = false;
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        if let Some(found) = launched.look() {
            if found.signalled && !signalled {
                signalled = true;
                trouble = Some(found.reason);
            } else {
                trouble.get_or_insert(found.reason);
            }
            deadline = deadline.min(Instant::now() + GRACE);
        }
        if stop.load(Ordering::Relaxed) && !told {
            told = true;
            deadline = deadline.min(Instant::now() + STOP_GRACE);
            launched.interrupt();
        }
        if launched.only_hung_left() {
            trouble.get_or_insert_with(|| hanging(&hub.absent()));
            // The signal that ends it is then not the cause.
            signalled = true;
            launched.end();
        }
        if Instant::now() > deadline {
            let late = format!(
                "ended after {} s without result",
                started.elapsed().as_secs()
            );
            trouble.get_or_insert(late);
            signalled = true;
            launched.end();
        }
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(Ended::Interrupted);
    }
    Ok(trouble.map_or(Ended::Well, Ended::Failed))
}

/// Returns the message on hung processes.
fn hanging(ranks: &[usize]) -> String {
    let numbers: Vec<String> = ranks.iter().map(usize::to_string).collect();
    match ranks {
        [one] => format!("process {one} does not respond"),
        _ => format!("processes {} hang", numbers.join(", ")),
    }
}

fn spawn(plan: &Plan) -> std::io::Result<Child> {
    let text = serde_json::to_string(plan).expect("a plan is plain data");
    let output = if plan.rank == 0 {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    Command::new(std::env::current_exe()?)
        .arg("__process")
        .env(VARIABLE, text)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
}

fn listen(output: impl Read + Send + 'static) -> Receiver<Line> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            // Skips a line truncated by a dying process.
            if let Ok(line) = serde_json::from_str(&line)
                && sender.send(line).is_err()
            {
                return;
            }
        }
    });
    receiver
}

struct Trouble {
    reason: String,
    signalled: bool,
}

/// The processes of a launch.
struct Launched<'a> {
    children: Vec<Child>,
    hub: &'a Hub,
}

impl Launched<'_> {
    fn all_ended(&mut self) -> bool {
        self.children
            .iter_mut()
            .all(|child| matches!(child.try_wait(), Ok(Some(_)) | Err(_)))
    }

    /// Returns whether the only processes left are hung ones, which will not end by themselves.
    fn only_hung_left(&mut self) -> bool {
        let absent = self.hub.absent();
        !absent.is_empty()
            && self.children.iter_mut().enumerate().all(|(rank, child)| {
                absent.contains(&rank) || matches!(child.try_wait(), Ok(Some(_)) | Err(_))
            })
    }

    /// Finds a failed process, notifies the others, and returns the reason. A process ended by a
    /// signal takes precedence, because the others' errors follow from it.
    fn look(&mut self) -> Option<Trouble> {
        let mut bad: Vec<(usize, ExitStatus)> = Vec::new();
        for (rank, child) in self.children.iter_mut().enumerate() {
            if let Ok(Some(status)) = child.try_wait()
                && !status.success()
            {
                bad.push((rank, status));
            }
        }
        let (rank, status) = *bad
            .iter()
            .find(|(_, status)| status.signal().is_some())
            .or(bad.first())?;
        self.hub.declare_lost(rank);
        let mut said = String::new();
        if let Some(mut errors) = self.children[rank].stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        let said = said.trim();
        let words = if said.is_empty() {
            String::new()
        } else {
            format!(": {said}")
        };
        Some(Trouble {
            reason: format!("process {rank} ended with {status}{words}"),
            signalled: status.signal().is_some(),
        })
    }

    /// Forwards an interrupt: one sent to this process alone is meant for all of them. A terminal
    /// has already signalled them; a second signal has no effect.
    fn interrupt(&mut self) {
        // The process id of a child that was waited for may belong to another process.
        for child in &mut self.children {
            if let (Ok(None), Some(pid)) = (child.try_wait(), Pid::from_raw(child.id() as i32)) {
                let _ = kill_process(pid, Signal::INT);
            }
        }
    }

    fn end(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
    }
}

impl Drop for Launched<'_> {
    fn drop(&mut self) {
        self.end();
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// The file of the page for barriers, removed after the launch.
struct Page<'a> {
    directory: &'a RuntimeDirectory,
    name: String,
    _scratch: Scratch,
}

impl Page<'_> {
    fn new(directory: &RuntimeDirectory) -> Page<'_> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("start-{}-{number}", std::process::id());
        let _scratch = Scratch::new(&directory.path(&name));
        Page {
            directory,
            name,
            _scratch,
        }
    }
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        self.directory.remove(&self.name);
    }
}

//! A running `mpirun`: started, told to end, waited for.

use crate::failure::Failure;
use crate::helpers;
use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long its processes have to end by themselves when it is told to end.
const PROCESSES_GRACE: Duration = Duration::from_millis(400);
/// How long it has to end its processes when it is told to.
const GRACE: Duration = Duration::from_secs(8);
/// The most that is kept of what is said on the error stream.
const SAID: u64 = 1 << 14;

/// A launcher at work.
pub struct Mpirun {
    child: Child,
    said: JoinHandle<String>,
    told: Option<Instant>,
    /// Whether its processes were ended.
    hurried: bool,
}

impl Mpirun {
    /// Starts it; its output is the caller's to read.
    pub fn start(mut command: Command, launcher: &Path) -> Result<(Mpirun, ChildStdout), Failure> {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|error| Failure::of_exec(launcher.display().to_string(), error))?;
        let output = child.stdout.take().expect("its output is piped");
        let errors = child.stderr.take().expect("its errors are piped");
        let said = std::thread::spawn(move || keep(errors));
        let mpirun = Mpirun {
            child,
            said,
            told: None,
            hurried: false,
        };
        Ok((mpirun, output))
    }

    /// Has it end its processes; called again, ends those that are late.
    pub fn tell_to_end(&mut self) {
        if let Some(told) = self.told {
            if !self.hurried && told.elapsed() > PROCESSES_GRACE {
                self.hurried = true;
                helpers::end_leaves(self.child.id());
            }
            return;
        }
        self.told = Some(Instant::now());
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Whether it was told and does not end.
    pub fn is_overdue(&self) -> bool {
        self.told.is_some_and(|told| told.elapsed() > GRACE)
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.try_wait().map_err(|source| Failure::System {
            doing: "wait for mpirun",
            source,
        })
    }

    /// Waits for its end, not for ever if it was told to; gives what it said on its error stream too.
    pub fn end(mut self) -> Result<(ExitStatus, String), Failure> {
        let status = loop {
            if let Some(status) = self.ended()? {
                break status;
            }
            if self.told.is_some() {
                self.tell_to_end();
            }
            if self.is_overdue() {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        // What outlives a launcher that was killed may hold its error stream for ever.
        let said = match self.is_overdue() {
            true => String::new(),
            false => self.said.join().unwrap_or_default(),
        };
        Ok((status, said))
    }
}

/// What is wrong with how it ended, if anything is.
pub fn trouble(status: ExitStatus, said: &str) -> Option<String> {
    let words = match said.is_empty() {
        true => String::new(),
        false => format!(": {said}"),
    };
    (!status.success()).then(|| format!("mpirun ended with {status}{words}"))
}

/// The first of what is said; the rest is read and dropped, so that nobody waits for room.
fn keep(mut errors: impl Read) -> String {
    let mut said = Vec::new();
    let _ = (&mut errors).take(SAID).read_to_end(&mut said);
    let _ = std::io::copy(&mut errors, &mut std::io::sink());
    String::from_utf8_lossy(&said).trim().to_owned()
}

//! Controls a running `mpirun`: start, termination, wait.

use rustix::process::{Pid, Signal, kill_process};
use std::io::Read;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use verbena_bench::Failure;
use verbena_bench::descendants;

/// Time for its processes to end by themselves after a request to end.
const PROCESSES_GRACE: Duration = Duration::from_millis(400);
/// Time for the launcher to end its processes after the request.
const GRACE: Duration = Duration::from_secs(8);
/// Most bytes kept of its standard error.
const SAID: u64 = 1 << 14;

pub struct Mpirun {
    child: Child,
    said: JoinHandle<String>,
    told: Option<Instant>,
    /// Whether its processes were killed.
    hurried: bool,
}

impl Mpirun {
    /// Starts the launcher; the caller reads its standard output.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be executed.
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

    /// Sends SIGTERM; a call after [`PROCESSES_GRACE`] kills the remaining processes.
    pub fn tell_to_end(&mut self) {
        if let Some(told) = self.told {
            if !self.hurried && told.elapsed() > PROCESSES_GRACE {
                self.hurried = true;
                descendants::end_leaves(self.child.id());
            }
            return;
        }
        self.told = Some(Instant::now());
        if let Some(pid) = Pid::from_raw(self.child.id() as i32) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Returns whether the time after the request to end has run out.
    pub fn is_overdue(&self) -> bool {
        self.told.is_some_and(|told| told.elapsed() > GRACE)
    }

    /// Returns the exit status if the launcher has ended.
    ///
    /// # Errors
    ///
    /// Fails if the system call does.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.try_wait().map_err(|source| Failure::System {
            doing: "wait for mpirun",
            source,
        })
    }

    /// Waits for the end, after a request at most for [`GRACE`]; returns the exit status and
    /// standard error.
    ///
    /// # Errors
    ///
    /// Fails if the system call does.
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
        // A process that survives a killed launcher may keep its standard error open forever.
        let said = match self.is_overdue() {
            true => String::new(),
            false => self.said.join().unwrap_or_default(),
        };
        Ok((status, said))
    }
}

/// Returns a message if the launcher failed.
pub fn trouble(status: ExitStatus, said: &str) -> Option<String> {
    let words = match said.is_empty() {
        true => String::new(),
        false => format!(": {said}"),
    };
    (!status.success()).then(|| format!("mpirun ended with {status}{words}"))
}

/// Returns the beginning of the stream; reads all of it, so that the writer does not block.
fn keep(mut errors: impl Read) -> String {
    let mut said = Vec::new();
    let _ = (&mut errors).take(SAID).read_to_end(&mut said);
    let _ = std::io::copy(&mut errors, &mut std::io::sink());
    String::from_utf8_lossy(&said).trim().to_owned()
}

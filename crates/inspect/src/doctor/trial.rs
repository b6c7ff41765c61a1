//! Runs two processes that exchange data on the adapter, and determines the path of each operation
//! from their counters.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use verbena_hca::describe;
use verbena_hca_shm::registry;

use super::probe::Probe;
use super::trial_process::{CHECK, DONE, MISTAKE, Operation};
use crate::info::Answer;

/// Time without an answer after which a process counts as hung. Each step takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The paths taken, by name of the operation.
pub type Taken = BTreeMap<&'static str, BTreeSet<String>>;

/// Runs a trial between two processes of kind `end`, over this path or the adapter's choice.
///
/// # Errors
///
/// States what failed.
pub fn run(end: Probe, path: Option<&str>) -> Result<Taken, String> {
    let path = path.map(|path| ("VERBENA_PATH", path.to_owned()));
    let mut trial = Trial::start(end, path.as_slice(), TIMEOUT)?;
    let outcome = trial.exchange();
    let said = trial.end();
    outcome.map_err(|reason| message_or(said, reason))
}

/// Returns a process's own message, which is more precise, or else the reason.
pub fn message_or(said: [String; 2], reason: String) -> String {
    let said = said.into_iter().find(|words| !words.is_empty());
    said.unwrap_or(reason)
}

/// Two processes on the adapter, connected to each other.
pub struct Trial {
    ends: [Side; 2],
    are_connected: bool,
}

impl Trial {
    /// Starts both processes with additional variables. A process silent for `timeout` counts as
    /// hung.
    ///
    /// # Errors
    ///
    /// States which process cannot be started.
    pub fn start(
        end: Probe,
        variables: &[(&str, String)],
        timeout: Duration,
    ) -> Result<Trial, String> {
        let start = || {
            let mut command = end.command().map_err(|error| error.to_string())?;
            for (name, value) in variables {
                command.env(name, value);
            }
            Side::start(command, timeout)
        };
        Ok(Trial {
            ends: [start()?, start()?],
            are_connected: false,
        })
    }

    /// Returns the process ids.
    pub fn pids(&self) -> [u32; 2] {
        self.ends.each_ref().map(|end| end.child.id())
    }

    /// Performs each operation in both directions and compares every received byte; returns the
    /// paths taken.
    ///
    /// # Errors
    ///
    /// States what failed.
    pub fn exchange(&mut self) -> Result<Taken, String> {
        self.connect()?;
        let [first, second] = &mut self.ends;
        let mut taken = Taken::new();
        for operation in Operation::ALL {
            let name = operation.name();
            let before = counted([first, second])?;
            command_both([first, second], name)?;
            command_both([first, second], &format!("{CHECK}{name}"))?;
            let after = counted([first, second])?;
            let grown = after
                .into_iter()
                .filter(|(name, value)| before.get(name).is_none_or(|old| value > old));
            taken.insert(name, grown.map(|(name, _)| name).collect());
        }
        Ok(taken)
    }

    /// Lets the first process write to memory of the second without remote write access; returns
    /// the status of the completion.
    ///
    /// # Errors
    ///
    /// States what failed.
    pub fn mistake(&mut self) -> Result<String, String> {
        self.connect()?;
        self.ends[0].send(MISTAKE)?;
        self.ends[0].receive()
    }

    fn connect(&mut self) -> Result<(), String> {
        if self.are_connected {
            return Ok(());
        }
        let [first, second] = &mut self.ends;
        let (one, other) = (first.receive()?, second.receive()?);
        first.send(&other)?;
        second.send(&one)?;
        done([first, second])?;
        self.are_connected = true;
        Ok(())
    }

    /// Ends both processes; returns their standard error.
    pub fn end(mut self) -> [String; 2] {
        if self.ends.iter().any(|end| end.given_up) {
            // The peer of a hung process may hang too.
            self.ends.iter_mut().for_each(Side::give_up);
        }
        self.ends.map(Side::end)
    }
}

/// Sends the same command to both and waits for both answers.
fn command_both(ends: [&mut Side; 2], line: &str) -> Result<(), String> {
    let [first, second] = ends;
    first.send(line)?;
    second.send(line)?;
    done([first, second])
}

fn done(ends: [&mut Side; 2]) -> Result<(), String> {
    for end in ends {
        let line = end.receive()?;
        if line != DONE {
            return Err(format!(
                "a test process printed unexpected output: {line:?}"
            ));
        }
    }
    Ok(())
}

/// Returns the operations by path, summed over both processes, from the counters for `verbena
/// info`.
fn counted(ends: [&mut Side; 2]) -> Result<BTreeMap<String, u64>, String> {
    let pids = ends.map(|end| end.child.id());
    let answers = describe::processes(&registry::directory()).map_err(|error| error.to_string())?;
    let mut sums = BTreeMap::new();
    for (pid, text) in answers.into_iter().filter(|(pid, _)| pids.contains(pid)) {
        match Answer::of(pid, text) {
            Answer::Silent { reason, .. } => return Err(reason),
            Answer::Said(said) => {
                for (name, value) in said.counters {
                    if let Some(path) = name.strip_suffix("_path_operations") {
                        *sums.entry(path.to_owned()).or_default() += value;
                    }
                }
            }
        }
    }
    Ok(sums)
}

/// A process of the trial, seen from the parent.
struct Side {
    child: Child,
    /// Closing it ends the process.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    timeout: Duration,
    given_up: bool,
}

impl Side {
    fn start(mut command: Command, timeout: Duration) -> Result<Side, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start a process: {error}"))?;
        let commands = child.stdin.take();
        let answers = child.stdout.take().map(BufReader::new);
        Ok(Side {
            child,
            commands,
            timeout,
            given_up: false,
            answers: answers.ok_or("a pipe is missing")?,
        })
    }

    fn send(&mut self, line: &str) -> Result<(), String> {
        let commands = self
            .commands
            .as_mut()
            .ok_or("the test process has been stopped")?;
        writeln!(commands, "{line}").map_err(|error| format!("a process ended: {error}"))
    }

    /// Reads the next line of its output.
    fn receive(&mut self) -> Result<String, String> {
        if self.answers.buffer().is_empty() && !self.has_output()? {
            self.give_up();
            let seconds = self.timeout.as_secs();
            return Err(format!("a test process did not answer for {seconds} s"));
        }
        let mut line = String::new();
        match self.answers.read_line(&mut line) {
            Ok(length) if length > 0 => Ok(line.trim_end().to_owned()),
            _ => Err("a test process ended early".to_owned()),
        }
    }

    /// Kills the process, which will not end by itself.
    fn give_up(&mut self) {
        self.given_up = true;
        let _ = self.child.kill();
    }

    /// Waits until output or its end can be read; false after `timeout`.
    fn has_output(&self) -> Result<bool, String> {
        let limit = Timespec::try_from(self.timeout).map_err(|error| error.to_string())?;
        loop {
            let mut answers = [PollFd::new(self.answers.get_ref(), PollFlags::IN)];
            match poll(&mut answers, Some(&limit)) {
                Ok(count) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Waits for the process to end. Returns its standard error or, if that is empty, the signal
    /// that ended it, unless this process sent it.
    fn end(mut self) -> String {
        drop(self.commands.take());
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            let _ = errors.read_to_string(&mut said);
        }
        let killed = self.child.wait().ok().filter(|how| how.code().is_none());
        match killed {
            Some(how) if said.trim().is_empty() && !self.given_up => how.to_string(),
            _ => said.trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hung_process_is_killed_after_the_timeout() {
        let mut command = Command::new("sleep");
        command.arg("infinity");
        let mut side = Side::start(command, Duration::from_millis(10)).unwrap();
        let said = side.receive().unwrap_err();
        assert!(said.contains("did not answer"), "{said}");
        assert_eq!(side.end(), "");
    }
}

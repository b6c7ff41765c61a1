//! Runs a program as a child and forwards signals to it.
//!
//! A signal from the terminal (Ctrl-C) reaches the whole foreground process group, including the
//! child, and is not forwarded; a signal that a process sent to this one alone is meant for the
//! child and is forwarded. SIGKILL and SIGSTOP cannot be caught.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGCHLD, SIGQUIT, SIGUSR1, SIGUSR2};
pub use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

/// Has the kernel kill this process when the one that started it ends.
///
/// # Errors
/// The system's; or the starter, whose number `parent` is, has ended already.
pub fn end_with(parent: u32) -> std::io::Result<()> {
    let kill = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(kill)?;
    let now = rustix::process::getppid().map_or(0, |now| now.as_raw_nonzero().get() as u32);
    match now == parent {
        true => Ok(()),
        false => Err(std::io::Error::other(
            "the process that started this one has ended",
        )),
    }
}

/// The reason why a program cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The command exists, but the kernel does not execute it.
    #[error("cannot execute {command:?}: {source}")]
    NotExecutable {
        /// The command as typed.
        command: String,
        /// The system's error.
        source: io::Error,
    },

    /// The command is in no directory of PATH.
    #[error("cannot find the command {0:?}; give its path, or check PATH")]
    NotFound(String),

    /// A system call failed.
    #[error("cannot {doing}: {source}")]
    System {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl Failure {
    /// Converts an error of `exec` to the shell's two categories.
    pub fn of_exec(command: String, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Failure::NotFound(command),
            _ => Failure::NotExecutable { command, source },
        }
    }
}

/// Has the kernel keep the exit status of children for this process, which it does not where
/// SIGCHLD is ignored (wait(2)); a process inherits that from the one that started it. Not for a
/// process that executes the user's program in its place: that program is to inherit the setting.
///
/// # Errors
///
/// Fails if the signal cannot be caught.
pub fn keep_children() -> Result<(), Failure> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    if is_ignored(&status, SIGCHLD) {
        // Programs that this process starts have the default, which execve(2) sets for caught
        // signals, not the inherited setting.
        let caught = signal_hook::flag::register(SIGCHLD, Arc::default());
        caught.map_err(no_signals)?;
    }
    Ok(())
}

/// Returns whether a process with this text of /proc/PID/status (proc(5)) ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Returns a flag that these signals set.
///
/// # Errors
///
/// Fails if signals cannot be caught.
pub fn stop_at(signals: &[i32]) -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(*signal, Arc::clone(&stop)).map_err(no_signals)?;
    }
    Ok(stop)
}

fn no_signals(source: io::Error) -> Failure {
    Failure::System {
        doing: "catch signals",
        source,
    }
}

/// Runs `command` to its end; `name` is its name for messages.
///
/// # Errors
///
/// Fails if the command cannot be executed or signals cannot be caught.
pub fn run(mut command: Command, name: impl Fn() -> String) -> Result<ExitStatus, Failure> {
    // Before the child exists, so that no signal in between ends this process and orphans the
    // child.
    let mut signals = SignalsInfo::<WithOrigin>::new(PASSED_ON).map_err(no_signals)?;
    let handle = signals.handle();

    let mut child = command
        .spawn()
        .map_err(|error| Failure::of_exec(name(), error))?;
    // A process id is positive and fits into an i32.
    let pid = Pid::from_raw(child.id() as i32).expect("a child has a process number");

    let forwarder = thread::spawn(move || {
        for origin in &mut signals {
            let from_a_process = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::TKill | Sent::Queue)
            );
            if let (true, Some(signal)) = (from_a_process, Signal::from_named_raw(origin.signal)) {
                // Fails if the child has already ended.
                let _ = kill_process(pid, signal);
            }
        }
    });

    let status = wait(&mut child);
    handle.close();
    // A panic of the forwarder leaves no resource in an inconsistent state.
    let _ = forwarder.join();
    status
}

fn wait(child: &mut std::process::Child) -> Result<ExitStatus, Failure> {
    loop {
        match child.wait() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(source) => {
                return Err(Failure::System {
                    doing: "wait for the program",
                    source,
                });
            }
            Ok(status) => return Ok(status),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_those_of_the_mask() {
        let status = "Name:\tsh\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000011000\n";
        assert!(is_ignored(status, SIGCHLD));
        assert!(!is_ignored(status, SIGTERM));
        assert!(!is_ignored("", SIGCHLD));
    }
}

//! Runs a program as a child and forwards signals to it.
//!
//! A signal from the terminal (Ctrl-C) reaches the whole foreground process group, including the
//! child, and is not forwarded; a signal that a process sent to this one alone is meant for the
//! child and is forwarded. SIGKILL and SIGSTOP cannot be caught.

use std::io;
use std::process::{Command, ExitStatus};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::low_level::siginfo::{Cause, Sent};

use crate::failure::Failure;

const PASSED_ON: [i32; 6] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2];

/// Runs `command` to its end; `name` is its name for messages.
///
/// # Errors
///
/// Fails if the command cannot be executed or signals cannot be caught.
pub fn run(mut command: Command, name: impl Fn() -> String) -> Result<ExitStatus, Failure> {
    // Before the child exists, so that no signal in between ends this process and orphans the
    // child.
    let mut signals =
        SignalsInfo::<WithOrigin>::new(PASSED_ON).map_err(|source| Failure::System {
            doing: "catch signals",
            source,
        })?;
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

//! Runs a program as a child and passes signals on to it.
//!
//! A signal that the terminal sends (Ctrl-C) reaches the whole foreground group, the child
//! included, and is not sent a second time; a signal that a process sent to us alone is meant for
//! the child and goes to it. SIGKILL and SIGSTOP cannot be passed on by anybody.

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

/// Runs `command` to its end. `name` is what it is called in a message.
pub fn run(mut command: Command, name: impl Fn() -> String) -> Result<ExitStatus, Failure> {
    // Before the child exists, so that no signal in between ends us and leaves it alone.
    let mut signals =
        SignalsInfo::<WithOrigin>::new(PASSED_ON).map_err(|source| Failure::System {
            doing: "catch signals",
            source,
        })?;
    let handle = signals.handle();

    let mut child = command
        .spawn()
        .map_err(|error| Failure::of_exec(name(), error))?;
    // A process number is positive and fits.
    let pid = Pid::from_raw(child.id() as i32).expect("a child has a process number");

    let forwarder = thread::spawn(move || {
        for origin in &mut signals {
            let from_a_process = matches!(
                origin.cause,
                Cause::Sent(Sent::User | Sent::TKill | Sent::Queue)
            );
            if let (true, Some(signal)) = (from_a_process, Signal::from_named_raw(origin.signal)) {
                // The child may have ended already; there is nobody left to tell.
                let _ = kill_process(pid, signal);
            }
        }
    });

    let status = wait(&mut child);
    handle.close();
    // The forwarder holds no resource that its panic could leave half done.
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

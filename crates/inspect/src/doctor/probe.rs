//! Checks that run in a separate process, because they may crash it, and because the adapter's
//! messages on standard error are part of the result.

use std::env;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use verbena_hca_net::link;
use verbena_hca_net::roce::shared_port::SharedPort;
use verbena_hca_os::errno::Errno;
use verbena_hca_shm::registry::{self, Registry};
use verbena_ipoib::namespace::{self, IPV6_MTU, Plan};
use verbena_run::mount;

use super::trial_process;
use crate::doctor::Failure;

/// What to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Probe {
    /// One end of a trial.
    End,
    /// One end of a trial, in a process of two threads.
    ThreadedEnd,
    /// Entering the registry.
    Registry,
    /// Taking part in UDP port 4791.
    Port,
    /// Making the namespaces and the interface of `verbena ipoib`.
    Ipoib,
    /// Making the namespaces and the mounts of `verbena fabric exec --mount`.
    Mount,
}

impl Probe {
    /// Returns the command that runs the check.
    ///
    /// # Errors
    ///
    /// Fails if the path of this executable is unknown.
    pub fn command(self) -> Result<Command, Failure> {
        let name = match self {
            Probe::End => "end",
            Probe::ThreadedEnd => "threaded-end",
            Probe::Registry => "registry",
            Probe::Port => "port",
            Probe::Ipoib => "ipoib",
            Probe::Mount => "mount",
        };
        let executable = env::current_exe().map_err(Failure::Start)?;
        let mut command = Command::new(executable);
        command.args(["__doctor", name]);
        Ok(command)
    }

    /// Runs the check in another process. Returns its standard error, or the exit status if it
    /// failed without a message.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started.
    pub fn outcome(mut command: Command) -> Result<Result<String, String>, Failure> {
        let Output { status, stderr, .. } = command.output().map_err(Failure::Start)?;
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Ok(match status.success() {
            true => Ok(said),
            false if said.is_empty() => Err(status.to_string()),
            false => Err(said),
        })
    }

    /// Runs the check in this process. Returns whether it passed; if not, the reason is on standard
    /// error.
    ///
    /// # Errors
    ///
    /// Fails if the check cannot run, or with its result.
    pub fn run(self) -> Result<bool, Failure> {
        match self {
            Probe::End => trial_process::play()?,
            Probe::ThreadedEnd => {
                // Parked until this process ends.
                thread::spawn(|| {
                    loop {
                        thread::park();
                    }
                });
                trial_process::play()?;
            }
            Probe::Registry => {
                let path = registry::directory();
                let (registry, identity, _listener) = Registry::enter(&path)
                    .map_err(|error| Failure::Probe(refusal(&path, error)))?;
                registry.leave(identity);
            }
            Probe::Port => {
                // Both print the reason on standard error.
                if link::chosen().is_err() || SharedPort::join().is_err() {
                    return Ok(false);
                }
            }
            Probe::Ipoib => {
                let plan = Plan {
                    name: "ib0".to_owned(),
                    mtu: IPV6_MTU,
                    addresses: Vec::new(),
                    link_local: None,
                    link: None,
                };
                namespace::enter(&plan).map_err(|error| Failure::Probe(error.to_string()))?;
            }
            Probe::Mount => {
                // Any directory does.
                let any = env::temp_dir();
                mount::enter(&[("infiniband", &any)])
                    .map_err(|error| Failure::Probe(error.to_string()))?;
            }
        }
        Ok(true)
    }
}

/// Returns the adapter's message for a registry that cannot be entered.
fn refusal(path: &Path, error: Errno) -> String {
    format!(
        "cannot use {}: {}",
        path.display(),
        registry::obstacle(error)
    )
}

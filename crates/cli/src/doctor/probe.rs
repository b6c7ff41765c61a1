//! What is tried in a process of its own: it may die of it, and what the adapter says on standard error is part of the answer.

use std::env;
use std::path::Path;
use std::process::{Command, Output};
use std::thread;

use verbena_hca::errno::Errno;
use verbena_hca::link;
use verbena_hca::roce::pool::Pool;
use verbena_hca::shm::registry::{self, Registry};

use super::end;
use crate::exit::Exit;
use crate::failure::Failure;

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
}

impl Probe {
    /// The command that tries it.
    pub fn command(self) -> Result<Command, Failure> {
        let name = match self {
            Probe::End => "end",
            Probe::ThreadedEnd => "threaded-end",
            Probe::Registry => "registry",
            Probe::Port => "port",
        };
        let executable = env::current_exe().map_err(system)?;
        let mut command = Command::new(executable);
        command.args(["__doctor", name]);
        Ok(command)
    }

    /// Tries it in another process. What it said, or how it ended if it failed without a word.
    pub fn outcome(mut command: Command) -> Result<Result<String, String>, Failure> {
        let Output { status, stderr, .. } = command.output().map_err(system)?;
        let said = String::from_utf8_lossy(&stderr).trim().to_owned();
        Ok(match status.success() {
            true => Ok(said),
            false if said.is_empty() => Err(status.to_string()),
            false => Err(said),
        })
    }

    /// Tries it in this process.
    pub fn run(self) -> Result<Exit, Failure> {
        match self {
            Probe::End => end::play()?,
            Probe::ThreadedEnd => {
                // Waits until this process ends.
                thread::spawn(|| {
                    loop {
                        thread::park();
                    }
                });
                end::play()?;
            }
            Probe::Registry => {
                let path = registry::directory();
                let (registry, identity, _listener) = Registry::enter(&path)
                    .map_err(|error| Failure::Suite(refusal(&path, error)))?;
                registry.leave(identity);
            }
            Probe::Port => {
                // Both say on standard error what is wrong.
                if link::chosen().is_err() || Pool::join().is_err() {
                    return Ok(Exit::Environment);
                }
            }
        }
        Ok(Exit::Success)
    }
}

/// Why the registry cannot be entered, as the adapter says it.
fn refusal(path: &Path, error: Errno) -> String {
    format!(
        "{} cannot be used: {}",
        path.display(),
        registry::obstacle(error)
    )
}

fn system(source: std::io::Error) -> Failure {
    Failure::System {
        doing: "start a process",
        source,
    }
}

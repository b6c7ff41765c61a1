//! Checks which features of the adapter this machine, container or seccomp profile allows, for
//! `verbena doctor`.
//!
//! Where possible the check uses the adapter itself: two processes exchange data on it (`trial`),
//! once with default settings and once for each path. To give the reason for a failure, the
//! adapter's functions test single system calls.

mod finding;
mod installed;
mod kernel;
mod machine;
mod network;
mod paths;
mod probe;
mod runtime_directory;
mod trial;
mod trial_process;

pub use finding::{Examination, Finding, State};
pub use probe::Probe;
pub use trial::{Taken, Trial, message_or};
pub use trial_process::{LENGTH, Operation};

use verbena_run::libraries;

/// The reason why a check cannot run.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The adapter's libraries are not where this executable expects them.
    #[error(transparent)]
    Libraries(#[from] libraries::Failure),

    /// A check in a separate process failed.
    #[error("{0}")]
    Probe(String),

    /// A separate process cannot be started.
    #[error("cannot start a process: {0}")]
    Start(#[from] std::io::Error),
}

/// Runs all checks, in a second or two.
///
/// # Errors
///
/// Fails if a process cannot be started.
pub fn examine() -> Result<Examination, Failure> {
    let program = trial::run(Probe::End, None);
    let runs = program.is_ok();
    let mut findings = vec![paths::programs(&program), runtime_directory::finding()?];
    findings.extend(paths::each());
    findings.extend(kernel::findings());
    findings.extend(network::findings()?);
    findings.extend(installed::findings());
    findings.extend(machine::findings());
    Ok(Examination { runs, findings })
}

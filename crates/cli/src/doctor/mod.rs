//! Checks which features of the adapter this machine, container or seccomp profile allows, for
//! `verbena doctor`.
//!
//! Where possible the check uses the adapter itself: two processes exchange data on it ([`trial`]),
//! once with default settings and once for each path. To give the reason for a failure, the
//! adapter's functions test single system calls.

pub(crate) mod end;
mod finding;
mod installed;
mod kernel;
mod machine;
mod network;
mod paths;
mod probe;
mod runtime_directory;
pub(crate) mod trial;

pub use finding::Examination;
pub use probe::Probe;

use crate::failure::Failure;

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

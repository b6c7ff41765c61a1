//! What this machine, container or seccomp profile lets the adapter do: for `verbena doctor`.
//!
//! What can be tried is tried with the adapter itself and not guessed: two processes exchange data on it ([`trial`]), once as
//! any program would and once for each path. Single system calls are asked for by the adapter's own functions, to say why.

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

/// Looks at everything. Takes a second or two.
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

//! Checks the runtime directory, through which processes find each other.

use std::path::{Path, PathBuf};

use verbena_hca_shm::registry;
use verbena_measure::unit;

use super::finding::Finding;
use super::probe::Probe;
use crate::doctor::Failure;

/// Space for the registry and sockets. The registry is removed with its last process, so the next
/// one needs the space again (`hca-shm/src/registry/layout.rs`).
const LEAST: u64 = 1 << 20;

/// Checks that the directory can be created and used.
///
/// # Errors
///
/// Fails if a process cannot be started.
pub fn finding() -> Result<Finding, Failure> {
    let subject = "runtime directory";
    let path = registry::directory();
    let room = room(&path);
    let size = room.map_or("?".to_owned(), |bytes| unit::size(bytes as f64));
    let is_full = room.is_some_and(|bytes| bytes < LEAST);
    let outcome = Probe::outcome(Probe::Registry.command()?)?;
    Ok(match outcome {
        Err(reason) if is_full => Finding::missing(
            subject,
            format!("{} has {size} left ({reason})", path.display()),
        )
        .advise(format!(
            "free at least {}, or set VERBENA_RUNTIME_DIR to another directory",
            unit::size(LEAST as f64)
        )),
        Err(reason) => Finding::missing(subject, reason).advise(
            "set VERBENA_RUNTIME_DIR to a writable directory of your own, preferably in \
                     memory",
        ),
        Ok(_) if is_full => {
            Finding::limited(subject, format!("{} has {size} left", path.display()))
                .advise("free space, or set VERBENA_RUNTIME_DIR: the next program may fail")
        }
        Ok(_) => Finding::ok(
            subject,
            format!(
                "{}, {size} left; registered memory is not stored there",
                path.display()
            ),
        ),
    })
}

/// Returns the bytes available to a user in the file system of a directory, which need not exist
/// yet.
fn room(path: &Path) -> Option<u64> {
    let ancestors: Vec<PathBuf> = path.ancestors().map(Path::to_path_buf).collect();
    let system = ancestors
        .iter()
        .find_map(|ancestor| rustix::fs::statvfs(ancestor).ok())?;
    Some(system.f_bavail * system.f_frsize)
}

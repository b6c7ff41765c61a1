//! Where processes find each other.

use std::path::{Path, PathBuf};

use verbena_hca::shm::registry;
use verbena_measure::unit;

use super::finding::Finding;
use super::probe::Probe;
use crate::failure::Failure;

/// What the registry needs, and something for sockets. It is removed with its last process, so that the next one needs room
/// for it again (`hca/src/shm/registry/layout.rs`).
const LEAST: u64 = 1 << 20;

/// Whether it can be made and used.
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
        .advise(format!("make room, at least {}, or set VERBENA_RUNTIME_DIR to a directory elsewhere", unit::size(LEAST as f64))),
        Err(reason) => Finding::missing(subject, reason)
            .advise("set VERBENA_RUNTIME_DIR to a directory of your own that can be written, best in memory"),
        Ok(_) if is_full => Finding::limited(
            subject,
            format!("{} has {size} left", path.display()),
        )
        .advise("make room, or set VERBENA_RUNTIME_DIR: the next program may find none"),
        Ok(_) => Finding::ok(
            subject,
            format!(
                "{}, {size} left; registered memory does not lie there",
                path.display()
            ),
        ),
    })
}

/// Bytes that a user has left in the file system of a directory that may not be there yet.
fn room(path: &Path) -> Option<u64> {
    let ancestors: Vec<PathBuf> = path.ancestors().map(Path::to_path_buf).collect();
    let system = ancestors
        .iter()
        .find_map(|ancestor| rustix::fs::statvfs(ancestor).ok())?;
    Some(system.f_bavail * system.f_frsize)
}

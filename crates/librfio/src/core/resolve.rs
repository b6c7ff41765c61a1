//! Resolves a path to local or remote, with the directory that `rfio_chdir` sets.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use verbena_rfio_client::{Address, Error, Location};
use verbena_rfio_protocol::types::Path;

use crate::ffi::invalid;

/// The remote directory for paths without a host, like the process's working directory for system
/// calls.
static REMOTE_DIRECTORY: Mutex<Option<(Address, Path)>> = Mutex::new(None);

/// The locked table.
pub type Guard = MutexGuard<'static, Option<(Address, Path)>>;

/// Locks the table, for fork(2).
pub fn lock() -> Guard {
    REMOTE_DIRECTORY
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

/// The location of a path.
pub enum ResolvedPath {
    /// Local.
    Local(PathBuf),
    /// On a server.
    Remote(Address, Path),
}

/// Resolves a path.
///
/// # Errors
/// [`Error::Setup`] for an invalid remote path.
pub fn find(text: &[u8]) -> Result<ResolvedPath, Error> {
    match Location::parse(text).map_err(|bad| Error::Setup(bad.to_string()))? {
        Location::Remote(address, path) => Ok(ResolvedPath::Remote(address, path)),
        Location::Local(local) => {
            let directory = REMOTE_DIRECTORY
                .lock()
                .unwrap_or_else(|poison| poison.into_inner());
            match (&*directory, text.starts_with(b"/")) {
                (Some((address, directory)), false) => {
                    let joined = [directory.as_bytes(), b"/", text].concat();
                    let path = Path::new(joined).ok_or_else(|| invalid("path"))?;
                    Ok(ResolvedPath::Remote(address.clone(), path))
                }
                _ => Ok(ResolvedPath::Local(local)),
            }
        }
    }
}

/// Sets the directory for relative paths; `None` is the process's working directory.
pub fn choose_directory(place: Option<(Address, Path)>) {
    *REMOTE_DIRECTORY
        .lock()
        .unwrap_or_else(|poison| poison.into_inner()) = place;
}

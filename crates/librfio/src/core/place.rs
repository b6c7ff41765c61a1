//! Where a path leads: here, or to a server; and the directory that `rfio_chdir` chose.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};

use verbena_rfio::client::{Address, Error, Location};
use verbena_rfio_protocol::types::Path;

use crate::door::invalid;

/// The remote directory for paths that name no host, as the process's working directory is for the system's calls.
static REMOTE_DIRECTORY: Mutex<Option<(Address, Path)>> = Mutex::new(None);

/// The table, locked.
pub type Guard = MutexGuard<'static, Option<(Address, Path)>>;

/// Locks it, for the time of a fork.
pub fn hold() -> Guard {
    REMOTE_DIRECTORY
        .lock()
        .unwrap_or_else(|poison| poison.into_inner())
}

/// Where a path leads.
pub enum Place {
    /// Here.
    Here(PathBuf),
    /// To a server.
    There(Address, Path),
}

/// Reads a path.
pub fn find(text: &[u8]) -> Result<Place, Error> {
    match Location::parse(text).map_err(|bad| Error::Setup(bad.to_string()))? {
        Location::Remote(address, path) => Ok(Place::There(address, path)),
        Location::Local(local) => {
            let directory = REMOTE_DIRECTORY
                .lock()
                .unwrap_or_else(|poison| poison.into_inner());
            match (&*directory, text.starts_with(b"/")) {
                (Some((address, directory)), false) => {
                    let joined = [directory.as_bytes(), b"/", text].concat();
                    let path = Path::new(joined).ok_or_else(|| invalid("path"))?;
                    Ok(Place::There(address.clone(), path))
                }
                _ => Ok(Place::Here(local)),
            }
        }
    }
}

/// Chooses the directory for relative paths; `None` is the process's own.
pub fn choose_directory(place: Option<(Address, Path)>) {
    *REMOTE_DIRECTORY
        .lock()
        .unwrap_or_else(|poison| poison.into_inner()) = place;
}

//! The directory that everything of a user's host lies in: made with the registry, removed by the last process out.

use super::Identity;
use crate::errno::{Errno, Result};
use crate::sys::socket::Socket;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Name of the registry file.
pub(super) const FILE: &str = "registry";

/// Name of the directory of what processes leave to be said to other hosts if they are killed.
const WILLS: &str = "wills";

/// What the names of directories with the device's files begin with, for programs that read sysfs.
/// Processes hold shared locks on them.
pub const TREE: &str = "sysfs-";

/// Name of the socket of whoever captures all processes.
const CAPTURE: &str = "capture";

/// Makes the runtime directory if it is not there.
///
/// # Errors
/// EPERM when another user owns it or may enter it.
pub fn prepare() -> Result<PathBuf> {
    let path = super::directory();
    make(&path)?;
    Ok(path)
}

/// Removes a directory with the device's files if no process uses it, and the runtime directory
/// with the last of them.
pub fn remove_tree(path: &Path) {
    remove_if_unused(path);
    if let Some(directory) = path.parent() {
        // Not empty where a process uses the adapter.
        let _ = fs::remove_dir(directory);
    }
}

fn remove_if_unused(tree: &Path) {
    let Ok(lock) = File::open(tree) else { return };
    // SAFETY: plain system call on a descriptor that we own.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        let _ = fs::remove_dir_all(tree);
    }
}

/// Where processes leave what is to be said if they are killed, in the directory of a registry. The connection manager makes
/// it, and knows what is in it.
pub fn wills(directory: &Path) -> PathBuf {
    directory.join(WILLS)
}

/// The directory, by name and by a descriptor: what is done in it is done through the descriptor, so that all of it is
/// of one directory even when another of the same name takes its place. And a long name overflows no socket address.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    handle: File,
}

impl Directory {
    /// Opens the directory and the registry file in it, making what is missing. None when the last process out has
    /// removed one of them meanwhile.
    ///
    /// # Errors
    /// EPERM when the directory belongs to somebody else or is open to others.
    pub(super) fn open(path: &Path) -> Result<Option<(Directory, File)>> {
        make(path)?;
        match open_file(path) {
            Ok((handle, file)) => {
                let path = path.to_owned();
                Ok(Some((Directory { path, handle }, file)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Where the socket of a process is.
    pub(super) fn socket(&self, identity: Identity) -> PathBuf {
        self.within(&format!("{}.{}", identity.slot, identity.generation))
    }

    /// Where whoever captures all processes is called.
    pub(super) fn capture_socket(&self) -> PathBuf {
        self.within(CAPTURE)
    }

    /// Removes everything, the directory too. Nobody lives here; but somebody may wait for processes to capture, and with
    /// him the directory stays.
    pub(super) fn remove(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Domains, ports and sockets of processes that were killed.
            if name.starts_with("xrcd-") || name.starts_with("cm-") || is_socket(&name) {
                let _ = fs::remove_file(self.within(&name));
            }
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TREE) {
                remove_if_unused(&entry.path());
            }
        }
        let _ = fs::remove_dir_all(self.within(WILLS));
        if let Err(Errno(libc::ECONNREFUSED)) = Socket::connect(&self.capture_socket()) {
            let _ = fs::remove_file(self.capture_socket());
        }
        let _ = fs::remove_file(self.within(FILE));
        let _ = fs::remove_dir(&self.path);
    }

    fn within(&self, name: &str) -> PathBuf {
        within(&self.handle, name)
    }
}

fn within(handle: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", handle.as_raw_fd()))
}

fn is_socket(name: &str) -> bool {
    name.split_once('.').is_some_and(|(slot, generation)| {
        slot.parse::<u32>().is_ok() && generation.parse::<u32>().is_ok()
    })
}

fn open_file(path: &Path) -> std::io::Result<(File, File)> {
    let handle = File::open(path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(within(&handle, FILE))?;
    Ok((handle, file))
}

fn make(path: &Path) -> Result<()> {
    let metadata = loop {
        match DirBuilder::new().mode(0o700).create(path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => (),
            Err(error) => return Err(error.into()),
        }
        match fs::symlink_metadata(path) {
            Ok(metadata) => break metadata,
            // Removed between the two calls.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error.into()),
        }
    };
    // SAFETY: geteuid cannot fail and touches nothing.
    let me = unsafe { libc::geteuid() };
    if !metadata.is_dir() || metadata.uid() != me || metadata.mode() & 0o077 != 0 {
        return Err(Errno::EPERM);
    }
    Ok(())
}

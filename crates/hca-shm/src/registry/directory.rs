//! The runtime directory with all files of a user's host: made with the registry, removed by the
//! last process to leave.

use super::Identity;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::socket::Socket;

/// Name of the registry file.
pub(super) const FILE: &str = "registry";
/// Name of the file with the nodes of emulated adapters, whose contents the adapter defines.
pub const EMULATION: &str = "emulation";

/// Name of the directory of death records: messages to be sent to other hosts if a process is
/// killed.
const DEATH_RECORDS: &str = "death_records";

/// Prefix of the names of directories with the device's files, for programs that read sysfs.
/// Processes hold shared locks on them.
pub const TREE: &str = "sysfs-";

/// Name of the socket of a capturer of all processes.
const CAPTURE: &str = "capture";

/// Makes the runtime directory if it does not exist.
///
/// # Errors
/// EPERM when another user owns it or may enter it; the system's.
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
        // Fails as long as a process uses the adapter, because the directory is not empty.
        let _ = fs::remove_dir(directory);
    }
}

fn remove_if_unused(tree: &Path) {
    let Ok(lock) = File::open(tree) else { return };
    // SAFETY: the call takes no pointers, and `lock` owns the descriptor.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        let _ = fs::remove_dir_all(tree);
    }
}

/// Returns the directory of death records in the directory of a registry. The connection manager
/// creates it and defines its contents.
pub fn death_records(directory: &Path) -> PathBuf {
    directory.join(DEATH_RECORDS)
}

/// The directory, by name and by a descriptor. All operations go through the descriptor, so that
/// they concern one directory even when another takes its name. A long name then cannot overflow a
/// socket address either.
pub(super) struct Directory {
    pub(super) path: PathBuf,
    handle: File,
}

impl Directory {
    /// Opens the directory and the registry file in it, creating missing parts if `create` is set.
    /// None where one of them is missing: the last leaving process may have removed it meanwhile.
    ///
    /// # Errors
    /// EPERM when the directory belongs to another user or is open to others; ENOENT when it does
    /// not exist and is not created; the system's.
    pub(super) fn open(path: &Path, create: bool) -> Result<Option<(Directory, File)>> {
        if create {
            make(path)?;
        } else {
            check(&fs::symlink_metadata(path)?)?;
        }
        match open_file(path, create) {
            Ok((handle, file)) => {
                let path = path.to_owned();
                Ok(Some((Directory { path, handle }, file)))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the path of a process's socket.
    pub(super) fn socket(&self, identity: Identity) -> PathBuf {
        self.within(&format!("{}.{}", identity.slot, identity.generation))
    }

    /// Returns the path of the socket of a capturer of all processes.
    pub(super) fn capture_socket(&self) -> PathBuf {
        self.within(CAPTURE)
    }

    /// Removes everything, the directory too. No process lives here; but a capturer may wait for
    /// processes, and then its socket and the directory stay.
    pub(super) fn remove(&self) {
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // XRC domains, ports, IP interfaces and sockets of processes that were killed.
            let is_named = ["xrcd-", "cm-", "ib-"]
                .iter()
                .any(|of| name.starts_with(of));
            if is_named || is_socket(&name) {
                let _ = fs::remove_file(self.within(&name));
            }
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(TREE) {
                remove_if_unused(&entry.path());
            }
        }
        let _ = fs::remove_dir_all(self.within(DEATH_RECORDS));
        if let Err(Errno(libc::ECONNREFUSED)) = Socket::connect(&self.capture_socket()) {
            let _ = fs::remove_file(self.capture_socket());
        }
        let _ = fs::remove_file(self.within(EMULATION));
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

fn open_file(path: &Path, create: bool) -> std::io::Result<(File, File)> {
    let handle = File::open(path)?;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
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
    check(&metadata)
}

/// Checks that only this user has access to a directory.
fn check(metadata: &fs::Metadata) -> Result<()> {
    // SAFETY: geteuid cannot fail and touches no memory.
    let me = unsafe { libc::geteuid() };
    if !metadata.is_dir() || metadata.uid() != me || metadata.mode() & 0o077 != 0 {
        return Err(Errno::EPERM);
    }
    Ok(())
}

//! The command descriptor of an open device (`cmd_fd`), by which ibv_import_device(3) finds it.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Mutex, MutexGuard};

use verbena_hca_net::device::Device;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

/// The descriptor of an open device (`cmd_fd`): an anonymous file, so that its inode identifies
/// duplicates.
pub(crate) struct Command {
    /// The descriptor.
    pub(crate) descriptor: OwnedFd,
    inode: u64,
}

/// Inodes of the descriptors of open devices.
static OPEN: Mutex<Vec<(u64, Device)>> = Mutex::new(Vec::new());

fn open_devices() -> MutexGuard<'static, Vec<(u64, Device)>> {
    OPEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Command {
    /// Creates the descriptor of a device that is about to be opened.
    ///
    /// # Errors
    /// Those of memfd_create(2).
    pub(crate) fn create(device: Device) -> Result<Command> {
        // SAFETY: a C string; the result is checked before it is owned.
        let descriptor = unsafe { libc::memfd_create(c"verbena".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(Errno::last());
        }
        // SAFETY: the descriptor was just created, so nothing else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let inode = inode(descriptor.as_raw_fd())?;
        Ok(Command::register(descriptor, inode, device))
    }

    /// Takes over a duplicate of the descriptor of an open device; returns its device too.
    ///
    /// # Errors
    /// EOPNOTSUPP if it is not that of a device opened by this process.
    pub(crate) fn import(descriptor: RawFd) -> Result<(Device, Command)> {
        let inode = inode(descriptor)?;
        let known = open_devices().iter().find(|open| open.0 == inode).copied();
        let Some((_, device)) = known else {
            return Err(refused!(
                EOPNOTSUPP,
                "cmd_fd {descriptor} is not that of a device opened by this process: the software \
                 adapter's objects belong to the process that created them, so open the device \
                 here"
            ));
        };
        // SAFETY: the program transfers the duplicate (ibv_import_device(3)).
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Ok((device, Command::register(descriptor, inode, device)))
    }

    fn register(descriptor: OwnedFd, inode: u64, device: Device) -> Command {
        open_devices().push((inode, device));
        Command { descriptor, inode }
    }
}

impl Drop for Command {
    fn drop(&mut self) {
        let mut open = open_devices();
        if let Some(position) = open.iter().position(|open| open.0 == self.inode) {
            open.swap_remove(position);
        }
    }
}

fn inode(descriptor: RawFd) -> Result<u64> {
    // SAFETY: zeros are a valid value of this structure of integers.
    let mut status: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `status` is writable during the call.
    if unsafe { libc::fstat(descriptor, &mut status) } != 0 {
        return Err(Errno::last());
    }
    Ok(status.st_ino)
}

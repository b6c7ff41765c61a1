//! The interfaces of a network namespace in sysfs. A mount of sysfs shows those of the namespace in
//! which it was made, and programs such as UCX look for interfaces there.
#![allow(unsafe_code, reason = "unshare(2)")]

use std::io;

use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

const CLASS: &str = "/sys/class/net";
/// The interfaces without hardware, to which the entries of the class lead.
const DEVICES: &str = "/sys/devices/virtual/net";

/// Has /sys/class/net show the interfaces of this process's network namespace, in a new mount
/// namespace. Everything else of /sys stays.
///
/// # Errors
///
/// The system's: containers often forbid it. Nothing is changed then that other programs notice.
pub fn show_interfaces() -> io::Result<()> {
    // SAFETY: no descriptor table is separated.
    unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?;
    // Mounts of the host arrive here, and none of these there.
    let only_in = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", only_in)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    // Where /sys is read-only, another one must be so as well.
    mount("sysfs", DEVICES, "sysfs", flags, None)
        .or_else(|_| mount("sysfs", DEVICES, "sysfs", flags | MountFlags::RDONLY, None))?;
    let of_new = |path: &str| format!("{DEVICES}{}", path.trim_start_matches("/sys"));
    let bound = mount_bind(of_new(CLASS), CLASS).and_then(|()| {
        mount_bind(of_new(DEVICES), DEVICES).inspect_err(|_| {
            let _ = unmount(CLASS, UnmountFlags::DETACH);
        })
    });
    if bound.is_err() {
        let _ = unmount(DEVICES, UnmountFlags::DETACH);
    }
    Ok(bound?)
}

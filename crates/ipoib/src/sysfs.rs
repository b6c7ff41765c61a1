//! The interfaces of a network namespace in sysfs. A mount of sysfs shows those of the namespace in
//! which it was made, and programs such as UCX look for interfaces there.
#![allow(unsafe_code, reason = "unshare(2)")]

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode as FileMode, OFlags};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change,
    mount_remount, unmount,
};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::engine::Mode;
use crate::group;
use crate::hardware_address::{self, HardwareAddress};

/// The kernel's own directory of the interface, in the one that covers it.
const HIDDEN: &str = ".kernel";
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

/// Properties of an interface on InfiniBand that its TUN device does not have.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Its hardware address.
    pub hardware: HardwareAddress,
    /// Its mode.
    pub mode: Mode,
    /// The key of its partition.
    pub partition: u16,
    /// The number of its port.
    pub port: u8,
}

impl Link {
    /// Returns the files that the kernel's IP over InfiniBand has for an interface: name, mode,
    /// content. Nothing can be written to them.
    fn files(&self) -> [(&'static str, u32, String); 10] {
        let line = |text: &dyn std::fmt::Display| format!("{text}\n");
        let broadcast = HardwareAddress {
            flags: 0,
            queue_pair: group::QUEUE_PAIR,
            gid: group::broadcast(self.partition),
        };
        [
            ("address", 0o444, line(&self.hardware)),
            ("addr_len", 0o444, line(&hardware_address::LENGTH)),
            ("broadcast", 0o444, line(&broadcast)),
            ("create_child", 0o200, String::new()),
            ("delete_child", 0o200, String::new()),
            (
                "dev_id",
                0o444,
                format!("{:#x}\n", self.port.saturating_sub(1)),
            ),
            ("dev_port", 0o444, line(&self.port.saturating_sub(1))),
            ("mode", 0o444, line(&self.mode.name())),
            ("pkey", 0o444, format!("{:#06x}\n", self.partition)),
            ("umcast", 0o444, line(&0)),
        ]
    }
}

/// Covers the directory of an interface, after [`show_interfaces`], by one that has the files of IP
/// over InfiniBand, too. The other entries are the kernel's.
///
/// # Errors
///
/// The system's. The kernel's directory is seen then.
pub fn show_link(name: &str, link: &Link) -> io::Result<()> {
    let directory = Path::new(DEVICES).join(name);
    let kernel = rustix::fs::open(
        &directory,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        FileMode::empty(),
    )?;
    let entries: Vec<PathBuf> = fs::read_dir(&directory)?
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    let links = entries.iter().map(|path| (path, fs::read_link(path).ok()));
    let links: Vec<(&PathBuf, Option<PathBuf>)> = links.collect();
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount(
        "tmpfs",
        &directory,
        "tmpfs",
        flags,
        Some(c"size=256k,mode=755"),
    )?;
    let filled = || -> io::Result<()> {
        let hidden = directory.join(HIDDEN);
        fs::create_dir(&hidden)?;
        mount_bind(format!("/proc/self/fd/{}", kernel.as_raw_fd()), &hidden)?;
        let files = link.files();
        for (name, mode, text) in &files {
            let path = directory.join(name);
            let mut options = fs::OpenOptions::new();
            let file = options.write(true).create_new(true).mode(*mode).open(path);
            file?.write_all(text.as_bytes())?;
        }
        for (path, target) in links {
            let name = path.file_name().unwrap_or_default();
            if files.iter().any(|(own, ..)| name == OsStr::new(own)) {
                continue;
            }
            let target = target.unwrap_or_else(|| Path::new(HIDDEN).join(name));
            symlink(target, directory.join(name))?;
        }
        Ok(mount_remount(&directory, flags | MountFlags::RDONLY, "")?)
    };
    filled().inspect_err(|_| {
        let _ = unmount(&directory, UnmountFlags::DETACH);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_verbs::Gid;

    #[test]
    fn files_have_the_formats_of_the_kernel() {
        let link = Link {
            hardware: HardwareAddress {
                flags: hardware_address::RC,
                queue_pair: 0x48,
                gid: Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
            },
            mode: Mode::Connected,
            partition: 0xffff,
            port: 2,
        };
        let files = link.files();
        let text = |wanted: &str| {
            let found = files.iter().find(|(name, ..)| *name == wanted);
            found.unwrap().2.as_str()
        };
        assert_eq!(
            text("address"),
            "80:00:00:48:fe:80:00:00:00:00:00:00:01:02:03:04:05:06:07:08\n"
        );
        assert_eq!(
            text("broadcast"),
            "00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff\n"
        );
        assert_eq!(text("mode"), "connected\n");
        assert_eq!(text("pkey"), "0xffff\n");
        assert_eq!((text("dev_id"), text("dev_port")), ("0x1\n", "1\n"));
    }
}

//! Directories over those of `/sys/class`, in a mount namespace of this process: for programs that
//! read files without the C library.
//!
//! sysfs has no directories that it was not made with, so an empty file system (tmpfs) takes the
//! place of `/sys/class`. In it are the new directories, and the others of `/sys/class` as before.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_bind_recursive, mount_change};

use crate::namespace::{self, CapabilitySet, Refusal, UnshareFlags};

/// The directory of device classes.
const CLASSES: &str = "/sys/class";
/// Beginning of the names of classes that are hidden unless they are among the new ones.
const HIDDEN: &str = "infiniband";

/// The reason why the directories are not there.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Namespaces are forbidden.
    #[error(
        "cannot create a user and mount namespace: {0}; allow user namespaces (sysctl \
         user.max_user_namespaces, user.max_mnt_namespaces, kernel.unprivileged_userns_clone, \
         kernel.apparmor_restrict_unprivileged_userns; in a container its seccomp profile), or \
         use `verbena fabric sysfs`"
    )]
    Namespace(#[source] io::Error),

    /// The identity of the user cannot be kept.
    #[error(
        "cannot map the user into the new user namespace: {0}; on Ubuntu AppArmor forbids it by \
         default (sysctl kernel.apparmor_restrict_unprivileged_userns=0 permits it), or use \
         `verbena fabric sysfs`"
    )]
    Identity(#[source] io::Error),

    /// A directory cannot be mounted.
    #[error(
        "cannot {doing} {path} in a mount namespace: {source}; a container or a security module \
         may forbid it; `verbena fabric sysfs` needs no mount"
    )]
    Mount {
        /// The attempted action, as a verb phrase.
        doing: &'static str,
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> Failure {
    move |source| Failure::Mount {
        doing,
        path: path.to_owned(),
        source,
    }
}

/// Moves this process, which must have one thread, into a new mount namespace, in which each of the
/// directories is in `/sys/class` under its name. Other classes of InfiniBand are hidden. Changes
/// in the directories stay visible.
///
/// # Errors
///
/// The first step that fails.
pub fn enter(new: &[(&str, &Path)]) -> Result<(), Failure> {
    namespace::enter(UnshareFlags::NEWNS, CapabilitySet::SYS_ADMIN).map_err(
        |refusal| match refusal {
            Refusal::Namespaces(error) => Failure::Namespace(error),
            Refusal::Identity(error) => Failure::Identity(error),
        },
    )?;
    // Mounts of other namespaces still arrive here; those made here stay here.
    let flags = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    let root = Path::new("/");
    mount_change(root, flags)
        .map_err(|error| failed("detach the mounts of", root)(error.into()))?;
    // The next mount hides the directory; this descriptor still leads to it.
    let place = Path::new(CLASSES);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = rustix::fs::open(place, flags, Mode::empty())
        .map_err(|error| failed("open", place)(error.into()))?;
    let before = PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_raw_fd()));
    let old = directories(&before).map_err(failed("read", place))?;
    mount("verbena", place, "tmpfs", MountFlags::NODEV, c"mode=755")
        .map_err(|error| failed("mount a file system at", place)(error.into()))?;
    let is_hidden = |name: &String| name.starts_with(HIDDEN);
    let kept = old.iter().filter(|name| !is_hidden(name));
    for name in kept {
        bind(&before.join(name), &place.join(name))?;
    }
    for (name, directory) in new {
        bind(directory, &place.join(name))?;
    }
    Ok(())
}

/// Shows a directory at a new place.
fn bind(from: &Path, to: &Path) -> Result<(), Failure> {
    // Not by the C library, whose calls the adapter's shim redirects.
    rustix::fs::mkdir(to, Mode::from_raw_mode(0o755))
        .and_then(|()| mount_bind_recursive(from, to))
        .map_err(|error| failed("mount", to)(error.into()))
}

/// Returns the names of the directories in a directory.
fn directories(path: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string()) {
            names.push(name);
        }
    }
    Ok(names)
}

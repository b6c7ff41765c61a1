//! New namespaces for this process, without privilege where the kernel allows it.
#![allow(unsafe_code, reason = "unshare(2)")]

use std::fs;
use std::io;

use rustix::process::{getgid, getuid};
pub use rustix::thread::{CapabilitySet, UnshareFlags};
use rustix::thread::{capabilities, unshare_unsafe};

/// The reason why a process stays in its namespaces.
#[derive(Debug)]
pub enum Refusal {
    /// The kernel refuses namespaces.
    Namespaces(io::Error),
    /// The kernel refuses to keep the identity of the user.
    Identity(io::Error),
}

/// Moves this process, which must have one thread, into new namespaces: by the rights of root, so
/// that its programs can become other users, or with a user namespace of its user. `right` is the
/// one that root needs for the new namespaces.
///
/// # Errors
///
/// Fails if the kernel refuses.
pub fn enter(kinds: UnshareFlags, right: CapabilitySet) -> Result<(), Refusal> {
    let has_right = capabilities(None).is_ok_and(|sets| sets.effective.contains(right));
    // SAFETY: no descriptor table is separated.
    if has_right && unsafe { unshare_unsafe(kinds) }.is_ok() {
        return Ok(());
    }
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    // SAFETY: no descriptor table is separated.
    unsafe { unshare_unsafe(UnshareFlags::NEWUSER | kinds) }
        .map_err(|error| Refusal::Namespaces(error.into()))?;
    // A user without rights may map groups only if setgroups(2) is refused.
    fs::write("/proc/self/setgroups", "deny")
        .and_then(|()| fs::write("/proc/self/uid_map", format!("{user} {user} 1")))
        .and_then(|()| fs::write("/proc/self/gid_map", format!("{group} {group} 1")))
        .map_err(Refusal::Identity)
}

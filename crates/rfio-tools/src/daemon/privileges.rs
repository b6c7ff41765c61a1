//! Drops root: changes user, group and supplementary groups permanently, and verifies the result.

use std::io;

use verbena_rfio_auth::peer;

/// Forbids programs that this thread and its later children execute to gain privileges. To be
/// called before any other thread starts: the kernel keeps this per thread.
///
/// # Errors
/// Those of prctl(2).
pub fn forbid_new_privileges() -> io::Result<()> {
    // SAFETY: plain integers.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })
}

/// Becomes another user permanently.
///
/// # Errors
/// There is no such user, the process lacks the privilege, or the kernel still reports old IDs.
pub fn become_user(name: &str) -> io::Result<()> {
    let (uid, gid) = peer::ids_of(name)?;
    // SAFETY: a null list of length zero is allowed and empties the groups.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: plain integers; glibc applies it to every thread.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: plain integers; glibc applies it to every thread.
    check(unsafe { libc::setresuid(uid, uid, uid) })?;
    verify(uid, gid)
}

/// Checks that the kernel reports the new IDs only: continuing with root's rights by mistake is
/// worse than a failed start.
fn verify(uid: u32, gid: u32) -> io::Result<()> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let field = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap_or("")
            .split_whitespace()
            .collect::<Vec<_>>()
    };
    let all = |name: &str, id: u32| field(name).iter().all(|found| *found == id.to_string());
    if all("Uid:", uid) && all("Gid:", gid) && field("Groups:").is_empty() {
        Ok(())
    } else {
        Err(io::Error::other("privileges were not dropped completely"))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

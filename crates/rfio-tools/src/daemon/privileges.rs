//! Giving up root: user, group, and every supplementary group, checked afterwards.

use std::io;

use verbena_rfio::auth::peer;

/// Becomes another user for good.
pub fn become_user(name: &str) -> io::Result<()> {
    let (uid, gid) = peer::ids_of(name)?;
    // SAFETY: a null list of length zero is allowed and empties the groups.
    check(unsafe { libc::setgroups(0, std::ptr::null()) })?;
    // SAFETY: plain integers; glibc applies it to every thread.
    check(unsafe { libc::setresgid(gid, gid, gid) })?;
    // SAFETY: as above.
    check(unsafe { libc::setresuid(uid, uid, uid) })?;
    // SAFETY: plain integers; what is executed from here on cannot gain rights.
    check(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) })?;
    verify(uid, gid)
}

/// A service that believes it gave up its rights and did not is worse than one that does not start.
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

//! Giving up root: user, group, and every supplementary group, checked afterwards.

use std::ffi::CString;
use std::io;

/// Becomes another user for good.
pub fn become_user(name: &str) -> io::Result<()> {
    let (uid, gid) = find(name)?;
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

fn find(name: &str) -> io::Result<(u32, u32)> {
    let name = CString::new(name)?;
    let mut buffer = vec![0u8; 16 << 10];
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: `passwd` is pointers and integers, for which zero is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: every pointer is to live memory of the stated length.
    let result = unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, start, length, &mut found) };
    match (result, found.is_null()) {
        (0, false) => Ok((entry.pw_uid, entry.pw_gid)),
        (0, true) => Err(io::Error::new(io::ErrorKind::NotFound, "no such user")),
        (error, _) => Err(io::Error::from_raw_os_error(error)),
    }
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
        Err(io::Error::other("rights were not given up completely"))
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

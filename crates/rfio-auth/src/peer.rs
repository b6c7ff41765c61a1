//! User ids and names, and the credentials of the peer of a Unix socket.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::AsFd;

/// Returns the name of a user id, or `uid-N` if the system knows none.
pub fn name_of(uid: u32) -> String {
    let mut buffer = vec![0u8; 4096];
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: `passwd` consists of pointers and integers, for which zero is valid.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: every pointer refers to live memory of the stated length.
    let result = unsafe {
        libc::getpwuid_r(
            uid,
            &mut entry,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            &mut found,
        )
    };
    if result != 0 || found.is_null() || entry.pw_name.is_null() {
        return format!("uid-{uid}");
    }
    // SAFETY: on success the name is a C string inside `buffer`, which is still alive.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    name.to_string_lossy().into_owned()
}

/// Returns the user and group id of a name.
///
/// # Errors
/// No user has the name, or the system's user database does not answer.
pub fn ids_of(name: &str) -> io::Result<(u32, u32)> {
    let name = CString::new(name)?;
    let mut buffer = vec![0u8; 16 << 10];
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: `passwd` consists of pointers and integers, for which zero is valid.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let (start, length) = (buffer.as_mut_ptr().cast(), buffer.len());
    // SAFETY: every pointer refers to live memory of the stated length.
    let result = unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, start, length, &mut found) };
    match (result, found.is_null()) {
        (0, false) => Ok((entry.pw_uid, entry.pw_gid)),
        (0, true) => Err(io::Error::new(io::ErrorKind::NotFound, "no such user")),
        (error, _) => Err(io::Error::from_raw_os_error(error)),
    }
}

/// Returns the name of this process's effective user.
pub fn own_name() -> String {
    name_of(rustix::process::geteuid().as_raw())
}

/// Returns the user id of the peer of a Unix socket at the time of its connect (`SO_PEERCRED`,
/// unix(7)).
///
/// # Errors
/// The error of getsockopt(2).
pub fn of_socket(socket: impl AsFd) -> std::io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_ids_have_names() {
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(4_000_000_001), "uid-4000000001");
    }

    #[test]
    fn the_peer_user_comes_from_the_kernel() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(
            of_socket(&ours).unwrap(),
            rustix::process::geteuid().as_raw()
        );
    }
}

//! User ids and names, and the kernel's word about who is at the other end of a Unix socket.

use std::ffi::CStr;
use std::os::fd::AsFd;

/// The name of a user id, or `uid-N` where the system knows none.
pub fn name_of(uid: u32) -> String {
    let mut buffer = vec![0u8; 4096];
    let mut found: *mut libc::passwd = std::ptr::null_mut();
    // SAFETY: `passwd` is pointers and integers, for which zero is a value.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    // SAFETY: every pointer is to live memory of the stated length.
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
    // SAFETY: on success the name is a C string inside `buffer`, which lives.
    let name = unsafe { CStr::from_ptr(entry.pw_name) };
    name.to_string_lossy().into_owned()
}

/// The name of the user who runs this.
pub fn own_name() -> String {
    name_of(rustix::process::geteuid().as_raw())
}

/// The user at the other end of a Unix socket when it connected (`SO_PEERCRED`, unix(7)).
pub fn of_socket(socket: impl AsFd) -> std::io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(socket)?.uid.as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_names() {
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(4_000_000_001), "uid-4000000001");
    }

    #[test]
    fn the_kernel_knows_the_peer() {
        let (ours, _theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(
            of_socket(&ours).unwrap(),
            rustix::process::geteuid().as_raw()
        );
    }
}

//! Operations common to UDP and TCP sockets: socket(2), setsockopt(2), bind(2), getsockname(2).

use super::udp::{Address, SocketName};
use crate::errno::{Errno, Result};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Opens a non-blocking, close-on-exec socket of a family and type.
pub(super) fn open(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call takes no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: socket(2) just returned `fd`, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option. `T` is the plain data that the kernel takes for it.
pub(super) fn set<T: Copy>(
    socket: &OwnedFd,
    level: libc::c_int,
    option: libc::c_int,
    value: T,
) -> Result<()> {
    // SAFETY: `value` is readable for its size.
    let answer = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

pub(super) fn bind(socket: &OwnedFd, address: Address) -> Result<()> {
    let name = SocketName::of(address);
    // SAFETY: `name` holds a socket address of the length that it says.
    match unsafe { libc::bind(socket.as_raw_fd(), name.pointer(), name.length) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

pub(super) fn port(socket: &OwnedFd) -> Result<u16> {
    // SAFETY: an all-zero sockaddr_storage is valid.
    let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
    let mut length = mem::size_of_val(&storage) as libc::socklen_t;
    // SAFETY: `storage` is writable for `length` bytes.
    let answer =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut storage).cast(), &mut length) };
    match SocketName::read(&storage) {
        Some(name) if answer == 0 => Ok(name.port),
        _ => Err(Errno::last()),
    }
}

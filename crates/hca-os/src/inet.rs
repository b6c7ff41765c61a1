//! Addresses of UDP and TCP sockets, and operations common to both: socket(2), setsockopt(2),
//! bind(2), getsockname(2).

use crate::errno::{Errno, Result};
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// An IP address and a port: source or destination of a datagram, or an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// IPv6 address, or IPv4-mapped.
    pub ip: Ipv6Addr,
    /// The port.
    pub port: u16,
    /// Interface index of a link-local address; otherwise 0.
    pub scope: u32,
}

/// Opens a non-blocking, close-on-exec socket of a family and type.
pub(crate) fn open(family: libc::c_int, kind: libc::c_int) -> Result<OwnedFd> {
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
pub(crate) fn set<T: Copy>(
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

pub(crate) fn bind(socket: &OwnedFd, address: Address) -> Result<()> {
    let name = SocketName::of(address);
    // SAFETY: `name` holds a socket address of the length that it says.
    match unsafe { libc::bind(socket.as_raw_fd(), name.pointer(), name.length) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

pub(crate) fn port(socket: &OwnedFd) -> Result<u16> {
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

/// A socket address in the kernel's form.
pub(crate) struct SocketName {
    storage: libc::sockaddr_storage,
    pub(crate) length: libc::socklen_t,
}

impl SocketName {
    pub(crate) fn of(address: Address) -> SocketName {
        // SAFETY: an all-zero sockaddr_storage is valid.
        let mut storage: libc::sockaddr_storage = unsafe { mem::zeroed() };
        let length = match address.ip.to_ipv4_mapped() {
            Some(ip) => {
                let name = libc::sockaddr_in {
                    sin_family: libc::AF_INET as libc::sa_family_t,
                    sin_port: address.port.to_be(),
                    sin_addr: libc::in_addr {
                        s_addr: u32::from_ne_bytes(ip.octets()),
                    },
                    sin_zero: [0; 8],
                };
                // SAFETY: a sockaddr_storage has space for every socket address.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in>().write(name) };
                mem::size_of_val(&name)
            }
            None => {
                let name = libc::sockaddr_in6 {
                    sin6_family: libc::AF_INET6 as libc::sa_family_t,
                    sin6_port: address.port.to_be(),
                    sin6_flowinfo: 0,
                    sin6_addr: libc::in6_addr {
                        s6_addr: address.ip.octets(),
                    },
                    sin6_scope_id: address.scope,
                };
                // SAFETY: a sockaddr_storage has space for every socket address.
                unsafe { (&raw mut storage).cast::<libc::sockaddr_in6>().write(name) };
                mem::size_of_val(&name)
            }
        };
        SocketName {
            storage,
            length: length as libc::socklen_t,
        }
    }

    pub(crate) fn pointer(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }

    pub(crate) fn read(storage: &libc::sockaddr_storage) -> Option<Address> {
        let pointer: *const libc::sockaddr_storage = storage;
        match i32::from(storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says that the storage holds a sockaddr_in.
                let name = unsafe { pointer.cast::<libc::sockaddr_in>().read() };
                let ip = Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes());
                Some(Address {
                    ip: ip.to_ipv6_mapped(),
                    port: u16::from_be(name.sin_port),
                    scope: 0,
                })
            }
            libc::AF_INET6 => {
                // SAFETY: the family says that the storage holds a sockaddr_in6.
                let name = unsafe { pointer.cast::<libc::sockaddr_in6>().read() };
                Some(Address {
                    ip: Ipv6Addr::from(name.sin6_addr.s6_addr),
                    port: u16::from_be(name.sin6_port),
                    scope: name.sin6_scope_id,
                })
            }
            _ => None,
        }
    }
}

//! When an interface of this network namespace, or an address of one, has changed: rtnetlink(7).

use crate::errno::{Errno, Result};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How often one looks where the kernel does not tell.
const PERIOD: Duration = Duration::from_secs(1);

/// Waits for changes.
#[derive(Debug)]
pub struct Monitor {
    /// None where netlink is forbidden: then every now and then could be a change.
    socket: Option<OwnedFd>,
}

impl Monitor {
    /// Of whatever changes from now on.
    pub fn start() -> Monitor {
        Monitor {
            socket: subscribed().ok(),
        }
    }

    /// Returns when something may have changed since it was called last.
    pub fn wait(&self) {
        let Some(socket) = &self.socket else {
            return std::thread::sleep(PERIOD);
        };
        let mut wanted = libc::pollfd {
            fd: socket.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one valid pollfd.
        let answer = unsafe { libc::poll(&mut wanted, 1, -1) };
        if answer < 0 || wanted.revents & libc::POLLIN == 0 {
            // Interrupted, or somebody closed what is ours.
            return std::thread::sleep(PERIOD);
        }
        // What it is does not matter: the whole is looked at. Nor does what there was no room for (ENOBUFS).
        let mut message = [0u8; 8192];
        loop {
            // SAFETY: `message` is writable for its length.
            let length = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    message.as_mut_ptr().cast(),
                    message.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if length <= 0 && Errno::last() != Errno(libc::ENOBUFS) {
                return;
            }
        }
    }
}

fn subscribed() -> Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: just made, owned by nobody else.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero sockaddr_nl is valid.
    let mut name: libc::sockaddr_nl = unsafe { mem::zeroed() };
    name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    name.nl_groups =
        (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
    // SAFETY: `name` is a valid address of the length that is said.
    let answer = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const name).cast(),
            mem::size_of_val(&name) as libc::socklen_t,
        )
    };
    match answer {
        0 => Ok(socket),
        _ => Err(Errno::last()),
    }
}

//! Notification of changes to the interfaces of this network namespace and their addresses:
//! rtnetlink(7).

use crate::errno::{Errno, Result};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Polling period where the kernel does not notify.
const PERIOD: Duration = Duration::from_secs(1);

/// Waits for changes.
#[derive(Debug)]
pub struct Monitor {
    /// None where netlink is forbidden: then every period counts as a change.
    socket: Option<OwnedFd>,
}

impl Monitor {
    /// Starts monitoring.
    pub fn start() -> Monitor {
        Monitor {
            socket: subscribed().ok(),
        }
    }

    /// Returns when something may have changed since the last call.
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
            // Interrupted, or other code of this process closed the descriptor.
            return std::thread::sleep(PERIOD);
        }
        // The contents do not matter, because callers read the whole state. Nor do messages lost
        // for lack of space (ENOBUFS).
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
    // SAFETY: the call takes no pointers; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: socket(2) just returned this descriptor, and nothing else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(fd) };
    // SAFETY: an all-zero sockaddr_nl is valid.
    let mut name: libc::sockaddr_nl = unsafe { mem::zeroed() };
    name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    name.nl_groups =
        (libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR) as u32;
    // SAFETY: `name` is a valid address of the stated length.
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

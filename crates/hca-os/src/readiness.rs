//! Readiness of many descriptors: epoll(7), itself a descriptor that is readable while one of them
//! is.

use crate::errno::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Returns whether one of two descriptors is readable now.
pub fn is_ready(descriptors: [BorrowedFd<'_>; 2]) -> bool {
    let mut wanted = descriptors.map(|descriptor| libc::pollfd {
        fd: descriptor.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: two valid pollfds.
    unsafe { libc::poll(wanted.as_mut_ptr(), wanted.len() as libc::nfds_t, 0) > 0 }
}

/// The condition that a descriptor is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Readable.
    Reading,
    /// Writable.
    Writing,
    /// Either.
    Both,
}

/// Waits until one of the descriptors is ready, `milliseconds` at most (no limit below 0). Returns
/// whether each is, in their order. None stands for a position without a descriptor.
pub fn wait(wanted: &[Option<(BorrowedFd<'_>, Interest)>], milliseconds: i32) -> Vec<bool> {
    let entry = |one: &Option<(BorrowedFd<'_>, Interest)>| libc::pollfd {
        // Negative descriptors are ignored.
        fd: one.map_or(-1, |(fd, _)| fd.as_raw_fd()),
        events: match one {
            None => 0,
            Some((_, Interest::Reading)) => libc::POLLIN,
            Some((_, Interest::Writing)) => libc::POLLOUT,
            Some((_, Interest::Both)) => libc::POLLIN | libc::POLLOUT,
        },
        revents: 0,
    };
    let mut entries: Vec<libc::pollfd> = wanted.iter().map(entry).collect();
    let count = entries.len() as libc::nfds_t;
    // SAFETY: `entries` has `count` valid pollfds.
    let ready = unsafe { libc::poll(entries.as_mut_ptr(), count, milliseconds) };
    // After a failure nothing is known of any descriptor.
    entries
        .iter()
        .map(|one| ready > 0 && one.revents != 0)
        .collect()
}

/// A set of descriptors, each with a number.
#[derive(Debug)]
pub struct Readiness {
    epoll: OwnedFd,
}

impl Readiness {
    /// Returns an empty set.
    ///
    /// # Errors
    /// The system's, when it has no descriptors or memory left.
    pub fn new() -> Result<Readiness> {
        // SAFETY: the call takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: epoll_create1 just returned this descriptor, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Readiness { epoll })
    }

    /// Adds `descriptor` under `number`.
    ///
    /// # Errors
    /// The system's, when it has no memory left.
    pub fn add(&self, descriptor: &impl AsFd, number: u64) -> Result<()> {
        self.change(libc::EPOLL_CTL_ADD, descriptor, number)
    }

    /// Removes a descriptor. Must precede its closing: if a child has a copy of it, it would
    /// otherwise stay in the set.
    pub fn remove(&self, descriptor: &impl AsFd) {
        // The descriptor was added, so this cannot fail.
        let _ = self.change(libc::EPOLL_CTL_DEL, descriptor, 0);
    }

    fn change(&self, operation: libc::c_int, descriptor: &impl AsFd, number: u64) -> Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number,
        };
        let fd = descriptor.as_fd().as_raw_fd();
        // SAFETY: `event` is valid for the call.
        match unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &mut event) } {
            0 => Ok(()),
            _ => Err(Errno::last()),
        }
    }

    /// Returns the numbers of some readable descriptors, 16 at most: later calls return others, so
    /// that all get their turn.
    pub fn now(&self) -> impl Iterator<Item = u64> {
        const MOST: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: `events` has space for MOST entries.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                MOST as libc::c_int,
                0,
            )
        };
        let count = usize::try_from(count).unwrap_or(0);
        events.into_iter().take(count).map(|event| event.u64)
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

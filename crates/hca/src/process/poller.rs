//! What the adapter's own thread waits for: the doorbell, callers, and the deaths of peers.

use crate::errno::{Errno, Result};
use crate::path::Peer;
use crate::process::connect;
use crate::process::{Member, Process};
use crate::sys::clock;
use crate::sys::socket::Socket;
use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// For so long nobody is heard after a caller could not be taken for want of descriptors or memory, in nanoseconds.
const RESPITE: u64 = 10_000_000;

/// What a watched socket is.
enum Watched {
    /// Somebody who has connected and not said yet what for.
    Caller(Socket),
    /// A peer whose death it would tell.
    Peer(Arc<Peer>),
}

/// The descriptors that the thread sleeps on.
pub struct Poller {
    epoll: OwnedFd,
    watched: HashMap<RawFd, Watched>,
    /// Callers are heard again from then on.
    deaf_until: Option<u64>,
}

/// Milliseconds until a deadline, for epoll_wait.
pub fn until(deadline: u64) -> i32 {
    if deadline == u64::MAX {
        return -1;
    }
    deadline
        .saturating_sub(clock::now())
        .div_ceil(1_000_000)
        .min(1000) as i32
}

impl Poller {
    /// Listens to the doorbell and to callers.
    ///
    /// # Errors
    /// The system's, when it has no descriptors or memory left.
    pub fn new(process: &Process, member: &Member) -> Result<Poller> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: just made, owned by nobody else.
        let epoll = unsafe { OwnedFd::from_raw_fd(fd) };
        let poller = Poller {
            epoll,
            watched: HashMap::new(),
            deaf_until: None,
        };
        poller.add(process.doorbell.as_fd().as_raw_fd())?;
        poller.add(member.listener.as_fd().as_raw_fd())?;
        Ok(poller)
    }

    fn add(&self, fd: RawFd) -> Result<()> {
        let mut event = libc::epoll_event {
            events: (libc::EPOLLIN | libc::EPOLLRDHUP) as u32,
            u64: fd as u64,
        };
        // SAFETY: `event` is valid for the call.
        let answer =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) };
        if answer != 0 {
            Err(Errno::last())
        } else {
            Ok(())
        }
    }

    /// Watches a descriptor, which is still open, no more.
    fn remove(&self, fd: RawFd) {
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: `event` is valid for the call.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_DEL, fd, &mut event) };
    }

    /// Watches the socket of a peer, which ends with it.
    ///
    /// # Errors
    /// The system's.
    pub fn watch_peer(&mut self, peer: Arc<Peer>) -> Result<()> {
        let Some(fd) = peer.socket().map(|socket| socket.as_fd().as_raw_fd()) else {
            return Ok(());
        };
        self.add(fd)?;
        self.watched.insert(fd, Watched::Peer(peer));
        Ok(())
    }

    /// Sleeps until something happens, `timeout` milliseconds at most, for ever below 0; deals with callers and deaths.
    ///
    /// # Errors
    /// The system's, when it cannot wait.
    pub fn wait(&mut self, process: &Arc<Process>, member: &Member, timeout: i32) -> Result<()> {
        let timeout = self.hear_again(member, timeout);
        const EVENTS: usize = 16;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
        // SAFETY: `events` has room for EVENTS entries.
        let count = unsafe {
            libc::epoll_wait(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as i32,
                timeout,
            )
        };
        if count < 0 {
            let error = Errno::last();
            return if error == Errno(libc::EINTR) {
                Ok(())
            } else {
                Err(error)
            };
        }
        for event in events.iter().take(count as usize) {
            let fd = event.u64 as RawFd;
            if fd == process.doorbell.as_fd().as_raw_fd() {
                process.doorbell.clear();
            } else if fd == member.listener.as_fd().as_raw_fd() {
                self.accept(member);
            } else {
                self.heard(process, fd);
            }
        }
        Ok(())
    }

    /// Somebody calls. Out of descriptors, the caller is left waiting; the listener stays readable, and asking again at once
    /// would take a processor.
    fn accept(&mut self, member: &Member) {
        let want = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM];
        match member.listener.accept() {
            Ok(caller) => {
                let fd = caller.as_fd().as_raw_fd();
                // One that cannot be watched is closed, and calls again.
                if self.add(fd).is_ok() {
                    self.watched.insert(fd, Watched::Caller(caller));
                }
            }
            Err(error) if want.contains(&error.0) => {
                self.remove(member.listener.as_fd().as_raw_fd());
                self.deaf_until = Some(clock::now() + RESPITE);
            }
            // The caller is gone.
            Err(_) => (),
        }
    }

    /// Listens to callers again when it is time. Gives how long to sleep at most.
    fn hear_again(&mut self, member: &Member, timeout: i32) -> i32 {
        let Some(deadline) = self.deaf_until else {
            return timeout;
        };
        if clock::now() >= deadline && self.add(member.listener.as_fd().as_raw_fd()).is_ok() {
            self.deaf_until = None;
            return timeout;
        }
        let left = until(deadline).max(1);
        if timeout < 0 { left } else { timeout.min(left) }
    }

    /// A caller speaks, or a peer's socket ends. Peers say nothing after the introduction.
    fn heard(&mut self, process: &Arc<Process>, fd: RawFd) {
        let watched = self.watched.remove(&fd);
        self.remove(fd);
        match watched {
            Some(Watched::Peer(peer)) => peer.declare_dead(),
            Some(Watched::Caller(caller)) => {
                if let Ok(Some(peer)) = connect::answer(process, caller) {
                    let _ = self.watch_peer(peer);
                }
            }
            None => (),
        }
    }
}

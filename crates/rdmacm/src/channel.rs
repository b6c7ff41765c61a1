//! An event channel: what librdmacm holds as a descriptor of `/dev/infiniband/rdma_cm`.
//!
//! The program's descriptor is one end of a socket pair. A byte lies in it for each event that
//! waits, so poll(2), epoll(7) and O_NONBLOCK work on it as on the device (`ucma_poll` of the
//! kernel): readable while events wait, woken by each, and never writable, for its own buffer is
//! kept full.

use crate::event::Event;
use rustix::net::{self, RecvFlags};
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use verbena_hca::errno::{Errno, Result};

/// An event that waits.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Whose it is: the identifier that counts it as reported.
    pub owner: u32,
    /// The group that it is about.
    pub group: Option<u32>,
    /// The identifier that a connection request made.
    pub request: Option<u32>,
    /// The event.
    pub event: Event,
}

/// A channel.
pub struct Channel {
    signal: UnixStream,
    /// The program's end once more, for threads that wait: they must not be led astray when the program closes its
    /// descriptor and opens another file under the same number.
    end: Arc<OwnedFd>,
    inode: u64,
    waiting: VecDeque<Waiting>,
    /// Bytes in the program's end: as many as events wait, or as many as fit.
    bytes: usize,
    /// Threads of the program that wait for an event.
    waiters: u32,
    /// Who took the last one.
    taker: Option<ThreadId>,
}

impl Channel {
    /// A new channel, and the program's descriptor for it.
    ///
    /// # Errors
    /// What socketpair(2) says.
    pub fn open() -> Result<(RawFd, Channel)> {
        let (theirs, signal) = UnixStream::pair()?;
        signal.set_nonblocking(true)?;
        fill(&theirs)?;
        let end = Arc::new(OwnedFd::from(theirs.try_clone()?));
        let inode = inode(&theirs)?;
        let channel = Channel {
            signal,
            end,
            inode,
            waiting: VecDeque::new(),
            bytes: 0,
            waiters: 0,
            taker: None,
        };
        Ok((theirs.into_raw_fd(), channel))
    }

    /// Whether `descriptor` still is the program's end, and not another file under the same number.
    pub fn is_at(&self, descriptor: BorrowedFd<'_>) -> bool {
        inode(descriptor) == Ok(self.inode)
    }

    /// A thread begins to wait, on the descriptor given.
    pub fn begin_waiting(&mut self) -> Arc<OwnedFd> {
        self.waiters += 1;
        self.end.clone()
    }

    /// It no longer does.
    pub fn end_waiting(&mut self) {
        self.waiters -= 1;
    }

    /// Whether another thread than this one has taken the last event and has not come back for the next: it soon will.
    pub fn has_a_busy_taker(&self) -> bool {
        self.waiters == 0
            && self
                .taker
                .is_some_and(|taker| taker != thread::current().id())
    }

    /// The program closes its end. A thread that waits goes on waiting, as it does on the device, which a blocked call
    /// keeps open; ours would wake it with the end of the stream. So the stream stays.
    pub fn close(self) {
        if self.waiters > 0 {
            std::mem::forget(self.signal);
        }
    }

    /// Adds an event.
    pub fn push(&mut self, waiting: Waiting) {
        // If the program closed its end, nobody waits for it.
        if let Ok(1) = self.signal.write(&[1]) {
            self.bytes += 1;
        }
        self.waiting.push_back(waiting);
    }

    /// Takes the first event.
    pub fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.taker = Some(thread::current().id());
        self.settle();
        Some(first)
    }

    /// Takes out all events that `chosen` picks.
    pub fn take(&mut self, mut chosen: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let (taken, left): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(&mut chosen);
        self.waiting = left.into();
        self.settle();
        taken
    }

    /// Takes bytes back, so that there are no more than events wait.
    fn settle(&mut self) {
        while self.bytes > self.waiting.len() {
            let mut bytes = [0; 64];
            let most = (self.bytes - self.waiting.len()).min(bytes.len());
            match net::recv(self.end.as_fd(), &mut bytes[..most], RecvFlags::DONTWAIT) {
                Ok((_, taken @ 1..)) => self.bytes -= taken,
                _ => self.bytes = self.waiting.len(),
            }
        }
    }
}

/// Waits until an event is there, as read(2) on the descriptor would: EAGAIN if it does not block, EINTR for a signal.
///
/// # Errors
/// As said; EIO when the channel has been closed meanwhile.
pub fn wait(descriptor: BorrowedFd<'_>) -> Result<()> {
    match net::recv(descriptor, &mut [0; 1], RecvFlags::PEEK) {
        Ok((_, 0)) => Err(Errno::EIO),
        Ok(_) => Ok(()),
        Err(error) => Err(Errno(error.raw_os_error())),
    }
}

/// Sends what nobody ever receives, until there is no room.
fn fill(end: &UnixStream) -> Result<()> {
    let failed = |error: rustix::io::Errno| Errno(error.raw_os_error());
    // The least that the system allows.
    net::sockopt::set_socket_send_buffer_size(end, 0).map_err(failed)?;
    loop {
        let flags = net::SendFlags::DONTWAIT | net::SendFlags::NOSIGNAL;
        match net::send(end, &[0; 1024], flags) {
            Ok(_) | Err(rustix::io::Errno::INTR) => (),
            Err(rustix::io::Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(failed(error)),
        }
    }
}

fn inode(descriptor: impl std::os::fd::AsFd) -> Result<u64> {
    let status = rustix::fs::fstat(descriptor).map_err(|error| Errno(error.raw_os_error()))?;
    Ok(status.st_ino)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Kind;
    use std::os::fd::FromRawFd;

    fn waiting(owner: u32) -> Waiting {
        Waiting {
            owner,
            group: None,
            request: None,
            event: Event::plain(Kind::AddrResolved, 0),
        }
    }

    fn opened() -> (OwnedFd, Channel) {
        let (descriptor, channel) = Channel::open().unwrap();
        rustix::io::ioctl_fionbio(
            // SAFETY: the descriptor is open; it is owned below.
            unsafe { BorrowedFd::borrow_raw(descriptor) },
            true,
        )
        .unwrap();
        // SAFETY: nobody else owns it.
        (unsafe { OwnedFd::from_raw_fd(descriptor) }, channel)
    }

    #[test]
    fn it_is_readable_exactly_while_events_wait() {
        let (end, mut channel) = opened();
        assert_eq!(wait(end.as_fd()), Err(Errno::EAGAIN));
        channel.push(waiting(1));
        channel.push(waiting(2));
        assert_eq!(wait(end.as_fd()), Ok(()));
        assert_eq!(channel.pop().map(|w| w.owner), Some(1));
        assert_eq!(wait(end.as_fd()), Ok(()));
        assert_eq!(channel.pop().map(|w| w.owner), Some(2));
        assert_eq!(wait(end.as_fd()), Err(Errno::EAGAIN));
        assert!(channel.pop().is_none());
    }

    #[test]
    fn what_is_taken_out_no_longer_makes_it_readable() {
        let (end, mut channel) = opened();
        for owner in [1, 2, 1] {
            channel.push(waiting(owner));
        }
        let taken = channel.take(|waiting| waiting.owner == 1);
        assert_eq!(taken.len(), 2);
        assert_eq!(wait(end.as_fd()), Ok(()));
        channel.take(|_| true);
        assert_eq!(wait(end.as_fd()), Err(Errno::EAGAIN));
    }

    #[test]
    fn another_file_under_its_number_is_not_it() {
        let (end, channel) = opened();
        assert!(channel.is_at(end.as_fd()));
        assert!(!channel.is_at(opened().0.as_fd()));
    }
}

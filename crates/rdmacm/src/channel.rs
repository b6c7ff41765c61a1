//! An event channel, which librdmacm holds as a descriptor of `/dev/infiniband/rdma_cm`.
//!
//! The program's descriptor is one end of a socket pair that holds one byte per waiting event, so
//! poll(2), epoll(7) and O_NONBLOCK work on it as on the device (`ucma_poll` of the kernel):
//! readable while events wait, woken by each, and never writable, because its send buffer is kept
//! full.
//!
//! A channel is identified by its file: the program may copy the descriptor, and use its number
//! again.

use crate::event::Event;
use crate::port::random_word;
use rustix::net::{self, RecvFlags};
use std::collections::VecDeque;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, ThreadId};
use verbena_hca_os::errno::{Errno, Result};

/// A waiting event.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The identifier that counts it as reported.
    pub owner: u32,
    /// The group it is about.
    pub group: Option<u32>,
    /// The identifier that a connection request has created.
    pub request: Option<u32>,
    /// The event.
    pub event: Event,
}

/// Identifies a channel: the device and inode numbers of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelId(u64, u64);

impl ChannelId {
    /// Returns the ID of the file at a descriptor, whether it is a channel or not.
    ///
    /// # Errors
    /// EBADF if the descriptor is not open.
    pub fn at(descriptor: RawFd) -> Result<ChannelId> {
        if descriptor < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: the descriptor is used for this call only, and fstat(2) refuses a number that is
        // not open.
        ChannelId::of(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    fn of(descriptor: impl AsFd) -> Result<ChannelId> {
        let status = rustix::fs::fstat(descriptor).map_err(|error| Errno(error.raw_os_error()))?;
        Ok(ChannelId(status.st_dev, status.st_ino))
    }
}

/// A channel.
pub struct Channel {
    /// The program's descriptors.
    pub descriptors: Vec<RawFd>,
    signal: UnixStream,
    /// A copy of the program's end, for waiting threads: the program may close its descriptor and
    /// open another file under the same number.
    end: Arc<OwnedFd>,
    id: ChannelId,
    waiting: VecDeque<Waiting>,
    /// Bytes in the program's end: one per waiting event, or as many as fit.
    bytes: usize,
    /// Threads of the program that wait for an event.
    waiters: u32,
    /// The thread that took the last event.
    taker: Option<ThreadId>,
}

impl Channel {
    /// Opens a channel. Returns also the program's descriptor for it.
    ///
    /// # Errors
    /// Those of socketpair(2).
    pub fn open() -> Result<(RawFd, Channel)> {
        let (theirs, signal) = UnixStream::pair()?;
        signal.set_nonblocking(true)?;
        fill(&theirs)?;
        let end = Arc::new(OwnedFd::from(theirs.try_clone()?));
        let id = ChannelId::of(&theirs)?;
        name(&signal);
        let theirs = theirs.into_raw_fd();
        let channel = Channel {
            descriptors: vec![theirs],
            signal,
            end,
            id,
            waiting: VecDeque::new(),
            bytes: 0,
            waiters: 0,
            taker: None,
        };
        Ok((theirs, channel))
    }

    /// Returns its ID.
    pub fn id(&self) -> ChannelId {
        self.id
    }

    /// Counts a waiting thread. Returns the descriptor to wait on.
    pub fn begin_waiting(&mut self) -> Arc<OwnedFd> {
        self.waiters += 1;
        self.end.clone()
    }

    /// Ends the wait of a thread.
    pub fn end_waiting(&mut self) {
        self.waiters -= 1;
    }

    /// Returns whether another thread has taken the last event and has not called for the next one,
    /// which it soon will.
    pub fn has_a_busy_taker(&self) -> bool {
        self.waiters == 0
            && self
                .taker
                .is_some_and(|taker| taker != thread::current().id())
    }

    /// Closes the channel with the program's last descriptor. On the device, a blocked call keeps
    /// the file open and goes on waiting; closing the socket here would wake it with the end of the
    /// stream, so it stays open.
    pub fn close(self) {
        if self.waiters > 0 {
            std::mem::forget(self.signal);
        }
    }

    /// Adds an event.
    pub fn push(&mut self, waiting: Waiting) {
        // This fails if the program closed its end, and then no thread needs the byte.
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

    /// Takes all events that `chosen` picks.
    pub fn take(&mut self, mut chosen: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let (taken, left): (Vec<_>, Vec<_>) = self.waiting.drain(..).partition(&mut chosen);
        self.waiting = left.into();
        self.settle();
        taken
    }

    /// Reads surplus bytes back, so that there are no more than waiting events.
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

/// Waits for an event, as read(2) on the descriptor would.
///
/// # Errors
/// EAGAIN if the descriptor does not block, EINTR for a signal, EIO if the channel was closed
/// meanwhile.
pub fn wait(descriptor: BorrowedFd<'_>) -> Result<()> {
    match net::recv(descriptor, &mut [0; 1], RecvFlags::PEEK) {
        Ok((_, 0)) => Err(Errno::EIO),
        Ok(_) => Ok(()),
        Err(error) => Err(Errno(error.raw_os_error())),
    }
}

/// Fills the send buffer with data that is never received.
fn fill(end: &UnixStream) -> Result<()> {
    let failed = |error: rustix::io::Errno| Errno(error.raw_os_error());
    // The smallest buffer that the system allows.
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

/// Names this end of the pair, so that the shim of a process that receives the program's end from
/// another recognizes a channel (`getpeername`). Failure loses only that.
fn name(signal: &UnixStream) {
    const ATTEMPTS: usize = 4;
    for _ in 0..ATTEMPTS {
        let text = format!("verbena-cm/{:08x}{:08x}", random_word(), random_word());
        let bound = net::SocketAddrUnix::new_abstract_name(text.as_bytes())
            .and_then(|address| net::bind(signal, &address));
        if bound != Err(rustix::io::Errno::ADDRINUSE) {
            return;
        }
    }
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
            // SAFETY: the descriptor is open during this call.
            unsafe { BorrowedFd::borrow_raw(descriptor) },
            true,
        )
        .unwrap();
        // SAFETY: `Channel::open` returned this descriptor to the caller, so nothing else owns it.
        (unsafe { OwnedFd::from_raw_fd(descriptor) }, channel)
    }

    #[test]
    fn the_channel_is_readable_while_events_are_queued() {
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
    fn removed_events_no_longer_make_the_channel_readable() {
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
    fn duplicated_descriptors_identify_the_same_channel() {
        let (end, channel) = opened();
        let copy = end.try_clone().unwrap();
        assert_eq!(ChannelId::of(&copy), Ok(channel.id()));
        assert_ne!(ChannelId::of(&opened().0), Ok(channel.id()));
        assert_eq!(ChannelId::at(-1), Err(Errno(libc::EBADF)));
    }

    #[test]
    fn the_peer_socket_has_an_abstract_name() {
        let (end, _channel) = opened();
        let peer = rustix::net::getpeername(&end).unwrap().unwrap();
        let peer = rustix::net::SocketAddrUnix::try_from(peer).unwrap();
        assert!(peer.abstract_name().unwrap().starts_with(b"verbena-cm/"));
    }
}

//! An event channel: what librdmacm holds as a descriptor of `/dev/infiniband/rdma_cm`.
//!
//! The program's descriptor is one end of a socket pair. A byte lies in it for each event that
//! waits, so poll(2), epoll(7) and O_NONBLOCK work on it as on the device (`ucma_poll` of the
//! kernel): readable while events wait, woken by each, and never writable, for its own buffer is
//! kept full.
//!
//! A channel is its file: the program may copy the descriptor, and use its number again.

use crate::event::Event;
use crate::port::random_word;
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

/// Which channel: the device and inode numbers of its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ChannelId(u64, u64);

impl ChannelId {
    /// That of the file at a descriptor, whether it is a channel or not.
    ///
    /// # Errors
    /// EBADF for none.
    pub fn at(descriptor: RawFd) -> Result<ChannelId> {
        if descriptor < 0 {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: only used for this call, which refuses a number that is not open.
        ChannelId::of(unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    fn of(descriptor: impl AsFd) -> Result<ChannelId> {
        let status = rustix::fs::fstat(descriptor).map_err(|error| Errno(error.raw_os_error()))?;
        Ok(ChannelId(status.st_dev, status.st_ino))
    }
}

/// A channel.
pub struct Channel {
    /// The program's descriptors of it.
    pub descriptors: Vec<RawFd>,
    signal: UnixStream,
    /// The program's end once more, for threads that wait: they must not be led astray when the program closes its
    /// descriptor and opens another file under the same number.
    end: Arc<OwnedFd>,
    id: ChannelId,
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

    /// Which it is.
    pub fn id(&self) -> ChannelId {
        self.id
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

/// Gives our end a name, by which the shim of a process that got the program's end from another
/// knows that it is a channel (`getpeername`). Without a name nothing else is lost.
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
    fn a_copy_is_the_same_channel_and_another_file_is_not() {
        let (end, channel) = opened();
        let copy = end.try_clone().unwrap();
        assert_eq!(ChannelId::of(&copy), Ok(channel.id()));
        assert_ne!(ChannelId::of(&opened().0), Ok(channel.id()));
        assert_eq!(ChannelId::at(-1), Err(Errno(libc::EBADF)));
    }

    #[test]
    fn the_peer_of_a_descriptor_has_a_name() {
        let (end, _channel) = opened();
        let peer = rustix::net::getpeername(&end).unwrap().unwrap();
        let peer = rustix::net::SocketAddrUnix::try_from(peer).unwrap();
        assert!(peer.abstract_name().unwrap().starts_with(b"verbena-cm/"));
    }
}

//! A stream socket, TCP or Unix, with the operations that client and server need.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, sockopt};

/// A connected stream socket.
#[derive(Debug)]
pub struct Socket(OwnedFd);

impl Socket {
    /// Wraps a TCP connection; sets `TCP_NODELAY` so that small frames leave at once, and keepalive
    /// so that a vanished peer is noticed.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn tcp(stream: std::net::TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        Ok(Self(stream.into()))
    }

    /// Wraps a Unix connection.
    pub fn unix(stream: std::os::unix::net::UnixStream) -> Self {
        Self(stream.into())
    }

    /// Makes the kernel notice within about `timeout` that the peer's host has vanished, by
    /// keepalive probes when idle and by a time limit on acknowledgements. Not for Unix sockets.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn notice_vanished(&self, timeout: Duration) -> io::Result<()> {
        // The first probe after half the time, then three more.
        let second = Duration::from_secs(1);
        sockopt::set_tcp_keepidle(&self.0, (timeout / 2).max(second))?;
        sockopt::set_tcp_keepintvl(&self.0, (timeout / 6).max(second))?;
        sockopt::set_tcp_keepcnt(&self.0, 3)?;
        let milliseconds = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX);
        Ok(sockopt::set_tcp_user_timeout(&self.0, milliseconds)?)
    }

    /// Sets whether calls block.
    ///
    /// # Errors
    /// The error of ioctl(2).
    pub fn set_blocking(&self, blocking: Blocking) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(
            &self.0,
            blocking == Blocking::No,
        )?)
    }

    /// Sets how long a call blocks before it fails with WouldBlock; zero means no limit.
    ///
    /// # Errors
    /// The error of setsockopt(2).
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        let timeout = (!timeout.is_zero()).then_some(timeout);
        sockopt::set_socket_timeout(&self.0, sockopt::Timeout::Recv, timeout)?;
        Ok(sockopt::set_socket_timeout(
            &self.0,
            sockopt::Timeout::Send,
            timeout,
        )?)
    }

    /// Receives into a slice; zero is the end of the stream.
    ///
    /// # Errors
    /// The error of recv(2).
    #[inline]
    pub fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        retry(|| {
            rustix::net::recv(&self.0, &mut *bytes, RecvFlags::empty())
                .map(|(received, _)| received)
        })
    }

    /// Appends at most `most` received bytes to a vector, growing it if necessary; returns how
    /// many.
    ///
    /// # Errors
    /// The error of recv(2).
    pub fn receive_more(&self, bytes: &mut Vec<u8>, most: usize) -> io::Result<usize> {
        bytes.reserve(most);
        let before = bytes.len();
        loop {
            let mut spare = std::mem::take(bytes);
            // At most `most` bytes may be received: those that follow belong to the next frame.
            let result = {
                let room = spare.capacity() - spare.len();
                if room <= most {
                    rustix::net::recv(&self.0, spare_capacity(&mut spare), RecvFlags::empty())
                        .map(|_| ())
                } else {
                    let start = spare.len();
                    spare.resize(start + most, 0);
                    let received =
                        rustix::net::recv(&self.0, &mut spare[start..], RecvFlags::empty());
                    let kept = received.as_ref().map_or(0, |(kept, _)| *kept);
                    spare.truncate(start + kept);
                    received.map(|_| ())
                }
            };
            *bytes = spare;
            match result {
                Ok(()) => return Ok(bytes.len() - before),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Returns the first byte without consuming it; `None` at the end of the stream.
    ///
    /// # Errors
    /// The error of recv(2).
    pub fn peek(&self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let seen =
            retry(|| rustix::net::recv(&self.0, &mut byte, RecvFlags::PEEK).map(|(seen, _)| seen))?;
        Ok((seen == 1).then_some(byte[0]))
    }

    /// Sends as much as possible; returns the number of bytes sent. Never raises SIGPIPE: a library
    /// must not terminate its host process.
    ///
    /// # Errors
    /// The error of sendmsg(2).
    #[inline]
    pub fn send(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut nothing = SendAncillaryBuffer::default();
        retry(|| rustix::net::sendmsg(&self.0, slices, &mut nothing, SendFlags::NOSIGNAL))
    }

    /// Returns whether the peer will send nothing more, even if sent data are still unread.
    pub fn is_closed_by_peer(&self) -> bool {
        let mut looked = [PollFd::new(self, PollFlags::RDHUP)];
        let ended = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        // A failed poll has reported nothing.
        let _ = poll(&mut looked, Some(&Timespec::default()));
        looked[0].revents().intersects(ended)
    }

    /// Returns whether the peer's host has acknowledged all that was sent (`SIOCOUTQ`, tcp(7)). On
    /// a Unix socket sent data are delivered at once.
    pub fn is_delivered(&self) -> bool {
        let is_tcp = sockopt::socket_protocol(&self.0) == Ok(Some(rustix::net::ipproto::TCP));
        let mut waiting: libc::c_int = 0;
        // SAFETY: a live descriptor, and an integer that the kernel writes to.
        let asked = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::TIOCOUTQ, &mut waiting) };
        !is_tcp || asked != 0 || waiting == 0
    }

    /// Shuts down both directions.
    pub fn shut_down(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl io::Read for &Socket {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.receive(bytes)
    }
}

impl io::Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(&[IoSlice::new(bytes)])
    }
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(slices)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether calls on a socket block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blocking {
    /// Calls block.
    Yes,
    /// Calls fail with WouldBlock.
    No,
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

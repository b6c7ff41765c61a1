//! An open fallback connection. Any thread may send; each frame is sent whole or not at all.

use super::frame::{Envelope, Frame, Token};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::tcp::Tcp;
use verbena_hca_os::udp::Address;

/// A fallback connection to a process of another host.
#[derive(Debug)]
pub struct Connection {
    tcp: Tcp,
    /// Token by which probes to us name this connection.
    pub own_token: Token,
    /// Unsent rest of a frame of which the kernel took the beginning.
    rest: Mutex<Vec<u8>>,
    has_rest: AtomicBool,
    is_broken: AtomicBool,
    /// Wakes the thread that sends the rest.
    doorbell: Arc<Doorbell>,
}

impl Connection {
    /// Creates the state of a connection.
    pub fn new(tcp: Tcp, own_token: Token, doorbell: Arc<Doorbell>) -> Connection {
        Connection {
            tcp,
            own_token,
            rest: Mutex::default(),
            has_rest: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            doorbell,
        }
    }

    /// Sends packets, as a UDP socket would: packets that do not fit for a while are lost.
    ///
    /// # Errors
    /// EAGAIN if there was no space, ENOTCONN if the connection has ended.
    pub fn send_packets(&self, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        /// Attempts while there is no space, and milliseconds to wait after each.
        const ATTEMPTS: u32 = 3;
        const TIMEOUT_MS: i32 = 1;
        let mut answer = Err(Errno::EAGAIN);
        for _ in 0..ATTEMPTS {
            answer = self.send(&Frame::Packets { envelope, bytes });
            match answer {
                Err(Errno::EAGAIN) => self.tcp.wait_for_room(TIMEOUT_MS),
                _ => break,
            }
        }
        answer
    }

    /// Sends a frame without waiting.
    ///
    /// # Errors
    /// As [`Connection::send_packets`].
    pub fn send(&self, frame: &Frame<'_>) -> Result<()> {
        let mut rest = self.lock();
        self.write_rest(&mut rest)?;
        let head = frame.head();
        let bytes: &[u8] = match frame {
            Frame::Packets { bytes, .. } => bytes,
            _ => &[],
        };
        let taken = self.write(&[IoSlice::new(&head), IoSlice::new(bytes)])?;
        let whole = head.len() + bytes.len();
        if taken < whole {
            // The peer finds the end of a frame by its length alone, so a partly sent frame must be
            // completed.
            let of_head = head.get(taken..).unwrap_or_default();
            let of_bytes = bytes.get(taken.saturating_sub(head.len())..);
            rest.extend_from_slice(of_head);
            rest.extend_from_slice(of_bytes.unwrap_or_default());
            self.has_rest.store(true, Ordering::Release);
            self.doorbell.ring();
        }
        Ok(())
    }

    /// Returns whether a frame is partly sent; the reading thread then waits for space and sends
    /// the rest.
    pub fn has_rest(&self) -> bool {
        self.has_rest.load(Ordering::Acquire)
    }

    /// Sends more of the partly sent frame.
    pub fn go_on(&self) {
        let _ = self.write_rest(&mut self.lock());
    }

    fn write_rest(&self, rest: &mut Vec<u8>) -> Result<()> {
        while !rest.is_empty() {
            let taken = self.write(&[IoSlice::new(rest)])?;
            rest.drain(..taken);
        }
        self.has_rest.store(false, Ordering::Release);
        Ok(())
    }

    fn write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        if self.is_broken() {
            return Err(Errno(libc::ENOTCONN));
        }
        match self.tcp.write(parts) {
            Err(Errno(libc::EAGAIN | libc::EINTR | libc::ENOBUFS | libc::ENOMEM)) => {
                Err(Errno::EAGAIN)
            }
            Err(_) => {
                self.end();
                Err(Errno(libc::ENOTCONN))
            }
            taken => taken,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the peer's address, as the network sees it.
    ///
    /// # Errors
    /// ENOTCONN if the connection has ended.
    pub fn peer(&self) -> Result<Address> {
        self.tcp.peer()
    }

    /// Reads received bytes; 0 at the end of the stream.
    ///
    /// # Errors
    /// EAGAIN if there are none; the network's errors.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        self.tcp.read(into)
    }

    /// Returns whether the connection has ended.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Ends the connection. The thread that reads it notices.
    pub fn end(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.tcp.end();
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Assembler;
    use super::*;
    use std::os::fd::OwnedFd;

    fn pair() -> (Connection, Connection) {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let connection = |fd: OwnedFd| Connection::new(Tcp::of(fd), [0; 8], doorbell.clone());
        (connection(a.into()), connection(b.into()))
    }

    fn envelope(number: u16) -> Envelope {
        Envelope {
            source_port: number,
            destination_port: 4791,
            traffic_class: 2,
            segment: 1000,
        }
    }

    /// Three threads send while the kernel takes partial writes: every frame that was accepted
    /// arrives whole, in its thread's order.
    #[test]
    fn frames_of_concurrent_senders_arrive_whole() {
        const EACH: u16 = 400;
        let (sender, receiver) = pair();
        let sender = Arc::new(sender);
        let sending: Vec<_> = (0..3u8)
            .map(|thread| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    let bytes = vec![thread; 40_000];
                    for number in 0..EACH {
                        let envelope = envelope(u16::from(thread) << 14 | number);
                        while sender.send_packets(envelope, &bytes) == Err(Errno::EAGAIN) {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut assembler = Assembler::default();
        let mut came = [0u16; 3];
        let mut buffer = vec![0; 100_000];
        while came != [EACH; 3] {
            if sender.has_rest() {
                sender.go_on();
            }
            let Ok(count) = receiver.read(&mut buffer) else {
                std::thread::yield_now();
                continue;
            };
            assembler.room().extend(&buffer[..count]);
            while let Some(frame) = assembler.take().unwrap() {
                let Frame::Packets { envelope, bytes } = frame else {
                    panic!("{frame:?}");
                };
                let thread = envelope.source_port >> 14;
                assert_eq!(bytes, vec![thread as u8; 40_000]);
                let expected = &mut came[usize::from(thread)];
                assert_eq!(envelope.source_port & 0x3fff, *expected);
                *expected += 1;
            }
        }
        for one in sending {
            one.join().unwrap();
        }
    }

    /// A peer sends a last frame and closes while our data is unread: its kernel resets the
    /// connection, and our next send notices before the frame is read. The frame must still be
    /// readable.
    #[test]
    fn last_frame_of_a_closed_peer_is_read() {
        let listener = Tcp::listen(0).unwrap();
        let here = Address {
            ip: std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            port: listener.port().unwrap(),
            scope: 0,
        };
        let calling = Tcp::connect(here.ip, here).unwrap();
        let taken = std::iter::repeat_with(|| listener.accept()).find_map(Result::ok);
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let connection = |tcp| Connection::new(tcp, [0; 8], doorbell.clone());
        let (ours, theirs) = (connection(calling), connection(taken.unwrap()));
        ours.send_packets(envelope(1), b"unread").unwrap();
        theirs.send_packets(envelope(2), b"the last word").unwrap();
        drop(theirs);
        while ours.send_packets(envelope(3), b"who is there?").is_ok() {}
        assert!(ours.is_broken());
        let mut assembler = Assembler::default();
        let mut buffer = [0; 1000];
        let count = ours.read(&mut buffer).unwrap();
        assembler.room().extend(&buffer[..count]);
        let word = Frame::Packets {
            envelope: envelope(2),
            bytes: b"the last word",
        };
        assert_eq!(assembler.take(), Ok(Some(word)));
        assert_ne!(ours.read(&mut buffer), Err(Errno::EAGAIN));
    }

    #[test]
    fn send_on_an_ended_connection_fails() {
        let (sender, receiver) = pair();
        drop(receiver);
        assert_eq!(
            sender.send_packets(envelope(1), b"lost"),
            Err(Errno(libc::ENOTCONN))
        );
        assert!(sender.is_broken());
    }
}

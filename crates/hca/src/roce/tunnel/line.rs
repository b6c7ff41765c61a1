//! A tunnel that is open: frames leave from any thread, each whole or not at all.

use super::frame::{Envelope, Frame, Token};
use crate::errno::{Errno, Result};
use crate::sys::doorbell::Doorbell;
use crate::sys::tcp::Tcp;
use crate::sys::udp::Address;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tunnel to a process of another host.
#[derive(Debug)]
pub struct Line {
    tcp: Tcp,
    /// By which questions to us name this tunnel.
    pub own_token: Token,
    /// What is left of a frame of which the kernel has taken the beginning.
    rest: Mutex<Vec<u8>>,
    has_rest: AtomicBool,
    is_broken: AtomicBool,
    /// Wakes the thread that goes on with the rest.
    doorbell: Arc<Doorbell>,
}

impl Line {
    /// Over a connection.
    pub fn new(tcp: Tcp, own_token: Token, doorbell: Arc<Doorbell>) -> Line {
        Line {
            tcp,
            own_token,
            rest: Mutex::default(),
            has_rest: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            doorbell,
        }
    }

    /// Sends packets, as a socket of UDP would. What finds no room for a while is lost, as packets are.
    ///
    /// # Errors
    /// EAGAIN when they found no room, ENOTCONN when the tunnel has ended.
    pub fn send_packets(&self, envelope: Envelope, bytes: &[u8]) -> Result<()> {
        /// How often it is tried when there is no room, and how long that may take.
        const ATTEMPTS: u32 = 3;
        const PATIENCE_MS: i32 = 1;
        let mut answer = Err(Errno::EAGAIN);
        for _ in 0..ATTEMPTS {
            answer = self.send(&Frame::Packets { envelope, bytes });
            match answer {
                Err(Errno::EAGAIN) => self.tcp.wait_for_room(PATIENCE_MS),
                _ => break,
            }
        }
        answer
    }

    /// Sends a frame. Waits for nothing.
    ///
    /// # Errors
    /// As [`Line::send_packets`].
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
            // The other end knows where a frame ends by its length alone: what has begun must go on.
            let of_head = head.get(taken..).unwrap_or_default();
            let of_bytes = bytes.get(taken.saturating_sub(head.len())..);
            rest.extend_from_slice(of_head);
            rest.extend_from_slice(of_bytes.unwrap_or_default());
            self.has_rest.store(true, Ordering::Release);
            self.doorbell.ring();
        }
        Ok(())
    }

    /// Whether a frame has begun to leave: the thread that reads the tunnel waits for room, and goes on with it.
    pub fn has_rest(&self) -> bool {
        self.has_rest.load(Ordering::Acquire)
    }

    /// Goes on with the frame that has begun to leave.
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

    /// Who is at the other end, as the network sees it.
    ///
    /// # Errors
    /// ENOTCONN when nobody is any more.
    pub fn peer(&self) -> Result<Address> {
        self.tcp.peer()
    }

    /// Takes bytes that have come; 0 when nothing will any more.
    ///
    /// # Errors
    /// EAGAIN when there are none; the network's.
    pub fn read(&self, into: &mut [u8]) -> Result<usize> {
        self.tcp.read(into)
    }

    /// Whether it has ended.
    pub fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }

    /// Ends it. The thread that reads it sees that.
    pub fn end(&self) {
        self.is_broken.store(true, Ordering::Release);
        self.tcp.end();
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::super::frame::Assembler;
    use super::*;
    use std::os::fd::OwnedFd;

    fn pair() -> (Line, Line) {
        let (a, b) = std::os::unix::net::UnixStream::pair().unwrap();
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let line = |fd: OwnedFd| Line::new(Tcp::of(fd), [0; 8], doorbell.clone());
        (line(a.into()), line(b.into()))
    }

    fn envelope(number: u16) -> Envelope {
        Envelope {
            source_port: number,
            destination_port: 4791,
            traffic_class: 2,
            segment: 1000,
        }
    }

    /// Three threads send, the kernel takes pieces: every frame that was said to be sent comes whole, in its thread's order.
    #[test]
    fn frames_of_several_threads_come_whole() {
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

    /// A peer says his last word and goes, while what we have sent is unread: his system resets the connection, and what we send
    /// after it finds that out before his word is read. It is there all the same.
    #[test]
    fn the_last_word_of_one_that_has_gone_is_heard() {
        let listener = Tcp::listen(0).unwrap();
        let here = Address {
            ip: std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped(),
            port: listener.port().unwrap(),
            scope: 0,
        };
        let calling = Tcp::connect(here.ip, here).unwrap();
        let taken = std::iter::repeat_with(|| listener.accept()).find_map(Result::ok);
        let doorbell = Arc::new(Doorbell::new().unwrap());
        let line = |tcp| Line::new(tcp, [0; 8], doorbell.clone());
        let (ours, theirs) = (line(calling), line(taken.unwrap()));
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
    fn one_that_has_ended_says_so() {
        let (sender, receiver) = pair();
        drop(receiver);
        assert_eq!(
            sender.send_packets(envelope(1), b"lost"),
            Err(Errno(libc::ENOTCONN))
        );
        assert!(sender.is_broken());
    }
}

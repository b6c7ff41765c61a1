//! The send queue of a session: replies and data, without copies. The session bounds it by reading
//! no further request while too much is queued.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::channel::Channel;
use crate::budget::MemoryGrant;
use crate::engine::Segment;

/// Maximum number of slices per system call.
const SLICES: usize = 256;

/// Maximum bytes per flush: a client that reads as fast as data are sent would otherwise keep the
/// others waiting.
const AT_A_TIME: usize = 1 << 20;

/// An item to send, with the memory granted for it until it is sent.
#[derive(Debug)]
struct Item {
    bytes: Bytes,
    _grant: Option<Arc<MemoryGrant>>,
}

#[derive(Debug)]
enum Bytes {
    Frame(Vec<u8>),
    Data(Segment),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) => bytes,
            Self::Data(segment) => segment.bytes(),
        }
    }

    /// Returns the bytes of memory outside the cache.
    fn owned(&self) -> usize {
        match self {
            Self::Frame(bytes) | Self::Data(Segment::Owned(bytes)) => bytes.len(),
            Self::Data(Segment::Block(..)) => 0,
        }
    }
}

/// The sending side of a session.
#[derive(Debug, Default)]
pub struct Output {
    queue: VecDeque<Item>,
    /// Bytes of the first element already sent.
    sent: usize,
    waiting: usize,
    /// Of those, bytes of memory outside the cache.
    owned: usize,
}

impl Output {
    /// Queues a frame's header, body and tag.
    pub fn push_frame(&mut self, bytes: Vec<u8>, grant: Option<Arc<MemoryGrant>>) {
        self.push(Bytes::Frame(bytes), grant);
    }

    /// Queues data.
    pub fn push_data(&mut self, segment: Segment, grant: Option<Arc<MemoryGrant>>) {
        self.push(Bytes::Data(segment), grant);
    }

    fn push(&mut self, bytes: Bytes, grant: Option<Arc<MemoryGrant>>) {
        self.waiting += bytes.as_slice().len();
        self.owned += bytes.owned();
        self.queue.push_back(Item {
            bytes,
            _grant: grant,
        });
    }

    /// Returns the number of queued bytes.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Returns the queued bytes outside the cache; each item counts until all of it is sent.
    pub fn waiting_outside_the_cache(&self) -> usize {
        self.owned
    }

    /// Sends until the queue is empty, the channel takes no more, or the limit per flush is
    /// reached; returns the number of bytes sent.
    ///
    /// # Errors
    /// The connection failed.
    pub fn flush(&mut self, channel: &mut Channel) -> io::Result<usize> {
        let mut total = 0;
        while !self.queue.is_empty() && total < AT_A_TIME {
            let mut slices = Vec::with_capacity(self.queue.len().min(SLICES));
            let mut room = AT_A_TIME - total;
            for (index, item) in self.queue.iter().take(SLICES).enumerate() {
                let skip = if index == 0 { self.sent } else { 0 };
                let rest = &item.bytes.as_slice()[skip..];
                let part = &rest[..rest.len().min(room)];
                slices.push(IoSlice::new(part));
                room -= part.len();
                if room == 0 {
                    break;
                }
            }
            match channel.send(&slices) {
                Ok(taken) => {
                    total += taken;
                    self.advance(taken);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }

    fn advance(&mut self, mut taken: usize) {
        self.waiting -= taken;
        while let Some(first) = self.queue.front() {
            let left = first.bytes.as_slice().len() - self.sent;
            if taken < left {
                self.sent += taken;
                return;
            }
            taken -= left;
            self.sent = 0;
            if let Some(item) = self.queue.pop_front() {
                self.owned -= item.bytes.owned();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use verbena_rfio_common::socket::Socket;

    /// A client that reads as fast as data are sent does not monopolize the event loop.
    #[test]
    fn output_to_a_fast_client_is_sent_in_bounded_parts() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let taking = std::thread::spawn(move || {
            let mut taken = Vec::new();
            far.read_to_end(&mut taken).unwrap();
            taken
        });
        let whole: Vec<u8> = (0..5 * AT_A_TIME + 3)
            .map(|index| (index / 7) as u8)
            .collect();
        let mut output = Output::default();
        for piece in whole.chunks(AT_A_TIME / 3 + 1) {
            output.push_data(Segment::Owned(piece.to_vec()), None);
        }
        let mut channel = Channel::Plain(Socket::unix(near));
        let mut times = 0;
        while output.waiting() > 0 {
            let before = output.waiting();
            let sent = output.flush(&mut channel).unwrap();
            assert!(sent <= AT_A_TIME, "{sent} bytes at a time");
            assert_eq!(output.waiting(), before - sent);
            times += u32::from(sent > 0);
            std::thread::yield_now();
        }
        assert!(times >= 6);
        drop(channel);
        assert!(taking.join().unwrap() == whole);
    }
}

//! What waits to be sent: replies and data, without copies. Bounded by the session, which takes no further request while
//! too much waits.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;

use super::channel::Channel;
use crate::server::budget::Grant;
use crate::server::engine::Segment;

/// Slices handed to one system call.
const SLICES: usize = 256;

/// Something to send, with the memory that is granted for it until it is sent.
#[derive(Debug)]
struct Item {
    bytes: Bytes,
    _grant: Option<Arc<Grant>>,
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

    /// Bytes of memory outside the cache.
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
    /// Bytes of the first element that are sent.
    sent: usize,
    waiting: usize,
    /// Of those, bytes of memory outside the cache.
    owned: usize,
}

impl Output {
    /// Queues a frame's header, body and tag.
    pub fn push_frame(&mut self, bytes: Vec<u8>, grant: Option<Arc<Grant>>) {
        self.push(Bytes::Frame(bytes), grant);
    }

    /// Queues data.
    pub fn push_data(&mut self, segment: Segment, grant: Option<Arc<Grant>>) {
        self.push(Bytes::Data(segment), grant);
    }

    fn push(&mut self, bytes: Bytes, grant: Option<Arc<Grant>>) {
        self.waiting += bytes.as_slice().len();
        self.owned += bytes.owned();
        self.queue.push_back(Item {
            bytes,
            _grant: grant,
        });
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes outside the cache that wait, each piece counted until all of it is sent.
    pub fn waiting_outside_the_cache(&self) -> usize {
        self.owned
    }

    /// Sends until nothing waits or the channel takes no more; how many bytes it took.
    pub fn flush(&mut self, channel: &mut Channel) -> io::Result<usize> {
        let mut total = 0;
        while !self.queue.is_empty() {
            let mut slices = Vec::with_capacity(self.queue.len().min(SLICES));
            for (index, item) in self.queue.iter().take(SLICES).enumerate() {
                let skip = if index == 0 { self.sent } else { 0 };
                slices.push(IoSlice::new(&item.bytes.as_slice()[skip..]));
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

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

#[derive(Debug)]
enum Bytes {
    Frame(Vec<u8>),
    Data(
        Segment,
        #[allow(dead_code, reason = "held until the data are sent")] Option<Arc<Grant>>,
    ),
}

impl Bytes {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Frame(bytes) => bytes,
            Self::Data(segment, _) => segment.bytes(),
        }
    }
}

/// The sending side of a session.
#[derive(Debug, Default)]
pub struct Output {
    queue: VecDeque<Bytes>,
    /// Bytes of the first element that are sent.
    sent: usize,
    waiting: usize,
    /// Of those, bytes of memory outside the cache.
    owned: usize,
}

impl Output {
    /// Queues a frame's header, body and tag.
    pub fn push_frame(&mut self, bytes: Vec<u8>) {
        self.waiting += bytes.len();
        self.queue.push_back(Bytes::Frame(bytes));
    }

    /// Queues data.
    pub fn push_data(&mut self, segment: Segment, grant: Option<Arc<Grant>>) {
        self.waiting += segment.bytes().len();
        self.owned += owned(&segment);
        self.queue.push_back(Bytes::Data(segment, grant));
    }

    /// Bytes that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Bytes of file data outside the cache that wait, counted until the last of a reply's is sent.
    pub fn waiting_outside_the_cache(&self) -> usize {
        self.owned
    }

    /// Sends until nothing waits or the channel takes no more; how many bytes it took.
    pub fn flush(&mut self, channel: &mut Channel) -> io::Result<usize> {
        let mut total = 0;
        while !self.queue.is_empty() {
            let mut slices = Vec::with_capacity(self.queue.len().min(SLICES));
            for (index, bytes) in self.queue.iter().take(SLICES).enumerate() {
                let skip = if index == 0 { self.sent } else { 0 };
                slices.push(IoSlice::new(&bytes.as_slice()[skip..]));
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
            let left = first.as_slice().len() - self.sent;
            if taken < left {
                self.sent += taken;
                return;
            }
            taken -= left;
            self.sent = 0;
            if let Some(Bytes::Data(segment, _)) = self.queue.pop_front() {
                self.owned -= owned(&segment);
            }
        }
    }
}

fn owned(segment: &Segment) -> usize {
    match segment {
        Segment::Owned(bytes) => bytes.len(),
        Segment::Block(..) => 0,
    }
}

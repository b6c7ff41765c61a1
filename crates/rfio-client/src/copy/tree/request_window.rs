//! Limit on the requests in flight in one session: enough to fill the path to a distant server, but
//! bounded because requests in flight take memory on this host.

use std::collections::VecDeque;

/// Bytes of requests, or of replies, in flight.
const MOST: usize = 256 << 10;

/// Bytes of a frame besides its body: header, tag, and the file attributes in a reply.
const EACH: usize = 128;

/// Bytes of data in flight, in requests or replies.
const MOST_DATA: usize = 16 << 20;

/// The requests in flight: bytes of each, and of the data in it or its reply.
#[derive(Debug, Default)]
pub(super) struct RequestWindow {
    in_progress: VecDeque<(usize, usize)>,
    bytes: usize,
    data: usize,
    is_full: bool,
}

impl RequestWindow {
    /// Returns whether another request may be sent. A full window has space again only when it is
    /// half empty, so that requests are sent in batches.
    pub fn has_room(&self) -> bool {
        !self.is_full
    }

    /// Records a request: `body` bytes of request or reply, and `data` bytes of data in either.
    pub fn add(&mut self, body: usize, data: usize) {
        let bytes = body + EACH;
        self.in_progress.push_back((bytes, data));
        self.bytes += bytes;
        self.data += data;
        self.is_full |= self.bytes >= MOST || self.data >= MOST_DATA;
    }

    /// Records that the reply to the oldest request was taken.
    pub fn remove(&mut self) {
        let (bytes, data) = self.in_progress.pop_front().unwrap_or_default();
        self.bytes -= bytes;
        self.data -= data;
        self.is_full &= self.bytes > MOST / 2 || self.data > MOST_DATA / 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_under_way_are_bounded_and_room_comes_for_many() {
        let mut window = RequestWindow::default();
        while window.has_room() {
            window.add(100, 0);
        }
        assert!((MOST..MOST + 100 + EACH).contains(&window.bytes));
        let full = window.in_progress.len();
        while !window.has_room() {
            window.remove();
        }
        assert!((full / 2 - 2..full / 2 + 2).contains(&window.in_progress.len()));
        while !window.in_progress.is_empty() {
            window.remove();
        }
        assert_eq!((window.bytes, window.data), (0, 0));
    }

    #[test]
    fn data_that_may_come_before_their_turn_are_bounded() {
        let mut window = RequestWindow::default();
        while window.has_room() {
            window.add(100, 256 << 10);
        }
        assert!((MOST_DATA..MOST_DATA + (256 << 10)).contains(&window.data));
    }
}

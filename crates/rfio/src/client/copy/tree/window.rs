//! How far ahead of the replies requests are sent on one session.
//!
//! A client that sends does not take replies meanwhile, and a server that cannot get rid of its
//! replies reads nothing. So what is under way must fit into the buffers of the connection, in one
//! direction at least.

use std::collections::VecDeque;

/// Bytes on the way that the sockets of any connection hold.
const MOST: usize = 64 << 10;

/// What a frame needs besides its body: header and tag, and what a reply says of a file.
const EACH: usize = 128;

/// Bytes of data that replies may bring: what comes before its turn is kept.
const MOST_DATA: usize = 16 << 20;

/// The requests that are under way, by their bytes and those that come with the replies.
#[derive(Debug, Default)]
pub(super) struct Window {
    under_way: VecDeque<(usize, usize)>,
    bytes: usize,
    data: usize,
    is_full: bool,
}

impl Window {
    /// Whether one more may be sent. Once there is none, there is room again for many together.
    pub fn has_room(&self) -> bool {
        !self.is_full
    }

    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// A request was sent whose body, or that of its reply, is so long, and whose reply brings so
    /// much data at most.
    pub fn add(&mut self, body: usize, data: usize) {
        let bytes = body + EACH;
        self.under_way.push_back((bytes, data));
        self.bytes += bytes;
        self.data += data;
        self.is_full |= self.bytes >= MOST || self.data >= MOST_DATA;
    }

    /// The reply to the oldest is taken; how much data it may bring.
    pub fn remove(&mut self) -> usize {
        let (bytes, data) = self.under_way.pop_front().unwrap_or_default();
        self.bytes -= bytes;
        self.data -= data;
        self.is_full &= self.bytes > MOST / 2 || self.data > MOST_DATA / 2;
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_under_way_are_bounded_and_room_comes_for_many() {
        let mut window = Window::default();
        while window.has_room() {
            window.add(100, 0);
        }
        assert!((MOST..MOST + 100 + EACH).contains(&window.bytes));
        let full = window.under_way.len();
        while !window.has_room() {
            window.remove();
        }
        assert!((full / 2 - 2..full / 2 + 2).contains(&window.under_way.len()));
        while !window.is_empty() {
            window.remove();
        }
        assert_eq!((window.bytes, window.data), (0, 0));
    }

    #[test]
    fn data_that_may_come_before_their_turn_are_bounded() {
        let mut window = Window::default();
        while window.has_room() {
            window.add(100, 256 << 10);
        }
        assert!((MOST_DATA..MOST_DATA + (256 << 10)).contains(&window.data));
    }
}

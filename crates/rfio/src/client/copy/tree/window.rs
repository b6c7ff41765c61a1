//! How far ahead of the replies requests are sent on one session: so far that the way to a server
//! far away is filled, and bounded, as what is under way takes memory here.

use std::collections::VecDeque;

/// Bytes of requests, or of replies, that are under way.
const MOST: usize = 256 << 10;

/// What a frame needs besides its body: header and tag, and what a reply says of a file.
const EACH: usize = 128;

/// Bytes of data that are sent with them, or may come with the replies.
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

    /// A request was sent whose body, or that of its reply, is so long, and that brings so much
    /// data, or whose reply does.
    pub fn add(&mut self, body: usize, data: usize) {
        let bytes = body + EACH;
        self.under_way.push_back((bytes, data));
        self.bytes += bytes;
        self.data += data;
        self.is_full |= self.bytes >= MOST || self.data >= MOST_DATA;
    }

    /// The reply to the oldest is taken.
    pub fn remove(&mut self) {
        let (bytes, data) = self.under_way.pop_front().unwrap_or_default();
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
        while !window.under_way.is_empty() {
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

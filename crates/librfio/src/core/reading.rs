//! How far ahead of a program's reads a file is fetched (`rfiosetopt`).

use std::time::Duration;

use verbena_rfio::client::Error;

/// Bytes read ahead of small reads.
const AHEAD: usize = 128 << 10;

/// Bytes read ahead at most. They come as many requests under way at once, so over a long way a window costs one round trip
/// beyond the time that its bytes take.
const MOST_AHEAD: usize = 16 << 20;

/// Pieces in which what is read ahead comes: as one is read, another is asked for, so that the way is never empty.
const PIECES: usize = 4;

/// How long a read goes on after a lost connection, if nothing else is said.
const RETRY: Duration = Duration::from_secs(30);

/// How small reads are served (`rfiosetopt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// A request each.
    Direct,
    /// Through a buffer.
    Buffered,
    /// Through a buffer that grows as long as reads follow each other.
    Ahead,
    /// Through a large buffer from the first read on.
    Streamed,
}

impl Reading {
    /// How long a read goes on after a lost connection: `RFIO_RETRY` seconds, with the options that
    /// read ahead. A program that asks for each read by itself is told at once.
    pub fn patience(self) -> Result<Duration, Error> {
        if !matches!(self, Self::Ahead | Self::Streamed) {
            return Ok(Duration::ZERO);
        }
        match std::env::var("RFIO_RETRY") {
            Ok(text) if !text.is_empty() => text.parse().map(Duration::from_secs).map_err(|_| {
                Error::Setup(format!("RFIO_RETRY: '{text}' is not a number of seconds"))
            }),
            _ => Ok(RETRY),
        }
    }
}

/// How a file is read: what the last fetch brought, whether it was kept or went to the program at once.
#[derive(Debug)]
pub struct Course {
    reading: Reading,
    last: Option<Fetched>,
}

#[derive(Debug, Clone, Copy)]
struct Fetched {
    start: u64,
    length: usize,
    /// Bytes that were to be there for the reads that follow.
    window: usize,
}

impl Fetched {
    /// Whether a read goes on with it: begins in it, or right behind it.
    fn is_followed_by(&self, offset: u64) -> bool {
        offset > self.start && offset - self.start <= self.length as u64
    }
}

impl Course {
    /// Nothing was read yet.
    pub fn new(reading: Reading) -> Self {
        Self {
            reading,
            last: None,
        }
    }

    /// Bytes to fetch for a read at an offset that is not kept; a read that is as long goes to the program at once.
    pub fn window(&self, offset: u64) -> usize {
        let followed = self.last.filter(|last| last.is_followed_by(offset));
        match (self.reading, followed) {
            (Reading::Direct, _) => 0,
            (Reading::Buffered, _) | (Reading::Ahead, None) => AHEAD,
            (Reading::Ahead, Some(last)) => (2 * last.window).clamp(AHEAD, MOST_AHEAD),
            (Reading::Streamed, _) => MOST_AHEAD,
        }
    }

    /// Bytes to have on their way for the reads that follow what was fetched last; zero where they are not taken to follow.
    pub fn under_way(&self) -> usize {
        match (self.reading, self.last) {
            (Reading::Ahead, Some(last)) if last.window > AHEAD => last.window,
            (Reading::Streamed, Some(_)) => MOST_AHEAD,
            _ => 0,
        }
    }

    /// Bytes of one of the pieces in which these come.
    pub fn piece(&self) -> usize {
        (self.under_way() / PIECES).max(AHEAD)
    }

    /// A fetch brought so many bytes.
    pub fn fetched(&mut self, start: u64, length: usize) {
        let window = self.window(start).max(length).min(MOST_AHEAD);
        self.last = Some(Fetched {
            start,
            length,
            window,
        });
    }

    /// The connection is another one: what is asked for on it grows from a buffer on.
    pub fn begin_anew(&mut self) {
        *self = Self::new(match self.reading {
            Reading::Streamed => Reading::Ahead,
            other => other,
        });
    }

    /// Nothing that was read says anything about what comes.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of each fetch, for reads of so many bytes at these offsets.
    fn fetches(reading: Reading, offsets: impl Iterator<Item = u64>, length: usize) -> Vec<usize> {
        let (mut course, mut kept, mut made) = (Course::new(reading), 0..0, Vec::new());
        for offset in offsets {
            let end = offset + length as u64;
            if kept.start <= offset && end <= kept.end {
                continue;
            }
            let fetched = course.window(offset).max(length);
            course.fetched(offset, fetched);
            kept = match fetched > length {
                true => offset..offset + fetched as u64,
                false => 0..0,
            };
            made.push(fetched);
        }
        made
    }

    /// 256 MiB in reads of any length take a fetch for each 16 MiB, and a few until it is known that they follow each other.
    #[test]
    fn reads_that_follow_each_other_are_fetched_ahead_whatever_their_length() {
        const WHOLE: u64 = 256 << 20;
        for length in [1 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 5 << 20] {
            let offsets = (0..WHOLE).step_by(length);
            for reading in [Reading::Ahead, Reading::Streamed] {
                let made = fetches(reading, offsets.clone(), length);
                assert!(
                    made.len() <= 9 + 16 + 8,
                    "{length} B, {reading:?}: {made:?}"
                );
            }
        }
    }

    #[test]
    fn reads_here_and_there_fetch_no_more_than_a_buffer() {
        let offsets = (0..1000).map(|turn: u64| turn.wrapping_mul(7_919_000_003) % (1 << 40));
        for length in [1 << 10, 256 << 10] {
            let made = fetches(Reading::Ahead, offsets.clone(), length);
            assert!(made.iter().all(|&fetched| fetched <= AHEAD.max(length)));
        }
    }
}

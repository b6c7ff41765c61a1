//! The read-ahead policy (`rfiosetopt`).

use std::time::Duration;

use verbena_rfio_client::Error;

/// Bytes read ahead of small reads.
const AHEAD: usize = 128 << 10;

/// Maximum read-ahead, in bytes. It consists of many simultaneous requests, so on a path with a
/// long round-trip time a window costs one round trip beyond its transfer time.
const MOST_AHEAD: usize = 16 << 20;

/// Number of reads in progress per window: with each one that is consumed, another is sent, so that
/// the path is never idle.
const REQUESTS_PER_WINDOW: usize = 4;

/// Default duration of retries after a lost connection.
const RETRY: Duration = Duration::from_secs(30);

/// How small reads are served (`rfiosetopt`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadMode {
    /// One request each.
    Direct,
    /// Through a buffer.
    Buffered,
    /// Through a buffer that grows while reads are sequential.
    Ahead,
    /// Through a large buffer from the first read on.
    Streamed,
}

impl ReadMode {
    /// Returns how long a read is retried after a lost connection: `RFIO_RETRY` seconds, with the
    /// options that read ahead. Without them the error is returned at once.
    ///
    /// # Errors
    /// [`Error::Setup`] if `RFIO_RETRY` is not a number.
    pub fn timeout(self) -> Result<Duration, Error> {
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

/// The read-ahead state of a file: its options and its last fetch, whether buffered or direct.
#[derive(Debug)]
pub struct ReadAhead {
    reading: ReadMode,
    last: Option<Fetched>,
}

#[derive(Debug, Clone, Copy)]
struct Fetched {
    start: u64,
    length: usize,
    /// The window that was chosen for the following reads, in bytes.
    window: usize,
}

impl Fetched {
    /// Returns whether a read continues it: begins within it or directly after it.
    fn is_followed_by(&self, offset: u64) -> bool {
        offset > self.start && offset - self.start <= self.length as u64
    }
}

impl ReadAhead {
    pub fn new(reading: ReadMode) -> Self {
        Self {
            reading,
            last: None,
        }
    }

    /// Returns the bytes to fetch for a read at an offset that is not buffered; a read of at least
    /// this length is served directly.
    pub fn window(&self, offset: u64) -> usize {
        let followed = self.last.filter(|last| last.is_followed_by(offset));
        match (self.reading, followed) {
            (ReadMode::Direct, _) => 0,
            (ReadMode::Buffered, _) | (ReadMode::Ahead, None) => AHEAD,
            (ReadMode::Ahead, Some(last)) => (2 * last.window).clamp(AHEAD, MOST_AHEAD),
            (ReadMode::Streamed, _) => MOST_AHEAD,
        }
    }

    /// Returns the bytes to keep in progress for the reads after the last fetch; zero if they are
    /// not sequential.
    pub fn bytes_in_progress(&self) -> usize {
        match (self.reading, self.last) {
            (ReadMode::Ahead, Some(last)) if last.window > AHEAD => last.window,
            (ReadMode::Streamed, Some(_)) => MOST_AHEAD,
            _ => 0,
        }
    }

    /// Returns the bytes of one of these reads.
    pub fn request_bytes(&self) -> usize {
        (self.bytes_in_progress() / REQUESTS_PER_WINDOW).max(AHEAD)
    }

    /// Records a fetch of `length` bytes.
    pub fn fetched(&mut self, start: u64, length: usize) {
        let window = self.window(start).max(length).min(MOST_AHEAD);
        self.last = Some(Fetched {
            start,
            length,
            window,
        });
    }

    /// Starts again on a new connection, with the smallest window.
    pub fn restart(&mut self) {
        *self = Self::new(match self.reading {
            ReadMode::Streamed => ReadMode::Ahead,
            other => other,
        });
    }

    /// Drops the record of the last fetch.
    pub fn forget(&mut self) {
        self.last = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the bytes of each fetch, for reads of `length` bytes at these offsets.
    fn fetches(reading: ReadMode, offsets: impl Iterator<Item = u64>, length: usize) -> Vec<usize> {
        let (mut read_ahead, mut kept, mut made) = (ReadAhead::new(reading), 0..0, Vec::new());
        for offset in offsets {
            let end = offset + length as u64;
            if kept.start <= offset && end <= kept.end {
                continue;
            }
            let fetched = read_ahead.window(offset).max(length);
            read_ahead.fetched(offset, fetched);
            kept = match fetched > length {
                true => offset..offset + fetched as u64,
                false => 0..0,
            };
            made.push(fetched);
        }
        made
    }

    /// 256 MiB in reads of any length take one fetch per 16 MiB, and a few until sequential reads
    /// are detected.
    #[test]
    fn sequential_reads_of_any_length_are_prefetched() {
        const WHOLE: u64 = 256 << 20;
        for length in [1 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20, 5 << 20] {
            let offsets = (0..WHOLE).step_by(length);
            for reading in [ReadMode::Ahead, ReadMode::Streamed] {
                let made = fetches(reading, offsets.clone(), length);
                assert!(
                    made.len() <= 9 + 16 + 8,
                    "{length} B, {reading:?}: {made:?}"
                );
            }
        }
    }

    #[test]
    fn random_reads_fetch_at_most_one_buffer() {
        let offsets = (0..1000).map(|turn: u64| turn.wrapping_mul(7_919_000_003) % (1 << 40));
        for length in [1 << 10, 256 << 10] {
            let made = fetches(ReadMode::Ahead, offsets.clone(), length);
            assert!(made.iter().all(|&fetched| fetched <= AHEAD.max(length)));
        }
    }
}

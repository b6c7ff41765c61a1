//! The client's bounds on all values received from a server. `docs/rfio-security.md` states them
//! for users.
//!
//! A number from a server never determines the size of an allocation or the length of a loop by
//! itself: memory, names, nesting and waiting are each checked against a bound of this file first.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use verbena_rfio_protocol::reply::Accepted;
use verbena_rfio_protocol::types::Entry;

use super::error::Error;

/// Maximum bytes of one request's data; a lower limit of the server takes precedence.
const PAYLOAD: u32 = 8 << 20;

/// Maximum number of requests in flight per session.
const REQUESTS: u32 = 256;

/// Maximum number of ranges of one vector.
const RANGES: u32 = 65_536;

/// Permitted sizes of a block covered by a checksum, in bytes.
const BLOCK: RangeInclusive<u32> = 512..=(16 << 20);

/// Maximum length of a directory entry's name in bytes (Linux's NAME_MAX).
pub const NAME: usize = 255;

/// Maximum depth of a directory that is entered, counted from the tree's root.
pub const DEPTH: usize = 256;

/// Maximum number of names in one directory.
pub const NAMES: usize = 4 << 20;

/// Maximum memory for a listing that is held as a whole, in bytes.
const LISTING: usize = 256 << 20;

/// Maximum memory for the names that a recursive copy has not processed yet, in bytes.
pub(crate) const HELD_NAMES: usize = 256 << 20;

/// Number of invalid names after which the rest of a directory is skipped.
pub(crate) const MOST_INVALID: usize = 20;

/// Extents of a sparse file that are held at a time.
pub(crate) const EXTENTS: usize = 65_536;

/// Bytes of a file that are planned at a time: which parts of it are copied and compared.
pub(crate) const SEGMENT: u64 = 64 << 30;

/// Blocks of a file whose checksums are held at a time.
pub(crate) const COMPARED_BLOCKS: u64 = 256 << 10;

/// Minimum rate of an answer once the time limit has passed, in bytes a second.
const MIN_RATE: u32 = 64 << 10;

/// Limits the terms of a session to the client's bounds.
///
/// # Errors
/// [`Error::Protocol`] if the block size is out of bounds.
pub(crate) fn cap_limits(mut accepted: Accepted) -> Result<Accepted, Error> {
    if !BLOCK.contains(&accepted.block) {
        return Err(Error::Protocol(format!(
            "its checksums cover {} bytes each; this client supports {} to {}",
            accepted.block,
            BLOCK.start(),
            BLOCK.end()
        )));
    }
    accepted.most_payload = accepted.most_payload.min(PAYLOAD);
    accepted.most_requests = accepted.most_requests.min(REQUESTS);
    accepted.most_ranges = accepted.most_ranges.min(RANGES);
    Ok(accepted)
}

/// Time limit of one whole answer: the configured limit, and a second more for each 64 KiB
/// received. Zero means no limit.
#[derive(Debug, Clone, Copy)]
pub struct ReplyDeadline {
    begun: Instant,
    timeout: Duration,
    bytes: u64,
}

impl ReplyDeadline {
    /// Begins to wait.
    pub fn new(timeout: Duration) -> Self {
        Self {
            begun: Instant::now(),
            timeout,
            bytes: 0,
        }
    }

    /// Restarts the clock: the answer has arrived.
    pub fn restart(&mut self) {
        *self = Self::new(self.timeout);
    }

    /// Counts bytes sent or received.
    pub fn count(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Returns the remaining time; `None` if there is no limit.
    pub fn left(&self) -> Option<Duration> {
        let extra = Duration::from_secs(self.bytes / u64::from(MIN_RATE));
        let limit = self.timeout.saturating_add(extra);
        (!self.timeout.is_zero()).then(|| limit.saturating_sub(self.begun.elapsed()))
    }

    /// Returns whether the limit has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// The memory of a listing collected page by page.
#[derive(Debug, Default)]
pub struct ListingBounds {
    bytes: usize,
}

impl ListingBounds {
    /// Returns the bounds of a listing whose earlier pages took `bytes` bytes.
    pub fn after(bytes: usize) -> Self {
        Self { bytes }
    }

    /// Returns the bytes that its pages took.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts a page that continues if `goes_on`.
    ///
    /// # Errors
    /// The listing is too long, or would not end.
    pub fn take(&mut self, entries: &[Entry], goes_on: bool) -> Result<(), Error> {
        page_ends(entries.len(), goes_on)?;
        let bytes = entries
            .iter()
            .map(|entry| size_of::<Entry>() + 32 + entry.name.as_bytes().len());
        self.bytes = self.bytes.saturating_add(bytes.sum());
        match self.bytes > LISTING {
            true => Err(Error::TooMuch(format!(
                "the names of the directory need more than {} MiB of memory",
                LISTING >> 20
            ))),
            false => Ok(()),
        }
    }
}

/// The memory of the names that a recursive tool has not processed yet.
#[derive(Debug, Default)]
pub struct HeldNames {
    bytes: usize,
}

impl HeldNames {
    /// Counts one more name.
    ///
    /// # Errors
    /// [`Error::TooMuch`] if there are too many.
    pub fn take(&mut self, name: &[u8]) -> Result<(), Error> {
        self.bytes = self.bytes.saturating_add(name.len() + 64);
        match self.bytes > HELD_NAMES {
            true => Err(Error::TooMuch(format!(
                "the names of its directories need more than {} MiB of memory; name its parts \
                 instead",
                HELD_NAMES >> 20
            ))),
            false => Ok(()),
        }
    }
}

/// Checks that an empty page of a listing is its last: otherwise the listing might go on forever.
///
/// # Errors
/// [`Error::Protocol`] if it is not.
pub(crate) fn page_ends(entries: usize, goes_on: bool) -> Result<(), Error> {
    match entries == 0 && goes_on {
        true => Err(Error::Protocol(
            "it continues a listing without a name".into(),
        )),
        false => Ok(()),
    }
}

/// Checks that a relative path is not nested too deeply to be entered.
///
/// # Errors
/// [`Error::TooMuch`] if it is.
pub fn depth(relative: &[u8]) -> Result<(), Error> {
    let depth = relative
        .split(|&byte| byte == b'/')
        .filter(|part| !part.is_empty())
        .count();
    match depth > DEPTH {
        true => Err(Error::TooMuch(format!(
            "more than {DEPTH} directories deep; not entered: name it to start there"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_rfio_protocol::types::{Attributes, Path, Text};

    fn accepted(block: u32) -> Accepted {
        Accepted {
            proof: [0; 32],
            user: Text::default(),
            most_payload: u32::MAX,
            most_ranges: u32::MAX,
            block,
            most_requests: u32::MAX,
            fabric: false,
            writable: true,
        }
    }

    #[test]
    fn server_limits_are_capped_by_the_client() {
        let limits = cap_limits(accepted(256 << 10)).unwrap();
        assert_eq!(
            (
                limits.most_payload,
                limits.most_requests,
                limits.most_ranges
            ),
            (PAYLOAD, REQUESTS, RANGES)
        );
        for block in [0, 511, (16 << 20) + 1, u32::MAX] {
            assert!(super::cap_limits(accepted(block)).is_err(), "{block}");
        }
    }

    #[test]
    fn a_trickle_of_bytes_does_not_extend_the_timeout() {
        let mut deadline = ReplyDeadline::new(Duration::from_millis(20));
        assert!(!deadline.is_over());
        deadline.count(10);
        std::thread::sleep(Duration::from_millis(25));
        assert!(deadline.is_over());
        deadline.count(64 << 10);
        assert!(!deadline.is_over());
        assert!(!ReplyDeadline::new(Duration::ZERO).is_over());
    }

    #[test]
    fn listings_and_depth_are_bounded() {
        let entry = Entry {
            name: Path::new(vec![b'x'; 255]).unwrap(),
            attributes: Attributes {
                device: 1,
                inode: 1,
                mode: 0o100_644,
                links: 1,
                owner: 0,
                group: 0,
                size: 0,
                blocks: 0,
                accessed: 0,
                modified: 0,
                changed: 0,
                version: 0,
                settled: true,
            },
        };
        let page = vec![entry; 4096];
        let mut bounds = ListingBounds::default();
        let pages = (0..10_000).find(|_| bounds.take(&page, true).is_err());
        assert!(pages.is_some_and(|pages| pages * 4096 * 255 < LISTING));
        assert!(ListingBounds::default().take(&[], true).is_err());
        assert!(ListingBounds::default().take(&[], false).is_ok());
        let path = |parts: usize| vec!["d"; parts].join("/").into_bytes();
        assert!(depth(&path(DEPTH)).is_ok() && depth(b"").is_ok());
        assert!(depth(&path(DEPTH + 1)).is_err());
    }
}

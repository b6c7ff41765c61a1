//! Which parts of a copy are still to be moved.

use std::sync::atomic::{AtomicUsize, Ordering};

use verbena_rfio_protocol::Reply;
use verbena_rfio_protocol::request::{Checksum, Request};
use verbena_rfio_protocol::types::Handle;

use super::{CHUNK, Manner};
use crate::checksum;
use crate::client::error::Error;
use crate::client::file::{RemoteFile, SharedSession};
use crate::client::session::{Session, unexpected};

/// Ranges to move, dealt out to whoever asks, in order.
#[derive(Debug)]
pub struct Work {
    ranges: Vec<(u64, u32)>,
    next: AtomicUsize,
}

impl Work {
    /// Everything up to `size`.
    pub fn whole(size: u64) -> Self {
        Self::missing(size, u64::from(CHUNK), |_| false)
    }

    /// The blocks of `block` bytes for which `is_right` says no, joined to ranges of at most a chunk.
    pub fn missing(size: u64, block: u64, is_right: impl Fn(u64) -> bool) -> Self {
        let mut ranges: Vec<(u64, u32)> = Vec::new();
        for number in 0..size.div_ceil(block) {
            if is_right(number) {
                continue;
            }
            let offset = number * block;
            let length = block.min(size - offset) as u32;
            match ranges.last_mut() {
                Some((start, so_far))
                    if *start + u64::from(*so_far) == offset
                        && *so_far + length <= CHUNK.max(length) =>
                {
                    *so_far += length;
                }
                _ => ranges.push((offset, length)),
            }
        }
        Self {
            ranges,
            next: AtomicUsize::new(0),
        }
    }

    /// The next range.
    pub fn take(&self) -> Option<(u64, u32)> {
        self.ranges
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .copied()
    }

    /// Sessions that are worth having for it: one for less than a few chunks costs more than it brings.
    pub fn sessions(&self, manner: &Manner) -> usize {
        let useful = (self.total() / u64::from(4 * CHUNK)) as usize;
        manner.parallel.min(useful.max(1))
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(_, length)| u64::from(length))
            .sum()
    }
}

/// Does the work with several sessions at once, each on a thread of its own; the first error, if any.
pub fn share<'a>(
    sessions: impl Iterator<Item = (&'a SharedSession, &'a RemoteFile)>,
    work: impl Fn(&SharedSession, &RemoteFile) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    let work = &work;
    std::thread::scope(|scope| {
        let threads: Vec<_> = sessions
            .map(|(session, file)| scope.spawn(move || work(session, file)))
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let panicked = |_| Err(Error::Setup("a copying thread panicked".into()));
            thread.join().unwrap_or_else(panicked)
        });
        // All are waited for, whatever one of them says.
        ended.fold(Ok(()), Result::and)
    })
}

/// Checksums of the blocks of a remote file, from the front to `size`.
pub fn remote_checksums(
    session: &mut Session,
    handle: Handle,
    size: u64,
) -> Result<Vec<u32>, Error> {
    const BATCH: u32 = 256;
    let block = session.terms().block;
    let count = size.div_ceil(u64::from(block)) as usize;
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let offset = all.len() as u64 * u64::from(block);
        let wanted = BATCH.min((count - all.len()) as u32);
        let request = Request::Checksum(Checksum {
            handle,
            offset,
            block,
            count: wanted,
        });
        match session.call(&request)? {
            Reply::Checksums(reply) if reply.checksums.len() > wanted as usize => {
                return Err(Error::Protocol("more checksums than were asked for".into()));
            }
            // The file is shorter than it was.
            Reply::Checksums(reply) if reply.checksums.is_empty() => break,
            Reply::Checksums(reply) => all.extend(reply.checksums),
            other => return Err(unexpected(&other)),
        }
    }
    Ok(all)
}

/// Which blocks of something readable have these checksums. `read` fills a buffer at an offset and says how much it got.
pub fn right_blocks(
    size: u64,
    block: u32,
    expected: &[u32],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Error>,
) -> Result<Vec<bool>, Error> {
    let mut buffer = vec![0; block as usize];
    let mut right = Vec::with_capacity(expected.len());
    for (number, &expected) in expected.iter().enumerate() {
        let offset = number as u64 * u64::from(block);
        let length = u64::from(block).min(size.saturating_sub(offset)) as usize;
        let got = read(offset, &mut buffer[..length])?;
        right.push(got == length && checksum::crc32c(&buffer[..length]) == expected);
    }
    Ok(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn work_is_exactly_the_missing_blocks(size in 0u64..40_000_000, right in proptest::collection::vec(any::<bool>(), 160)) {
            let block = 256 << 10;
            let work = Work::missing(size, block, |number| right.get(number as usize).copied().unwrap_or(false));
            let mut moved = vec![0u8; size.div_ceil(block) as usize];
            let mut total = 0;
            while let Some((offset, length)) = work.take() {
                prop_assert!(length <= CHUNK && length > 0 && offset % block == 0);
                total += u64::from(length);
                for number in offset / block..(offset + u64::from(length)).div_ceil(block) {
                    moved[number as usize] += 1;
                }
            }
            prop_assert_eq!(total, work.total());
            for (number, &times) in moved.iter().enumerate() {
                prop_assert_eq!(times, u8::from(!right.get(number).copied().unwrap_or(false)));
            }
        }
    }

    #[test]
    fn a_block_is_right_only_with_its_checksum_and_length() {
        let data = [7u8; 25];
        let expected: Vec<u32> = data.chunks(10).map(checksum::crc32c).collect();
        let read = |have: usize| {
            move |offset: u64, bytes: &mut [u8]| {
                let end = (offset as usize + bytes.len()).min(have);
                let got = end.saturating_sub(offset as usize);
                bytes[..got].fill(7);
                Ok(got)
            }
        };
        assert_eq!(
            right_blocks(25, 10, &expected, read(25)).unwrap(),
            [true, true, true]
        );
        assert_eq!(
            right_blocks(25, 10, &expected, read(24)).unwrap(),
            [true, true, false]
        );
        assert_eq!(
            right_blocks(25, 10, &[0, expected[1]], read(25)).unwrap(),
            [false, true]
        );
    }
}

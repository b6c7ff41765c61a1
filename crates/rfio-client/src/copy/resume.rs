//! Selects the parts of a copy that are still to be moved.

use std::sync::atomic::{AtomicUsize, Ordering};

use verbena_rfio_protocol::checksum;

use crate::bounds::{COMPARED_BLOCKS, SEGMENT};
use crate::error::Error;

/// Size in bytes of one request of a copy.
pub const CHUNK: u32 = 1 << 20;

/// Divides a file of `size` bytes into segments that are planned one after the other, so that a
/// plan takes bounded memory for any file size. All but the last consist of whole blocks.
pub fn segments(size: u64, block: u32) -> impl Iterator<Item = (u64, u64)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let from = at;
        at = segment_end(from, size, block);
        (from < size).then_some((from, at))
    })
}

/// Returns the latest end of the segment that begins at `from`, a multiple of `block`.
pub fn segment_end(from: u64, size: u64, block: u32) -> u64 {
    let block = u64::from(block.max(1));
    from.saturating_add((SEGMENT / block).clamp(1, COMPARED_BLOCKS) * block)
        .min(size)
}

/// Number of blocks that a connection moves one at a time or few at a time after a loss.
pub const SLOW_START_BLOCKS: usize = 15;

/// Ranges to move, handed out in order to parallel threads.
#[derive(Debug)]
pub struct WorkRanges {
    ranges: Vec<(u64, u32)>,
    next: AtomicUsize,
}

impl WorkRanges {
    /// Splits the first [`SLOW_START_BLOCKS`] blocks into ranges of their own.
    pub fn with_slow_start(mut self, block: u32) -> Self {
        let mut left = SLOW_START_BLOCKS;
        let split = |&(offset, length): &(u64, u32)| {
            let step = match left {
                0 => length,
                _ => block.min(length).max(1),
            };
            left = left.saturating_sub(length.div_ceil(step) as usize);
            let starts = (0..length).step_by(step as usize);
            starts.map(move |at| (offset + u64::from(at), step.min(length - at)))
        };
        self.ranges = self.ranges.iter().flat_map(split).collect();
        self
    }

    /// Returns the work of moving a whole segment.
    pub fn whole((from, to): (u64, u64)) -> Self {
        Self::of((from, to), CHUNK.into(), &[(from, to - from)], 0, |_| false)
    }

    /// Returns the work that a segment needs: the blocks of `block` bytes for which `is_right`
    /// returns false, joined to ranges of at most [`CHUNK`] bytes. `data` lists the file's data
    /// extents in order. Holes are omitted, except below `earlier`, where the partial file may have
    /// other data. The segment begins at a block boundary.
    pub fn of(
        (from, to): (u64, u64),
        block: u64,
        data: &[(u64, u64)],
        earlier: u64,
        is_right: impl Fn(u64) -> bool,
    ) -> Self {
        let mut work = Self {
            ranges: Vec::new(),
            next: AtomicUsize::new(0),
        };
        let covered = earlier.div_ceil(block) * block;
        let below = std::iter::once((from, covered.min(to)));
        let behind = data.iter().map(|&(start, length)| {
            let end = start.saturating_add(length).min(to);
            (start.max(covered).max(from), end)
        });
        for (start, end) in below.chain(behind) {
            let mut at = start;
            while at < end {
                let number = at / block;
                let until = (number + 1).saturating_mul(block).min(end);
                if !is_right(number) {
                    work.add(at, (until - at) as u32);
                }
                at = until;
            }
        }
        work
    }

    fn add(&mut self, offset: u64, length: u32) {
        match self.ranges.last_mut() {
            Some((start, so_far))
                if *start + u64::from(*so_far) == offset
                    && *so_far + length <= CHUNK.max(length) =>
            {
                *so_far += length;
            }
            _ => self.ranges.push((offset, length)),
        }
    }

    /// Takes the next range: its offset and length in bytes.
    pub fn take(&self) -> Option<(u64, u32)> {
        self.ranges
            .get(self.next.fetch_add(1, Ordering::Relaxed))
            .copied()
    }

    /// Returns the number of bytes to move.
    pub fn total(&self) -> u64 {
        self.ranges
            .iter()
            .map(|&(_, length)| u64::from(length))
            .sum()
    }
}

/// Returns the checksums of the blocks of a segment, up to the end of the segment or of the data.
/// `read` fills a buffer at an offset and returns the number of bytes read.
///
/// # Errors
/// Returns the errors of `read`.
pub fn block_checksums(
    block: u32,
    (from, to): (u64, u64),
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Error>,
) -> Result<Vec<u32>, Error> {
    let mut buffer = vec![0; block as usize];
    let mut checksums = Vec::new();
    let mut offset = from;
    while offset < to {
        let length = u64::from(block).min(to - offset) as usize;
        let got = read(offset, &mut buffer[..length])?;
        if got == 0 {
            break;
        }
        checksums.push(checksum::crc32c(&buffer[..got]));
        if got < length {
            break;
        }
        offset += length as u64;
    }
    Ok(checksums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn work_is_exactly_the_missing_blocks(
            size in 0u64..40_000_000, right in proptest::collection::vec(any::<bool>(), 160)) {
            let block = 256 << 10;
            let is_right = |number| right.get(number as usize).copied().unwrap_or(false);
            let work = WorkRanges::of((0, size), block, &[(0, size)], 0, is_right);
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
                prop_assert_eq!(times, u8::from(!is_right(number as u64)));
            }
        }

        /// Checks byte by byte that exactly the wrong blocks are moved, less holes where there was
        /// no earlier data.
        #[test]
        fn holes_are_left_out_where_nothing_was(
            size in 0u64..400,
            earlier in 0u64..400,
            gaps in proptest::collection::vec((1u64..60, 1u64..60), 0..8),
            right in proptest::collection::vec(any::<bool>(), 60),
        ) {
            let block = 7;
            let earlier = earlier.min(size);
            let (mut data, mut at) = (Vec::new(), 0);
            for (hole, length) in gaps {
                data.push((at + hole, length));
                at += hole + length;
            }
            let is_right = |number| right.get(number as usize).copied().unwrap_or(false);
            let work = WorkRanges::of((0, size), block, &data, earlier, is_right);
            let mut moved = vec![0u8; size as usize];
            while let Some((offset, length)) = work.take() {
                for byte in offset..offset + u64::from(length) {
                    moved[byte as usize] += 1;
                }
            }
            for byte in 0..size {
                let is_data = data.iter()
                    .any(|&(start, length)| (start..start + length).contains(&byte));
                let was_there = byte < earlier.div_ceil(block) * block;
                let wanted = !is_right(byte / block) && (is_data || was_there);
                prop_assert_eq!(moved[byte as usize], u8::from(wanted), "byte {}", byte);
            }
        }
    }

    #[test]
    fn work_after_a_loss_begins_with_single_blocks() {
        let block = 256 << 10;
        let size = 40 * u64::from(block) + 5;
        let work = WorkRanges::whole((0, size)).with_slow_start(block);
        let (mut at, mut lengths) = (0, Vec::new());
        while let Some((offset, length)) = work.take() {
            assert_eq!(offset, at);
            at += u64::from(length);
            lengths.push(length);
        }
        assert_eq!(at, size);
        assert!(
            lengths[..SLOW_START_BLOCKS]
                .iter()
                .all(|&length| length == block)
        );
        assert!(lengths[SLOW_START_BLOCKS + 1..].contains(&CHUNK));
        assert_eq!(WorkRanges::whole((0, 0)).with_slow_start(block).total(), 0);
    }

    #[test]
    fn checksums_end_where_the_data_do() {
        let data = [7u8; 25];
        let read = |offset: u64, bytes: &mut [u8]| {
            let rest = &data[(offset as usize).min(25)..];
            let got = rest.len().min(bytes.len());
            bytes[..got].copy_from_slice(&rest[..got]);
            Ok(got)
        };
        let of = |pieces: &[usize]| -> Vec<u32> {
            pieces
                .iter()
                .map(|&n| checksum::crc32c(&data[..n]))
                .collect()
        };
        for (segment, sums) in [
            ((0, 25), &[10, 10, 5][..]),
            ((0, 24), &[10, 10, 4]),
            ((0, 100), &[10, 10, 5]),
            ((0, 0), &[]),
        ] {
            let found = block_checksums(10, segment, read).unwrap();
            assert_eq!(found, of(sums), "{segment:?}");
        }
        let last = [checksum::crc32c(&data[20..25])];
        assert_eq!(block_checksums(10, (20, 100), read).unwrap(), last);
    }

    #[test]
    fn segments_cover_a_file_and_end_with_blocks() {
        for (size, block) in [(0, 4096), (1, 512), (SEGMENT, 1 << 18), (1 << 38, 1000)] {
            let (mut at, all) = (0, segments(size, block).collect::<Vec<_>>());
            for &(from, to) in &all {
                assert!(from == at && to > from && to - from <= SEGMENT);
                assert!(to == size || to % u64::from(block) == 0);
                at = to;
            }
            assert_eq!(at, size);
        }
        // The first plan is small for any file size that a server claims.
        assert_eq!(segments(u64::MAX, 1 << 18).next(), Some((0, SEGMENT)));
    }
}

//! CRC32C (RFC 3720, section 12.1): one checksum for each block of a range, and the checksum of a
//! whole from those of its parts.
//!
//! It uses the processor's instructions: on x86-64 carry-less multiplication, 512 bits wide if
//! available. Verifying received data must cost less than transferring them.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Returns the checksum of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Returns the checksum of data with the checksum `so_far` followed by `bytes`; the checksum of
/// nothing is 0.
#[inline]
pub fn append(so_far: u32, bytes: &[u8]) -> u32 {
    // The state after data with the checksum 0 equals the initial state, which is quicker to set
    // up.
    if so_far == 0 {
        return crc32c(bytes);
    }
    let state = u64::from(!so_far);
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, state);
    digest.update(bytes);
    digest.finalize() as u32
}

/// Returns the checksum of data with the checksum `front` followed by `length` bytes with the
/// checksum `back`.
pub fn combine(front: u32, back: u32, length: u64) -> u32 {
    checksum_combine(CrcAlgorithm::Crc32Iscsi, front.into(), back.into(), length) as u32
}

/// Divides `length` bytes from `offset` on at the file's block boundaries. Returns offset and
/// length of each piece, which has one checksum.
pub fn pieces(offset: u64, length: u64, block: u32) -> impl Iterator<Item = (u64, u32)> {
    let block = u64::from(block.max(1));
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= length {
            return None;
        }
        let piece = (block - (offset + at) % block).min(length - at);
        let start = at;
        at += piece;
        Some((start, piece as u32))
    })
}

/// Returns the number of pieces.
pub fn piece_count(offset: u64, length: u64, block: u32) -> usize {
    let block = u64::from(block.max(1));
    match length {
        0 => 0,
        _ => ((offset + length - 1) / block - offset / block + 1) as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_specification_is_computed() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    #[test]
    fn a_range_across_blocks_has_a_checksum_per_block() {
        assert_eq!(
            pieces(6, 13, 8).collect::<Vec<_>>(),
            [(0, 2), (2, 8), (10, 3)]
        );
        assert_eq!(pieces(6, 0, 8).count(), 0);
    }

    proptest! {
        /// Agrees with another implementation, and parts combine to the whole.
        #[test]
        fn checksums_of_parts_combine(
            bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            cut in any::<prop::sample::Index>()) {
            let whole = ::crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(&bytes), whole);
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(append(append(0, front), back), whole);
            prop_assert_eq!(combine(crc32c(front), crc32c(back), back.len() as u64), whole);
        }

        #[test]
        fn block_parts_cover_the_range(
            offset in 0u64..10_000, length in 0u64..10_000, block in 1u32..5_000) {
            let mut next = 0;
            for (start, piece) in pieces(offset, length, block) {
                prop_assert_eq!(start, next);
                prop_assert!(piece > 0);
                let first = (offset + start) / u64::from(block);
                let last = (offset + start + u64::from(piece) - 1) / u64::from(block);
                prop_assert_eq!(first, last);
                next = start + u64::from(piece);
            }
            prop_assert_eq!(next, length);
            prop_assert_eq!(piece_count(offset, length, block),
                pieces(offset, length, block).count());
        }
    }
}

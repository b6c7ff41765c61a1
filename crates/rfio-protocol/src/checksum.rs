//! Divides ranges into blocks with one checksum each, and combines the checksums of parts. CRC32C
//! (RFC 3720, section 12.1).

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
    fn a_range_across_blocks_has_a_checksum_per_block() {
        assert_eq!(
            pieces(6, 13, 8).collect::<Vec<_>>(),
            [(0, 2), (2, 8), (10, 3)]
        );
        assert_eq!(pieces(6, 0, 8).count(), 0);
    }

    proptest! {
        #[test]
        fn block_parts_cover_the_range(offset in 0u64..10_000, length in 0u64..10_000, block in 1u32..5_000) {
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
            prop_assert_eq!(piece_count(offset, length, block), pieces(offset, length, block).count());
        }
    }
}

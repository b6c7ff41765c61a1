//! Checksums of data: one for each piece when the data are split at the file's block boundaries, or
//! for each range of a vector.

use verbena_rfio_protocol::checksum::{self, pieces};
use verbena_rfio_protocol::types::Range;

use super::error::Error;

/// Returns the checksums of data at an offset, one per block.
pub fn checksums_of(offset: u64, data: &[u8], block: u32) -> Vec<u32> {
    pieces(offset, data.len() as u64, block)
        .map(|(start, piece)| {
            checksum::crc32c(&data[start as usize..start as usize + piece as usize])
        })
        .collect()
}

/// Compares data with the checksums received with them.
///
/// # Errors
/// [`Error::Damaged`] for the first block that differs, [`Error::Protocol`] for a wrong number of
/// checksums.
pub fn check(offset: u64, data: &[u8], expected: &[u32], block: u32) -> Result<(), Error> {
    let found = checksums_of(offset, data, block);
    if found.len() != expected.len() {
        return Err(Error::Protocol(format!(
            "{} checksums for {} blocks",
            expected.len(),
            found.len()
        )));
    }
    for ((start, _), (&expected, &found)) in
        pieces(offset, data.len() as u64, block).zip(expected.iter().zip(&found))
    {
        if expected != found {
            return Err(Error::Damaged {
                offset: offset + start,
                expected,
                found,
            });
        }
    }
    Ok(())
}

/// Compares the data of ranges, packed in order, with their checksums.
///
/// # Errors
/// [`Error::Damaged`] for the first range that differs.
pub fn check_ranges(
    ranges: &[Range],
    lengths: &[u32],
    checksums: &[u32],
    packed: &[u8],
) -> Result<(), Error> {
    let mut rest = packed;
    for ((range, &length), &expected) in ranges.iter().zip(lengths).zip(checksums) {
        let (now, later) = rest.split_at(length as usize);
        let found = checksum::crc32c(now);
        if expected != found {
            return Err(Error::Damaged {
                offset: range.offset,
                expected,
                found,
            });
        }
        rest = later;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_block_is_named_by_its_file_offset() {
        let mut data = vec![5u8; 40];
        let checksums = checksums_of(100, &data, 16);
        assert!(check(100, &data, &checksums, 16).is_ok());
        data[20] ^= 1;
        let error = check(100, &data, &checksums, 16).unwrap_err();
        assert!(
            matches!(error, Error::Damaged { offset: 112, .. }),
            "{error}"
        );
        assert!(matches!(
            check(100, &data, &checksums[1..], 16),
            Err(Error::Protocol(_))
        ));
    }
}

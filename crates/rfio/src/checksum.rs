//! CRC32C (RFC 3720, section 12.1) with the processor's instructions: on x86-64 carry-less
//! multiplication, 512 bits wide if available. Verifying received data must cost less than
//! transferring them.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

/// Returns the checksum of `bytes`.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Returns the checksum of data with the checksum `so_far` followed by `bytes`; the checksum of
/// nothing is 0.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_check_value_of_the_specification_is_computed() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    proptest! {
        /// Agrees with another implementation, and parts combine to the whole.
        #[test]
        fn checksums_of_parts_combine(bytes in proptest::collection::vec(any::<u8>(), 0..3000), cut in any::<prop::sample::Index>()) {
            let whole = ::crc32c::crc32c(&bytes);
            prop_assert_eq!(crc32c(&bytes), whole);
            let (front, back) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(append(append(0, front), back), whole);
            prop_assert_eq!(combine(crc32c(front), crc32c(back), back.len() as u64), whole);
        }
    }
}

//! The Internet checksum (RFC 1071), and that of a protocol above IPv6 (RFC 8200 section 8.1).

use std::net::Ipv6Addr;

/// Adds the 16-bit words of some bytes, with an odd last byte padded, to a sum.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    // The sum of words in the processor's byte order is the same with its two bytes swapped (RFC
    // 1071 section 2), and the compiler adds many of them at a time.
    let (words, rest) = bytes.as_chunks::<4>();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let first = u64::from(u32::from_ne_bytes(last));
    let native = words.iter().fold(first, |sum, word| {
        sum + u64::from(u32::from_ne_bytes(*word))
    });
    sum + u64::from((!fold(native)).to_be())
}

/// Returns the checksum of a sum.
pub fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum >> 16 != 0 {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

/// Returns the checksum of a message above IPv6. With the message's own checksum in place it is
/// zero if that is right.
pub fn of_ipv6(source: Ipv6Addr, destination: Ipv6Addr, next_header: u8, message: &[u8]) -> u16 {
    let sum = add(add(0, &source.octets()), &destination.octets());
    let sum = sum + message.len() as u64 + u64::from(next_header);
    fold(add(sum, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition: a sum of 16-bit words with end-around carry.
    fn plain(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(add(0, &bytes)), !0xddf2);
    }

    proptest! {
        #[test]
        fn wide_sums_equal_the_definition(bytes: Vec<u8>) {
            prop_assert_eq!(fold(add(0, &bytes)), plain(&bytes));
        }
    }
}

//! The hardware address of an interface on InfiniBand: 20 bytes (RFC 4391 section 9.1.1; flags of
//! RFC 4755 section 3).

use std::fmt;
use std::str::FromStr;

use verbena_verbs::Gid;

/// Length in bytes.
pub const LENGTH: usize = 20;

/// The flag of an interface that accepts reliable connections.
pub const RC: u8 = 0x80;

/// The hardware address of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HardwareAddress {
    /// Capabilities for connected mode; zero for datagram mode alone.
    pub flags: u8,
    /// Number of the datagram queue pair, 24 bits.
    pub queue_pair: u32,
    /// GID of the port.
    pub gid: Gid,
}

/// A text that is no hardware address.
#[derive(Debug, thiserror::Error)]
#[error("a hardware address has {LENGTH} bytes of two hexadecimal digits, separated by colons")]
pub struct NotAnAddress;

impl fmt::Display for HardwareAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.bytes().iter().enumerate() {
            write!(f, "{}{byte:02x}", if at == 0 { "" } else { ":" })?;
        }
        Ok(())
    }
}

impl FromStr for HardwareAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<HardwareAddress, NotAnAddress> {
        let byte = |word: &str| {
            u8::from_str_radix(word, 16)
                .ok()
                .filter(|_| word.len() == 2)
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        bytes
            .map(|bytes| HardwareAddress::parse(&bytes))
            .ok_or(NotAnAddress)
    }
}

impl HardwareAddress {
    /// Reads an address.
    pub fn parse(bytes: &[u8; LENGTH]) -> HardwareAddress {
        let [flags, high, middle, low, gid @ ..] = *bytes;
        HardwareAddress {
            flags,
            queue_pair: u32::from_be_bytes([0, high, middle, low]),
            gid: Gid(gid),
        }
    }

    /// Returns the 20 bytes.
    pub fn bytes(&self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..4].copy_from_slice(&self.queue_pair.to_be_bytes());
        bytes[0] = self.flags;
        bytes[4..].copy_from_slice(&self.gid.0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_address_survives_its_bytes(bytes: [u8; LENGTH]) {
            prop_assert_eq!(HardwareAddress::parse(&bytes).bytes(), bytes);
        }
    }

    #[test]
    fn the_queue_pair_follows_the_flags() {
        let mut bytes = [0; LENGTH];
        bytes[..5].copy_from_slice(&[0x80, 0x12, 0x34, 0x56, 0xfe]);
        let address = HardwareAddress::parse(&bytes);
        assert_eq!((address.flags, address.queue_pair), (0x80, 0x12_3456));
        assert_eq!(address.gid.0[0], 0xfe);
    }
}

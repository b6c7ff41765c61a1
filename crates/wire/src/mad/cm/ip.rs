//! IP addressing of connection requests (annex A11): the service ID of an IP port, and the
//! addresses that precede the consumer's private data in REQ and SIDR_REQ.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::cursor::Reader;
use crate::error::Error;

/// Length of the address block in bytes.
pub const LENGTH: usize = 36;
/// The layout's version, in the first byte.
const VERSION: u8 = 0;

/// Returns the service ID of a port in a port space: RDMA_PS_TCP 0x0106, RDMA_PS_UDP 0x0111.
pub const fn service_id(space: u16, port: u16) -> u64 {
    (space as u64) << 16 | port as u64
}

/// Returns port space and port of a service ID, if it is one of an IP port.
pub const fn space_and_port(service_id: u64) -> Option<(u16, u16)> {
    if service_id >> 32 == 0 {
        Some(((service_id >> 16) as u16, service_id as u16))
    } else {
        None
    }
}

/// Addresses of a connection request. The service ID contains the destination port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Addresses {
    /// The active side's port.
    pub source_port: u16,
    /// The active side's address.
    pub source: IpAddr,
    /// The destination address, of the same family.
    pub destination: IpAddr,
}

impl Addresses {
    /// Reads the addresses and returns them with the remaining bytes, the consumer's.
    ///
    /// # Errors
    ///
    /// Too few bytes, wrong layout version, or unknown IP version.
    pub fn parse(private_data: &[u8]) -> Result<(Self, &[u8]), Error> {
        const WHAT: &str = "IP addresses of a CM request";
        let mut reader = Reader::new(private_data);
        let version = reader.u8(WHAT)?;
        let family = reader.u8(WHAT)? >> 4;
        let source_port = reader.u16(WHAT)?;
        let source: [u8; 16] = reader.array(WHAT)?;
        let destination: [u8; 16] = reader.array(WHAT)?;
        if version != VERSION {
            return Err(Error::Value {
                field: "version of the IP addresses",
                at: 0,
                found: version.into(),
                expected: "0",
            });
        }
        let address: fn([u8; 16]) -> IpAddr = match family {
            4 => |[.., a, b, c, d]| Ipv4Addr::new(a, b, c, d).into(),
            6 => |octets| Ipv6Addr::from(octets).into(),
            _ => {
                return Err(Error::Value {
                    field: "IP version",
                    at: 1,
                    found: family.into(),
                    expected: "4 or 6",
                });
            }
        };
        let addresses = Self {
            source_port,
            source: address(source),
            destination: address(destination),
        };
        Ok((addresses, reader.rest()))
    }

    /// Writes the addresses to the front of a request's private data.
    pub fn emit(&self, private_data: &mut [u8; LENGTH]) {
        let octets = |address: IpAddr| match address {
            IpAddr::V4(address) => {
                let mut octets = [0; 16];
                octets[12..].copy_from_slice(&address.octets());
                octets
            }
            IpAddr::V6(address) => address.octets(),
        };
        let family = match self.source {
            IpAddr::V4(_) => 4,
            IpAddr::V6(_) => 6,
        };
        private_data[0] = VERSION;
        private_data[1] = family << 4;
        private_data[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        private_data[4..20].copy_from_slice(&octets(self.source));
        private_data[20..].copy_from_slice(&octets(self.destination));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As written by Linux' `cma_format_hdr`.
    #[test]
    fn ipv4_addresses_occupy_the_last_four_of_sixteen_bytes() {
        let mut bytes = [0xee; LENGTH];
        Addresses {
            source_port: 0x9abc,
            source: Ipv4Addr::new(10, 9, 0, 2).into(),
            destination: Ipv4Addr::new(10, 9, 0, 3).into(),
        }
        .emit(&mut bytes);
        assert_eq!(bytes[..4], [0, 0x40, 0x9a, 0xbc]);
        assert_eq!(bytes[4..16], [0; 12]);
        assert_eq!(bytes[16..20], [10, 9, 0, 2]);
        assert_eq!(bytes[20..32], [0; 12]);
        assert_eq!(bytes[32..], [10, 9, 0, 3]);
    }

    #[test]
    fn ports_and_service_ids_round_trip() {
        assert_eq!(service_id(0x0106, 7174), 0x0000_0000_0106_1c06);
        assert_eq!(space_and_port(0x0106_1c06), Some((0x0106, 7174)));
        assert_eq!(space_and_port(0x0001_0106_1c06), None);
    }

    proptest! {
        #[test]
        fn address_encoding_round_trips(v6: bool, ends: (u128, u128), source_port: u16) {
            let address = |number: u128| match v6 {
                true => IpAddr::V6(Ipv6Addr::from(number)),
                false => IpAddr::V4(Ipv4Addr::from(number as u32)),
            };
            let addresses = Addresses { source_port, source: address(ends.0),
                destination: address(ends.1) };
            let mut bytes = [0; LENGTH + 1];
            bytes[LENGTH] = 7;
            addresses.emit(bytes.first_chunk_mut().unwrap());
            prop_assert_eq!(Addresses::parse(&bytes), Ok((addresses, &[7][..])));
        }

        #[test]
        fn arbitrary_bytes_parse_or_are_refused(
            bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok((addresses, rest)) = Addresses::parse(&bytes) {
                let mut again = [0; LENGTH];
                addresses.emit(&mut again);
                prop_assert_eq!(Addresses::parse(&again).map(|(addresses, _)| addresses),
                    Ok(addresses));
                prop_assert_eq!(rest, &bytes[LENGTH..]);
            }
        }
    }
}

//! Addresses of an interface with their prefixes, as `10.0.0.1/24`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use verbena_verbs::Gid;

/// An address and the length of its prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefixed {
    /// The address.
    pub address: IpAddr,
    /// Length of the prefix in bits.
    pub length: u8,
}

/// The reason why a text is no address of an interface.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnAddress {
    /// It has another form.
    #[error("it is not of the form 10.0.0.1/24 or fd00::1/64")]
    Form,
    /// The prefix is longer than the address.
    #[error("its prefix is longer than {0} bits")]
    Prefix(u8),
    /// It is the address of no single interface.
    #[error("an interface cannot have a multicast, broadcast, loopback or unspecified address")]
    Kind,
    /// It is the last one of its prefix.
    #[error("it is the broadcast address of its prefix of {0} bits")]
    Broadcast(u8),
}

impl FromStr for Prefixed {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Prefixed, NotAnAddress> {
        let (address, length) = text.split_once('/').ok_or(NotAnAddress::Form)?;
        let address: IpAddr = address.parse().map_err(|_| NotAnAddress::Form)?;
        let length: u8 = length.parse().map_err(|_| NotAnAddress::Form)?;
        let longest = if address.is_ipv4() { 32 } else { 128 };
        if length > longest {
            return Err(NotAnAddress::Prefix(longest));
        }
        let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
        let is_of_none = address.is_multicast() || address.is_loopback();
        if is_of_none || address.is_unspecified() || is_broadcast {
            return Err(NotAnAddress::Kind);
        }
        let prefixed = Prefixed { address, length };
        match prefixed.broadcast().map(IpAddr::V4) == Some(address) {
            true => Err(NotAnAddress::Broadcast(length)),
            false => Ok(prefixed),
        }
    }
}

impl fmt::Display for Prefixed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Prefixed {
    /// Returns whether an address has the same prefix.
    pub fn contains(&self, other: IpAddr) -> bool {
        match (self.address, other) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= u32::from(self.length)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= u32::from(self.length)
            }
            _ => false,
        }
    }

    /// Returns the broadcast address of an IPv4 prefix that has one.
    pub fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.address {
            IpAddr::V4(own) if self.length < 31 => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(own.to_bits() | host))
            }
            _ => None,
        }
    }
}

/// Returns the link-local address of an interface. The identifier is that of the port's GUID
/// (RFC 4391 section 8) marked as local, with the queue pair's number in the bytes of the
/// manufacturer, because several interfaces can use one port. Ports of one manufacturer differ in
/// the other bytes, often by as little as queue pairs do.
pub fn link_local(port: Gid, queue_pair: u32) -> Ipv6Addr {
    let [.., a, b, c, d, e, f, g, h] = port.0;
    let [_, high, middle, low] = queue_pair.to_be_bytes();
    // RFC 4291 appendix A: bit 0x02 is set in a universal identifier.
    let identifier = [a & !2, b ^ high, c ^ middle, d ^ low, e, f, g, h];
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&[0xfe, 0x80]);
    bytes[8..].copy_from_slice(&identifier);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefixed(text: &str) -> Prefixed {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_have_prefixes() {
        for text in ["10.0.0.1/24", "10.0.0.1/32", "fd00::1/64", "0.0.0.1/0"] {
            assert_eq!(prefixed(text).to_string(), text);
        }
        assert!(prefixed("10.0.0.1/24").contains("10.0.0.200".parse().unwrap()));
        assert!(!prefixed("10.0.0.1/24").contains("10.0.1.1".parse().unwrap()));
        assert!(!prefixed("10.0.0.1/24").contains("fd00::1".parse().unwrap()));
        assert!(prefixed("fd00::1/64").contains("fd00::ffff".parse().unwrap()));
        assert!(prefixed("10.0.0.1/0").contains("9.9.9.9".parse().unwrap()));
    }

    #[test]
    fn wrong_addresses_are_refused() {
        let error = |text: &str| text.parse::<Prefixed>().unwrap_err();
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1/",
            "10.0.0/24",
            "10.0.0.1/24/1",
            "a/24",
        ] {
            assert_eq!(error(text), NotAnAddress::Form, "{text}");
        }
        assert_eq!(error("10.0.0.1/33"), NotAnAddress::Prefix(32));
        assert_eq!(error("fd00::1/129"), NotAnAddress::Prefix(128));
        assert_eq!(error("10.0.0.255/24"), NotAnAddress::Broadcast(24));
        assert_eq!(error("10.0.0.3/30"), NotAnAddress::Broadcast(30));
        for text in [
            "10.0.0.255/31",
            "10.0.0.255/32",
            "10.0.0.255/16",
            "fd00::ffff/112",
        ] {
            assert_eq!(prefixed(text).to_string(), text);
        }
        for text in [
            "224.0.0.1/4",
            "0.0.0.0/8",
            "::1/128",
            "ff02::1/64",
            "255.255.255.255/32",
        ] {
            assert_eq!(error(text), NotAnAddress::Kind, "{text}");
        }
    }

    #[test]
    fn broadcast_addresses_end_in_ones() {
        let broadcast = |text| prefixed(text).broadcast().map(|it| it.to_string());
        assert_eq!(broadcast("10.0.0.1/24").as_deref(), Some("10.0.0.255"));
        assert_eq!(broadcast("10.0.0.1/0").as_deref(), Some("255.255.255.255"));
        assert_eq!(broadcast("10.0.0.1/31"), None);
        assert_eq!(broadcast("fd00::1/64"), None);
    }

    proptest! {
        #[test]
        fn interfaces_of_one_port_have_different_link_local_addresses(
            port: [u8; 16], a in 0u32..1 << 24, b in 0u32..1 << 24,
        ) {
            let (one, other) = (link_local(Gid(port), a), link_local(Gid(port), b));
            prop_assert_eq!(one == other, a == b);
            prop_assert!(one.is_unicast_link_local());
        }

        #[test]
        fn ports_of_one_manufacturer_have_different_link_local_addresses(
            one: [u8; 5], other: [u8; 5], a in 0u32..1 << 24, b in 0u32..1 << 24,
        ) {
            let port = |own: [u8; 5]| {
                let [e, f, g, h, i] = own;
                Gid([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, e, f, g, h, i])
            };
            // The fourth byte has a part of the queue pair's number.
            let are_equal = one[1..] == other[1..];
            let addresses = [link_local(port(one), a), link_local(port(other), b)];
            prop_assert!(are_equal || addresses[0] != addresses[1]);
        }
    }
}

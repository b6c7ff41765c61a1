//! Multicast GIDs of IP groups (RFC 4391 section 4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use verbena_verbs::Gid;

/// Signatures of the two IP versions in a multicast GID.
const IPV4: u16 = 0x401b;
const IPV6: u16 = 0x601b;
/// First byte of a multicast GID, and the second of a transient group with link-local scope.
const PREFIX: [u8; 2] = [0xff, 0x12];

/// LID for datagrams to a group where no subnet administration states one: the first of the range
/// of multicast LIDs.
pub const LID: u16 = 0xc000;
/// Destination queue pair of multicast datagrams.
pub const QUEUE_PAIR: u32 = 0xff_ffff;

fn gid(signature: u16, partition: u16, rest: [u8; 10]) -> Gid {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&PREFIX);
    bytes[2..4].copy_from_slice(&signature.to_be_bytes());
    // The full member's key names the partition.
    bytes[4..6].copy_from_slice(&(partition | 0x8000).to_be_bytes());
    bytes[6..].copy_from_slice(&rest);
    Gid(bytes)
}

/// Returns the broadcast group of a partition.
pub fn broadcast(partition: u16) -> Gid {
    gid(IPV4, partition, [0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])
}

/// Returns the group of an IP multicast address.
pub fn of(address: IpAddr, partition: u16) -> Gid {
    let mut rest = [0; 10];
    match address {
        IpAddr::V4(address) => {
            rest[6..].copy_from_slice(&(address.to_bits() & 0x0fff_ffff).to_be_bytes());
            gid(IPV4, partition, rest)
        }
        IpAddr::V6(address) => {
            rest.copy_from_slice(&address.octets()[6..]);
            gid(IPV6, partition, rest)
        }
    }
}

/// The group of all IPv4 hosts on a link.
pub const ALL_IPV4: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
/// The group of all IPv6 nodes on a link.
pub const ALL_IPV6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Returns the group that is asked for an IPv6 address (RFC 4291 section 2.7.1).
pub fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let [high, low] = [u16::from_be_bytes([0xff, a]), u16::from_be_bytes([b, c])];
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(gid: Gid) -> String {
        gid.to_string()
    }

    #[test]
    fn groups_have_the_gids_of_the_rfc() {
        assert_eq!(text(broadcast(0xffff)), "ff12:401b:ffff::ffff:ffff");
        // A limited member's key names the same partition.
        assert_eq!(broadcast(0x7fff), broadcast(0xffff));
        let of = |address: &str| text(super::of(address.parse().unwrap(), 0x8001));
        assert_eq!(of("224.0.0.1"), "ff12:401b:8001::1");
        assert_eq!(of("239.255.1.2"), "ff12:401b:8001::fff:102");
        assert_eq!(of("ff02::1"), "ff12:601b:8001::1");
        assert_eq!(of("ff02::1:ff12:3456"), "ff12:601b:8001::1:ff12:3456");
    }

    #[test]
    fn the_solicited_node_group_has_the_last_three_bytes() {
        let address = "fd00::1:2:3456:789a".parse().unwrap();
        assert_eq!(solicited_node(address).to_string(), "ff02::1:ff56:789a");
    }
}

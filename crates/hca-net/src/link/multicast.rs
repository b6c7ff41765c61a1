//! Multicast groups that GIDs name.

use super::{Link, current};
use std::net::{Ipv4Addr, Ipv6Addr};
use verbena_abi::ibv_gid;

/// Returns the IP group of a GID: an IPv6 group itself, or an IPv4 group mapped as in RoCEv2
/// (`::ffff:239.1.2.3`) or as in its predecessor (`ff0e::ffff:239.1.2.3`).
#[inline]
pub fn ip_group(gid: ibv_gid) -> Option<Ipv6Addr> {
    let ip = Ipv6Addr::from(gid.bytes());
    if let Some(v4) = ip.to_ipv4_mapped() {
        return v4.is_multicast().then_some(ip);
    }
    if !ip.is_multicast() {
        return None;
    }
    let [0xff0e, 0, 0, 0, 0, 0xffff, high, low] = ip.segments() else {
        return Some(ip);
    };
    let v4 = Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    Some(if v4.is_multicast() {
        v4.to_ipv6_mapped()
    } else {
        ip
    })
}

/// Returns the multicast group that a GID names, in this link's canonical form.
#[inline]
pub fn group(gid: ibv_gid) -> Option<[u8; 16]> {
    match current() {
        Link::InfiniBand => Some(gid.bytes()).filter(|bytes| bytes[0] == 0xff),
        Link::Roce(_) => ip_group(gid).map(|ip| ip.octets()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multicast_gid_maps_to_ipv4_or_ipv6_group() {
        let of = |text: &str| {
            let ip: Ipv6Addr = text.parse().unwrap();
            ip_group(ibv_gid::from_bytes(ip.octets())).map(|ip| ip.to_string())
        };
        let v4 = Some("::ffff:239.1.2.3".to_owned());
        assert_eq!(of("::ffff:239.1.2.3"), v4);
        assert_eq!(of("ff0e::ffff:239.1.2.3"), v4);
        for v6 in [
            "ff15::7",
            "ff0e::ffff:10.0.0.1",
            "ff0e:0:0:1:0:ffff:ef01:203",
        ] {
            let ip: Ipv6Addr = v6.parse().unwrap();
            assert_eq!(of(v6), Some(ip.to_string()));
        }
        for unicast in ["::ffff:10.9.0.1", "fd09::1", "fe80::1", "::239.1.2.3"] {
            assert_eq!(of(unicast), None, "{unicast}");
        }
    }
}

//! Identifiers, each with its own type so that they cannot be confused.

use core::fmt;

/// A queue pair number: 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// Queue pair 0: subnet management.
    pub const SMI: Self = Self(0);
    /// Queue pair 1: general services, such as connection management.
    pub const GSI: Self = Self(1);
    /// The destination of multicast packets.
    pub const MULTICAST: Self = Self(0x00ff_ffff);

    /// Returns the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// The number of a shared receive queue in XRC packets: 24 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SrqNumber(u32);

impl SrqNumber {
    /// Returns the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// Returns the number.
    pub const fn value(self) -> u32 {
        self.0
    }
}

/// A partition key: bit 15 is full membership, the rest names the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PKey(pub u16);

impl PKey {
    /// The default partition, full membership: the only one over RoCE.
    pub const DEFAULT: Self = Self(0xffff);

    /// Returns whether members with these keys may communicate: same partition, and at least one of
    /// them a full member (specification 10.9.3).
    pub const fn admits(self, other: Self) -> bool {
        self.0 & 0x7fff == other.0 & 0x7fff
            && self.0 & 0x7fff != 0
            && (self.0 | other.0) & 0x8000 != 0
    }
}

/// A queue key, which a datagram must carry to be received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct QKey(pub u32);

impl QKey {
    /// The well-known key of queue pair 1.
    pub const GSI: Self = Self(0x8001_0000);
}

/// A remote key: the right to access a peer's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct RKey(pub u32);

/// A local identifier: the address of a port in a subnet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lid(pub u16);

impl Lid {
    /// Accepted by any port; used in connection management where there are no LIDs.
    pub const PERMISSIVE: Self = Self(0xffff);
}

/// A global identifier: an IPv6 address, or over RoCE an IPv4 address mapped into one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the GID of an IPv4 address: `::ffff:a.b.c.d`.
    pub const fn from_ipv4(a: [u8; 4]) -> Self {
        Self([
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a[0], a[1], a[2], a[3],
        ])
    }

    /// Returns the IPv4 address, if it is one.
    pub fn ipv4(self) -> Option<[u8; 4]> {
        self.0
            .strip_prefix(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff])?
            .try_into()
            .ok()
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&core::net::Ipv6Addr::from(self.0), f)
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_keys_match_unless_both_are_limited() {
        let table = [
            (0xffff, 0xffff, true),
            (0xffff, 0x7fff, true),
            (0x7fff, 0x7fff, false),
            (0x8001, 0x0001, true),
            (0x8001, 0x8002, false),
            (0x8000, 0x8000, false),
        ];
        for (a, b, admitted) in table {
            assert_eq!(PKey(a).admits(PKey(b)), admitted, "{a:#x} {b:#x}");
            assert_eq!(PKey(b).admits(PKey(a)), admitted, "{b:#x} {a:#x}");
        }
    }

    #[test]
    fn ipv4_gids_round_trip() {
        let gid = Gid::from_ipv4([10, 9, 0, 3]);
        assert_eq!(gid.ipv4(), Some([10, 9, 0, 3]));
        assert_eq!(std::format!("{gid}"), "::ffff:10.9.0.3");
        assert_eq!(Gid([0xfe; 16]).ipv4(), None);
    }
}

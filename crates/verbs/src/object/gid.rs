//! GIDs of a port, and selection of the GID that other hosts can reach: `ibv_query_gid(3)`,
//! `ibv_query_gid_ex(3)`.

use crate::error::{Error, Result};
use crate::object::context::Context;
use std::fmt;
use std::net::Ipv6Addr;
use verbena_abi as abi;

/// A global identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl fmt::Display for Gid {
    /// Formats the GID as an IPv6 address, which it is on Ethernet (or an IPv4 address mapped into
    /// one).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from(self.0).fmt(f)
    }
}

/// The packet type of a GID table entry (`enum ibv_gid_type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GidKind {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: Ethernet, which routers do not forward.
    RoceVersion1,
    /// RoCE version 2: UDP.
    RoceVersion2,
}

impl fmt::Display for GidKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GidKind::InfiniBand => "InfiniBand",
            GidKind::RoceVersion1 => "RoCE v1",
            GidKind::RoceVersion2 => "RoCE v2",
        })
    }
}

/// An entry of a port's GID table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GidEntry {
    /// Its index.
    pub index: u8,
    /// The identifier.
    pub gid: Gid,
    /// Its packet type, if the library reports it.
    pub kind: Option<GidKind>,
}

/// The range in which a GID's address can be reached, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reach {
    /// Link-local: only on its link, and both hosts need IPv6.
    Link,
    /// IPv6.
    Version6,
    /// IPv4, which more networks support.
    Version4,
}

impl Reach {
    fn of(gid: Gid) -> Option<Reach> {
        let address = Ipv6Addr::from(gid.0);
        if address.is_unspecified() {
            None
        } else if address.to_ipv4_mapped().is_some() {
            Some(Reach::Version4)
        } else if address.is_unicast_link_local() {
            Some(Reach::Link)
        } else {
            Some(Reach::Version6)
        }
    }
}

/// Returns the index of the default GID by which other hosts reach a port: on Ethernet that of an
/// IPv4 address of the routed RoCE version.
pub fn routed(entries: impl IntoIterator<Item = GidEntry>) -> Option<u8> {
    let ranked = entries.into_iter().filter_map(|entry| {
        let reach = Reach::of(entry.gid)?;
        let is_routed = entry.kind != Some(GidKind::RoceVersion1);
        Some(((is_routed, reach), entry.index))
    });
    // The first of equal entries.
    let best = ranked.reduce(|best, one| if one.0 > best.0 { one } else { best });
    best.map(|(_, index)| index)
}

impl Context {
    /// Returns an entry of the GID table (`ibv_query_gid(3)`).
    ///
    /// # Errors
    ///
    /// The call fails, e.g. for an index beyond the table.
    pub fn gid(&self, port: u8, index: u8) -> Result<Gid> {
        let mut gid = abi::ibv_gid::default();
        // SAFETY: the context is open, the out-pointer is valid.
        let outcome = unsafe {
            (self.library.functions.query_gid)(self.raw.as_ptr(), port, index.into(), &mut gid)
        };
        if outcome != 0 {
            let object = format!("{} port {port} index {index}", self.name());
            return Err(Error::last("ibv_query_gid", object));
        }
        // SAFETY: all members of the union are 16 plain bytes.
        Ok(Gid(unsafe {
            std::mem::transmute::<abi::ibv_gid, [u8; 16]>(gid)
        }))
    }

    /// Returns the packet type of an entry of the GID table; `None` if the library does not report
    /// it.
    pub fn gid_kind(&self, port: u8, index: u8) -> Option<GidKind> {
        let query = self.library.functions.query_gid_ex?;
        let mut entry = abi::ibv_gid_entry::default();
        let (port, index) = (u32::from(port), u32::from(index));
        let size = size_of::<abi::ibv_gid_entry>();
        // SAFETY: the context is open, the entry is valid and has this size.
        let errno = unsafe { query(self.raw.as_ptr(), port, index, &mut entry, 0, size) };
        match entry.gid_type {
            _ if errno != 0 => None,
            abi::IBV_GID_TYPE_IB => Some(GidKind::InfiniBand),
            abi::IBV_GID_TYPE_ROCE_V1 => Some(GidKind::RoceVersion1),
            abi::IBV_GID_TYPE_ROCE_V2 => Some(GidKind::RoceVersion2),
            _ => None,
        }
    }

    /// Returns the index of the GID by which other hosts reach a port; 0 on InfiniBand or if no
    /// entry is usable.
    ///
    /// # Errors
    ///
    /// `ibv_query_port` fails.
    pub fn routed_gid_index(&self, number: u8) -> Result<u8> {
        let port = self.port(number)?;
        if !port.ethernet {
            return Ok(0);
        }
        let entry = |index| {
            Some(GidEntry {
                index,
                gid: self.gid(number, index).ok()?,
                kind: self.gid_kind(number, index),
            })
        };
        let indices = 0..u8::try_from(port.gids).unwrap_or(u8::MAX);
        Ok(routed(indices.filter_map(entry)).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(text: &str) -> Gid {
        Gid(text.parse::<Ipv6Addr>().unwrap().octets())
    }

    #[test]
    fn the_most_widely_routable_gid_is_chosen() {
        let table = [
            "fe80::1",
            "fd00::1",
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.1",
            "::",
        ];
        let kinds = [
            GidKind::RoceVersion2,
            GidKind::RoceVersion2,
            GidKind::RoceVersion1,
            GidKind::RoceVersion2,
        ];
        let entry = |at: usize| GidEntry {
            index: at as u8,
            gid: gid(table[at]),
            kind: kinds.get(at).copied(),
        };
        assert_eq!(routed((0..5).map(entry)), Some(3));
        assert_eq!(routed((0..3).map(entry)), Some(1));
        assert_eq!(routed((0..1).map(entry)), Some(0));
        assert_eq!(routed((4..5).map(entry)), None);
        assert_eq!(entry(3).gid.to_string(), "::ffff:10.0.0.1");
    }
}

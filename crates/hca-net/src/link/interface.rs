//! The Ethernet interface of a RoCE port, and its GID table (annex A17.4; the table is filled like
//! that of Linux' `ib_core`).
//!
//! The first entry is the link-local address, followed by IPv4 addresses, mapped, and the other
//! IPv6 addresses. An entry keeps its index as long as its address exists; a removed address leaves
//! a hole, which the next new address fills.

use std::net::{IpAddr, Ipv6Addr};
use verbena_abi::ibv_gid;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::interfaces::Description;
use verbena_wire::Mtu;

/// Entries of the GID table. On an InfiniBand port only the first holds a GID.
pub const GIDS: usize = 8;

/// An Ethernet interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The kernel's index of it.
    pub index: u32,
    /// Whether it is up and has a carrier.
    pub is_running: bool,
    /// The longest payload of a packet.
    pub mtu: Mtu,
    /// The node's identifier, made of the hardware address; none if it has none.
    pub guid: Option<u64>,
    table: Vec<Option<GidEntry>>,
}

/// An entry of the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID: an IPv6 address, or an IPv4 address mapped into one.
    pub gid: ibv_gid,
    /// Whether packets can be sent from it. Where IPv6 is off, the link-local GID that stands for a
    /// hardware address is not an address of the interface.
    pub is_address: bool,
}

impl Interface {
    /// Returns the interface with this name or address; without either, the first that is up and
    /// leads to other hosts.
    ///
    /// # Errors
    /// ENODEV when there is none, after a line on standard error; as [`Interface::of`].
    pub(super) fn find(all: &[Description], wanted: &str) -> Result<Interface> {
        match choose(all, wanted) {
            Some(found) => Interface::of(found),
            None => {
                let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
                let what = match wanted {
                    "" => "no interface is up".to_owned(),
                    wanted => format!("no interface is `{wanted}` or has that address"),
                };
                eprintln!("verbena: {what}; available: {}", names.join(", "));
                Err(Errno(libc::ENODEV))
            }
        }
    }

    /// Returns `count` interfaces: those that lead to other hosts first, running before up, then
    /// loopback.
    ///
    /// # Errors
    /// ENODEV where there are fewer; a line on standard error says so.
    pub(super) fn preferred(all: &[Description], count: usize) -> Result<Vec<Interface>> {
        let mut usable: Vec<&Description> = all
            .iter()
            .filter(|one| one.is_up && !one.addresses.is_empty())
            .collect();
        usable.sort_by_key(|one| (one.is_loopback, !one.is_running));
        if usable.len() < count {
            let names: Vec<&str> = usable.iter().map(|one| one.name.as_str()).collect();
            eprintln!(
                "verbena: VERBENA_DEVICES is {count}, and each device needs an interface that is \
                 up; available: {}",
                names.join(", ")
            );
            return Err(Errno(libc::ENODEV));
        }
        usable.into_iter().take(count).map(Interface::of).collect()
    }

    pub(super) fn of(description: &Description) -> Result<Interface> {
        let Some(mtu) = Mtu::of_link(description.mtu) else {
            eprintln!(
                "verbena: the MTU of {} is {} bytes; RoCE needs at least 352",
                description.name, description.mtu
            );
            return Err(Errno(libc::ENODEV));
        };
        Ok(Interface {
            name: description.name.clone(),
            index: description.index,
            is_running: description.is_running,
            mtu,
            guid: (description.hardware != [0; 6])
                .then(|| u64::from_be_bytes(eui64(description.hardware))),
            table: table(description).into_iter().map(Some).collect(),
        })
    }

    /// Returns the present state of the interface. Its identifier stays, because programs know it
    /// by that.
    pub(super) fn successor(&self, all: &[Description]) -> Interface {
        let found = all.iter().find(|one| one.index == self.index);
        // An interface that was deleted and made again has another index.
        let found = found.or_else(|| all.iter().find(|one| one.name == self.name));
        let Some(found) = found else {
            return Interface {
                is_running: false,
                table: Vec::new(),
                ..self.clone()
            };
        };
        Interface {
            name: found.name.clone(),
            index: found.index,
            is_running: found.is_running,
            mtu: Mtu::of_link(found.mtu).unwrap_or(self.mtu),
            guid: self.guid,
            table: rearranged(&self.table, &table(found)),
        }
    }

    /// Returns the entry at an index of the table.
    #[inline]
    pub fn entry(&self, index: usize) -> Option<&GidEntry> {
        self.table.get(index)?.as_ref()
    }

    /// Returns all GIDs with their indices.
    pub fn gids(&self) -> Vec<(usize, ibv_gid)> {
        let entries = self.table.iter().enumerate();
        entries
            .filter_map(|(index, entry)| Some((index, entry.as_ref()?.gid)))
            .collect()
    }

    /// Returns the index of the first address from which packets to a destination can be sent: of
    /// the same IP version, and link-local only if the destination is, too.
    pub fn index_towards(&self, destination: ibv_gid) -> Option<usize> {
        let kind = |gid: ibv_gid| {
            let ip = Ipv6Addr::from(gid.bytes());
            let is_of_link = is_link_local(&ip) || ip.segments()[0] & 0xff0f == 0xff02;
            (ip.to_ipv4_mapped().is_some(), is_of_link)
        };
        let can = |entry: &GidEntry| entry.is_address && kind(entry.gid) == kind(destination);
        self.position(can)
    }

    /// Returns the index of a GID in the table.
    #[inline]
    pub fn index_of(&self, gid: ibv_gid) -> Option<usize> {
        self.position(|entry| entry.gid == gid)
    }

    fn position(&self, is_it: impl Fn(&GidEntry) -> bool) -> Option<usize> {
        let is_it = |entry: &Option<GidEntry>| entry.as_ref().is_some_and(&is_it);
        self.table.iter().position(is_it)
    }
}

fn choose<'a>(all: &'a [Description], wanted: &str) -> Option<&'a Description> {
    if wanted.is_empty() {
        // An interface with a carrier before one that only has an address.
        let outward = |one: &&Description| !one.is_loopback && !one.addresses.is_empty();
        let running = |one: &&Description| outward(one) && one.is_running;
        let up = |one: &&Description| outward(one) && one.is_up;
        return all
            .iter()
            .find(running)
            .or_else(|| all.iter().find(up))
            .or_else(|| all.iter().find(|one| one.is_loopback && one.is_up));
    }
    let address: Option<IpAddr> = wanted.parse().ok();
    all.iter().find(|one| {
        one.name == wanted || address.is_some_and(|address| one.addresses.contains(&address))
    })
}

fn table(description: &Description) -> Vec<GidEntry> {
    let of = |address: Ipv6Addr| GidEntry {
        gid: ibv_gid::from_bytes(address.octets()),
        is_address: true,
    };
    let (mut local, mut v4, mut v6) = (Vec::new(), Vec::new(), Vec::new());
    for address in &description.addresses {
        match address {
            IpAddr::V4(address) => v4.push(of(address.to_ipv6_mapped())),
            IpAddr::V6(address) if is_link_local(address) => local.push(of(*address)),
            IpAddr::V6(address) => v6.push(of(*address)),
        }
    }
    if local.is_empty() {
        let mut bytes = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[8..].copy_from_slice(&eui64(description.hardware));
        local.push(GidEntry {
            gid: ibv_gid::from_bytes(bytes),
            is_address: false,
        });
    }
    let mut table: Vec<GidEntry> = [local, v4, v6].concat();
    table.truncate(GIDS);
    table
}

/// Returns whether an address is link-local.
#[inline]
pub fn is_link_local(address: &Ipv6Addr) -> bool {
    address.segments()[0] & 0xffc0 == 0xfe80
}

/// Returns the table with the wanted entries: those that it has keep their index.
fn rearranged(before: &[Option<GidEntry>], wanted: &[GidEntry]) -> Vec<Option<GidEntry>> {
    let still = |place: &Option<GidEntry>| {
        let old = place.as_ref()?;
        wanted.iter().find(|new| new.gid == old.gid).copied()
    };
    let mut now: Vec<Option<GidEntry>> = before.iter().map(still).collect();
    now.resize(GIDS, None);
    for new in wanted {
        let is_there = now.iter().flatten().any(|entry| entry.gid == new.gid);
        let hole = now.iter_mut().find(|place| place.is_none());
        if let Some(hole) = hole.filter(|_| !is_there) {
            *hole = Some(*new);
        }
    }
    while now.pop_if(|last| last.is_none()).is_some() {}
    now
}

/// Returns the modified EUI-64 of a hardware address (RFC 4291, appendix A).
fn eui64([a, b, c, d, e, f]: [u8; 6]) -> [u8; 8] {
    [a ^ 2, b, c, 0xff, 0xfe, d, e, f]
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn description(name: &str, addresses: &[&str]) -> Description {
        Description {
            name: name.into(),
            index: 2,
            is_up: true,
            is_running: true,
            is_loopback: name == "lo",
            hardware: [2, 0, 0, 0, 0, 9],
            mtu: 1500,
            addresses: addresses.iter().map(|one| one.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn gids_are_ordered_link_local_ipv4_rest() {
        let eth = description("eth0", &["10.0.0.1", "fd00::1", "fe80::1", "10.0.0.2"]);
        let gids: Vec<String> = table(&eth)
            .iter()
            .map(|entry| Ipv6Addr::from(entry.gid.bytes()).to_string())
            .collect();
        assert_eq!(
            gids,
            ["fe80::1", "::ffff:10.0.0.1", "::ffff:10.0.0.2", "fd00::1"]
        );
    }

    #[test]
    fn source_gid_has_the_kind_of_the_destination() {
        let eth = description("eth0", &["10.0.0.1", "fd00::1", "fe80::1"]);
        let interface = Interface::of(&eth).unwrap();
        let index = |destination: &str| {
            let ip: Ipv6Addr = destination.parse().unwrap();
            interface.index_towards(ibv_gid::from_bytes(ip.octets()))
        };
        for (destination, expected) in [
            ("fe80::9", 0),
            ("ff02::9", 0),
            ("::ffff:239.1.2.3", 1),
            ("fd00::9", 2),
            ("ff15::9", 2),
        ] {
            assert_eq!(index(destination), Some(expected), "{destination}");
        }
    }

    #[test]
    fn gid_entries_keep_their_index_and_holes_are_filled() {
        let begin = description("eth0", &["10.0.0.1", "10.0.0.2", "fd00::1", "fe80::1"]);
        let mut interface = Interface::of(&begin).unwrap();
        let mut become_one_with = |addresses: &[&str]| {
            interface = interface.successor(&[description("eth0", addresses)]);
            let gids = interface.gids().into_iter();
            let texts = gids.map(|(index, gid)| (index, Ipv6Addr::from(gid.bytes()).to_string()));
            texts.collect::<Vec<_>>()
        };
        let at = |index, text: &str| (index, text.to_owned());
        assert_eq!(
            become_one_with(&["10.0.0.2", "fd00::1", "fe80::1"]),
            [at(0, "fe80::1"), at(2, "::ffff:10.0.0.2"), at(3, "fd00::1")]
        );
        assert_eq!(
            become_one_with(&["10.0.0.2", "10.0.0.7", "10.0.0.8", "fe80::1"]),
            [
                at(0, "fe80::1"),
                at(1, "::ffff:10.0.0.7"),
                at(2, "::ffff:10.0.0.2"),
                at(3, "::ffff:10.0.0.8"),
            ]
        );
        assert_eq!(
            become_one_with(&["10.0.0.2", "fe80::2"]),
            [at(0, "fe80::2"), at(2, "::ffff:10.0.0.2")]
        );
    }

    #[test]
    fn first_gid_without_link_local_address_is_from_hardware_address() {
        let table = table(&description("eth0", &["10.0.0.1"]));
        assert!(!table[0].is_address);
        assert_eq!(
            Ipv6Addr::from(table[0].gid.bytes()).to_string(),
            "fe80::ff:fe00:9"
        );
        assert!(table[1].is_address);
    }

    #[test]
    fn interface_is_chosen_by_name_by_address_or_off_host() {
        let all = [
            description("lo", &["127.0.0.1"]),
            description("eth0", &["10.0.0.1"]),
            description("eth1", &["10.0.1.1", "fd00::1"]),
        ];
        let name = |wanted| choose(&all, wanted).map(|one| one.name.as_str());
        assert_eq!(name(""), Some("eth0"));
        assert_eq!(name("eth1"), Some("eth1"));
        assert_eq!(name("fd00:0::1"), Some("eth1"));
        assert_eq!(name("10.0.0.9"), None);
        assert_eq!(
            choose(&all[..1], "").map(|one| one.name.as_str()),
            Some("lo")
        );
    }
}

//! The path between an identifier and its peer, as its program and its queue pair see it: GIDs and
//! path record.
//!
//! Over InfiniBand a path leads from a port of the host to one of its ports, and addresses stand
//! for ports (`port_for`), or to the port of another interface of IP over InfiniBand
//! ([`crate::hosts`]). Over RoCE GIDs are addresses (annex A17.4.1): the local port is the one that
//! has the local address, and a remote address that no local port has is another host's.

use crate::abi::{AddressVector, PathRecord};
use crate::device::{self, ACK_TIMEOUT, PACKET_LIFE_TIME};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use verbena_abi::ibv_gid;
use verbena_fabric_protocol::interface::Entry;
use verbena_hca_net::device::{Device, active_mtu, gid, lid, pkey, pkeys};
use verbena_hca_net::link::{self, FIRST_PORT, GidLocation};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::interfaces;

/// The bits of a P_Key in which full and limited members of a partition agree.
const MEMBERS: u16 = 0x7fff;

/// Hop limit of packets, as Linux sets it for RoCE.
pub const HOP_LIMIT: u8 = 64;

/// A path from a local port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The port's number on the host.
    pub port: u8,
    /// The port's GID.
    pub source: [u8; 16],
    /// The GID's index in the port's table.
    pub index: u8,
    /// The index of its partition's P_Key in the port's table.
    pub pkey_index: u16,
    /// The peer's GID.
    pub destination: [u8; 16],
    /// The peer's LID; 0 over Ethernet.
    pub lid: u16,
    /// The path's MTU, as its code.
    pub mtu: u8,
    /// A queue pair's (acknowledgement) timeout.
    pub ack_timeout: u8,
}

impl Path {
    /// Returns the path from the first port to itself.
    pub fn loopback() -> Path {
        Path::from(FIRST_PORT, 0, gid(FIRST_PORT))
    }

    /// Returns the device of the local port, and the port's number on the device.
    pub fn device(&self) -> (Device, u8) {
        Device::of_port(self.port)
    }

    /// Returns the path from a port's GID, at its index, to itself.
    fn from(port: u8, index: u8, gid: ibv_gid) -> Path {
        Path {
            port,
            source: gid.bytes(),
            index,
            pkey_index: 0,
            destination: gid.bytes(),
            lid: lid(port),
            mtu: active_mtu(port) as u8,
            ack_timeout: ACK_TIMEOUT,
        }
    }

    /// Returns the path between two addresses of this host, by their GIDs. An address without a GID
    /// is replaced by the other; if neither has one, the path is the first port's, so that both
    /// sides get the same result.
    pub fn local(own: SocketAddr, peer: SocketAddr) -> Path {
        if !link::is_ethernet() {
            let (here, there) = (port_for(own.ip()), port_for(peer.ip()));
            return Path {
                destination: gid(there).bytes(),
                lid: lid(there),
                ..Path::from(here, 0, gid(here))
            };
        }
        match (place(own), place(peer)) {
            (Some(here), there) => Path {
                destination: there.map_or(gid_of(own), |_| gid_of(peer)).bytes(),
                ..Path::from(here.port, here.index, gid_of(own))
            },
            (None, Some(there)) => Path::from(there.port, there.index, gid_of(peer)),
            // Loopback, an address of another interface, or a port whose GID is no address.
            (None, None) => Path::loopback(),
        }
    }

    /// Returns the path between two interfaces of IP over InfiniBand, the first of them on a port
    /// of this host; `None` if that port is not in their partition.
    pub fn between(here: &Entry, there: &Entry) -> Option<Path> {
        let mut ports = FIRST_PORT..=link::ports();
        let port = ports.find(|port| gid(*port).bytes() == here.gid);
        let port = port.unwrap_or(FIRST_PORT);
        let keys = (0..pkeys() as u16).map(|index| (index, pkey(port, index)));
        // The port may be a limited member.
        let is_of = |key: u16| key & MEMBERS == here.partition & MEMBERS && key & MEMBERS != 0;
        let mut of_partition = keys.filter(|(_, key)| is_of(*key));
        let (pkey_index, _) = of_partition.next()?;
        Some(Path {
            pkey_index,
            destination: there.gid,
            lid: there.lid,
            ..Path::from(port, 0, gid(port))
        })
    }

    /// Returns the path from an address of this host to one of another host.
    ///
    /// # Errors
    /// ENODEV if no port has the source address.
    pub fn remote(source: SocketAddr, destination: SocketAddr) -> Result<Path> {
        let here = place(source).ok_or(Errno(libc::ENODEV))?;
        Ok(Path {
            destination: mapped(destination.ip()).octets(),
            ..Path::from(here.port, here.index, gid_of(source))
        })
    }

    /// Returns whether it leads to another host.
    pub fn is_remote(&self) -> bool {
        let destination = ibv_gid::from_bytes(self.destination);
        link::is_ethernet() && link::locate_gid_from(self.port, destination).is_none()
    }

    /// Returns whether it leads to the same port in the same partition.
    pub fn is_like(&self, other: &Path) -> bool {
        let of = |path: &Path| (path.port, path.destination, path.lid, path.pkey_index);
        of(self) == of(other)
    }

    /// Returns whether the port at either end was taken down.
    pub fn is_down(&self) -> bool {
        let mut ports = FIRST_PORT..=link::ports();
        let there = ports.find(|port| lid(*port) == self.lid && self.lid != 0);
        link::is_down(self.port) || there.is_some_and(link::is_down)
    }

    /// Returns the path record.
    pub fn record(&self) -> PathRecord {
        PathRecord {
            reversible: 1,
            mtu: self.mtu.into(),
            numb_path: 1,
            mtu_selector: EXACTLY,
            rate_selector: EXACTLY,
            rate: device::rate(self.port),
            packet_life_time_selector: EXACTLY,
            packet_life_time: PACKET_LIFE_TIME,
            dlid: self.lid.to_be_bytes(),
            slid: lid(self.port).to_be_bytes(),
            hop_limit: self.hop_limit(),
            ..self.ends()
        }
    }

    /// Returns the part of the path record that is known before it is resolved: GIDs and partition
    /// key.
    pub fn ends(&self) -> PathRecord {
        PathRecord {
            dgid: self.destination,
            sgid: self.source,
            pkey: self.pkey().to_be_bytes(),
            ..Default::default()
        }
    }

    /// Returns the P_Key of its partition.
    pub fn pkey(&self) -> u16 {
        pkey(self.port, self.pkey_index)
    }

    /// Returns the address vector of the peer.
    pub fn address_vector(&self) -> AddressVector {
        AddressVector {
            dgid: self.destination,
            sgid_index: self.index,
            dlid: self.lid,
            hop_limit: self.hop_limit(),
            // A port without LIDs is reached by GIDs only.
            is_global: link::is_ethernet().into(),
            port_num: self.device().1,
            ..Default::default()
        }
    }

    fn hop_limit(&self) -> u8 {
        match link::is_ethernet() {
            true => HOP_LIMIT,
            false => 0,
        }
    }
}

/// Selector in a path record: exactly the value that follows.
const EXACTLY: u8 = 2;

/// Returns the InfiniBand port that an address of this host stands for if there are several:
/// 127.0.0.K for the K-th; any other address for the one of its interface, in the kernel's order
/// without loopback. Numbers beyond the last port wrap around.
fn port_for(address: IpAddr) -> u8 {
    let ports = link::ports();
    let counted = |before: usize| FIRST_PORT + (before % usize::from(ports)) as u8;
    if ports == 1 {
        return FIRST_PORT;
    }
    match address.to_canonical() {
        IpAddr::V4(v4) if v4.is_loopback() => {
            counted(usize::from(v4.octets()[3]).saturating_sub(1))
        }
        ip => {
            let all = interfaces::all().unwrap_or_default();
            let mut outward = all.iter().filter(|one| !one.is_loopback);
            let place = outward.position(|one| one.addresses.contains(&ip));
            counted(place.unwrap_or(0))
        }
    }
}

/// Returns the GID of an address of this host. A link-local address also names its interface.
fn place(address: SocketAddr) -> Option<GidLocation> {
    match address {
        SocketAddr::V6(of_link) if of_link.scope_id() != 0 => {
            link::locate_gid_from(link::port_of(of_link.scope_id())?, gid_of(address))
        }
        _ => link::locate_gid(gid_of(address)),
    }
}

fn gid_of(address: SocketAddr) -> ibv_gid {
    ibv_gid::from_bytes(mapped(address.ip()).octets())
}

/// Returns an address in the format of a GID.
pub fn mapped(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn infiniband_paths_lead_to_the_local_lid() {
        let here: SocketAddr = ([127, 0, 0, 1], 1).into();
        let there: SocketAddr = ([192, 0, 2, 1], 2).into();
        let path = Path::local(here, here);
        assert_eq!(path, Path::loopback());
        assert_eq!(Path::remote(here, there), Err(Errno(libc::ENODEV)));
        assert!(!path.is_remote());
        let vector = path.address_vector();
        assert_eq!(
            (vector.dlid, vector.is_global, vector.hop_limit),
            (lid(FIRST_PORT), 0, 0)
        );
        assert_eq!(path.record().dgid, path.record().sgid);
    }
}

//! The way between the two ends of an identifier, as its program and its queue pair see it: GIDs and path.
//!
//! Over InfiniBand every way leads from the host's port to itself. Over RoCE the GIDs are the addresses
//! (annex A17.4.1), and one that is none of the port's own is another host's.

use crate::abi::{AddressVector, PathRecord};
use crate::device::{ACK_TIMEOUT, PACKET_LIFE_TIME, RATE};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use verbena_abi::ibv_gid;
use verbena_hca::device::{LID, PKEY, PORT, active_mtu, gid, index_of};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;

/// Hops that packets may take, as Linux sets it for RoCE.
pub const HOP_LIMIT: u8 = 64;

/// A way from the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// The port's GID.
    pub source: [u8; 16],
    /// Where it stands in the port's table.
    pub index: u8,
    /// The GID at the other end.
    pub destination: [u8; 16],
    /// The path's MTU, by its code.
    pub mtu: u8,
    /// A queue pair's timeout, which is that of an acknowledgement.
    pub ack_timeout: u8,
}

impl Way {
    /// From the port to itself.
    pub fn home() -> Way {
        let gid = gid().bytes();
        Way {
            source: gid,
            index: 0,
            destination: gid,
            mtu: active_mtu() as u8,
            ack_timeout: ACK_TIMEOUT,
        }
    }

    /// From the port to itself by one of this host's addresses: by the GID that it is, if it is one.
    pub fn within(address: SocketAddr) -> Way {
        let gid = ibv_gid::from_bytes(mapped(address.ip()).octets());
        match index_of(gid).filter(|_| link::interface().is_some()) {
            Some(index) => Way {
                source: gid.bytes(),
                index: index as u8,
                destination: gid.bytes(),
                ..Way::home()
            },
            // Loopback, or another interface's; or a port whose GID is no address.
            None => Way::home(),
        }
    }

    /// From an address of this host to one of another.
    ///
    /// # Errors
    /// ENODEV when the way does not begin at the port.
    pub fn between(source: SocketAddr, destination: SocketAddr) -> Result<Way> {
        let source = ibv_gid::from_bytes(mapped(source.ip()).octets());
        let index = index_of(source).filter(|_| link::interface().is_some());
        Ok(Way {
            source: source.bytes(),
            index: index.ok_or(Errno(libc::ENODEV))? as u8,
            destination: mapped(destination.ip()).octets(),
            ..Way::home()
        })
    }

    /// Whether it leads to another host.
    pub fn is_distant(&self) -> bool {
        link::interface().is_some() && index_of(ibv_gid::from_bytes(self.destination)).is_none()
    }

    /// The path.
    pub fn path(&self) -> PathRecord {
        let lid = self.lid().to_be_bytes();
        PathRecord {
            reversible: 1,
            mtu: self.mtu.into(),
            numb_path: 1,
            mtu_selector: EXACTLY,
            rate_selector: EXACTLY,
            rate: RATE,
            packet_life_time_selector: EXACTLY,
            packet_life_time: PACKET_LIFE_TIME,
            dlid: lid,
            slid: lid,
            hop_limit: self.hop_limit(),
            ..self.ends()
        }
    }

    /// What is known of the path before it is resolved: its ends and partition.
    pub fn ends(&self) -> PathRecord {
        PathRecord {
            dgid: self.destination,
            sgid: self.source,
            pkey: PKEY.to_be_bytes(),
            ..Default::default()
        }
    }

    /// The address of the other end.
    pub fn address_vector(&self) -> AddressVector {
        AddressVector {
            dgid: self.destination,
            sgid_index: self.index,
            dlid: self.lid(),
            hop_limit: self.hop_limit(),
            // A port without LIDs is reached by GIDs alone.
            is_global: link::interface().is_some().into(),
            port_num: PORT,
            ..Default::default()
        }
    }

    fn lid(&self) -> u16 {
        match link::interface() {
            Some(_) => 0,
            None => LID,
        }
    }

    fn hop_limit(&self) -> u8 {
        match link::interface() {
            Some(_) => HOP_LIMIT,
            None => 0,
        }
    }
}

/// Selector of a path record: exactly the value that follows.
const EXACTLY: u8 = 2;

/// An address as a GID has it.
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
    fn over_infiniband_every_way_leads_home_by_the_lid() {
        let here: SocketAddr = ([127, 0, 0, 1], 1).into();
        let there: SocketAddr = ([192, 0, 2, 1], 2).into();
        let way = Way::within(here);
        assert_eq!(way, Way::home());
        assert_eq!(Way::between(here, there), Err(Errno(libc::ENODEV)));
        assert!(!way.is_distant());
        let vector = way.address_vector();
        assert_eq!(
            (vector.dlid, vector.is_global, vector.hop_limit),
            (LID, 0, 0)
        );
        assert_eq!(way.path().dgid, way.path().sgid);
    }
}

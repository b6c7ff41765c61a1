//! The software adapter's attributes, in the terms of `ibv_devinfo`.

use serde::Serialize;
use verbena_hca_net::{device, link};
use verbena_verbs::{Gid, GidEntry, GidKind, routed};

/// An entry of the GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identifier {
    /// Its index.
    pub index: u8,
    /// The identifier, formatted as an address.
    pub gid: String,
    /// The packet format: InfiniBand or RoCE v2.
    pub kind: String,
    /// Whether the suite uses it by default, without `--gid-index`.
    pub chosen: bool,
}

/// A port of the adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Port {
    /// Its number on the device, from 1.
    pub number: u8,
    /// `active` or `down`.
    pub state: &'static str,
    /// The attached link.
    pub link: String,
    /// Its LID; 0 over Ethernet.
    pub lid: u16,
    /// Longest packet of a connected queue pair, and longest datagram, in bytes.
    pub mtu: u32,
    /// The GID table.
    pub gids: Vec<Identifier>,
}

/// A device of the adapter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Name, as of `ibv_get_device_name`.
    pub name: String,
    /// Node GUID, hexadecimal.
    pub node_guid: String,
    /// Its ports.
    pub ports: Vec<Port>,
    /// The limits, by their names in `struct ibv_device_attr`.
    pub limits: Vec<(&'static str, u64)>,
}

impl Device {
    /// Returns the devices of this program.
    pub fn all() -> Vec<Self> {
        device::Device::all().map(Self::of).collect()
    }

    fn of(which: device::Device) -> Self {
        let attributes = which.attributes();
        // The ABI declares these as `int`; none is negative.
        let count = |value: i32| u64::try_from(value).unwrap_or_default();
        Self {
            name: which.name(),
            node_guid: format!("{:016x}", which.guid()),
            ports: (1..).zip(which.host_ports()).map(port).collect(),
            limits: vec![
                ("max_qp", count(attributes.max_qp)),
                ("max_qp_wr", count(attributes.max_qp_wr)),
                ("max_sge", count(attributes.max_sge)),
                ("max_inline_data", device::MAX_INLINE.get()),
                ("max_cq", count(attributes.max_cq)),
                ("max_cqe", count(attributes.max_cqe)),
                ("max_srq", count(attributes.max_srq)),
                ("max_srq_wr", count(attributes.max_srq_wr)),
                ("max_mr", count(attributes.max_mr)),
                ("max_mr_size", attributes.max_mr_size),
                ("max_mw", count(attributes.max_mw)),
                ("max_pd", count(attributes.max_pd)),
                ("max_ah", count(attributes.max_ah)),
                ("max_msg_sz", u64::from(device::MAX_MESSAGE)),
                ("max_qp_rd_atom", count(attributes.max_qp_rd_atom)),
                ("max_mcast_grp", count(attributes.max_mcast_grp)),
            ],
        }
    }
}

fn port((number, host_port): (u8, u8)) -> Port {
    let attributes = device::port_attributes(host_port);
    Port {
        number,
        state: match link::interface(host_port) {
            Some(interface) if !interface.is_running => "down",
            None if link::is_down(host_port) => "down",
            _ => "active",
        },
        link: match link::interface(host_port) {
            Some(interface) => format!("Ethernet, RoCE v2 by {}", interface.name),
            None => "InfiniBand".into(),
        },
        lid: attributes.lid,
        mtu: device::mtu_bytes(host_port),
        gids: identifiers(host_port),
    }
}

fn identifiers(port: u8) -> Vec<Identifier> {
    let kind = match link::is_ethernet() {
        true => GidKind::RoceVersion2,
        false => GidKind::InfiniBand,
    };
    let entry = |index: u8| {
        let gid = Gid(device::gid_at(port, index.into())?.bytes());
        Some(GidEntry {
            index,
            gid,
            kind: Some(kind),
        })
    };
    let entries: Vec<GidEntry> = (0..=u8::MAX).filter_map(entry).collect();
    let chosen = routed(entries.iter().copied());
    let identifier = |entry: GidEntry| Identifier {
        index: entry.index,
        gid: entry.gid.to_string(),
        kind: kind.to_string(),
        chosen: chosen == Some(entry.index),
    };
    entries.into_iter().map(identifier).collect()
}

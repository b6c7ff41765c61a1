//! What the software adapter says of itself, by the same words as `ibv_devinfo`.

use serde::Serialize;
use verbena_hca::{device, link};
use verbena_verbs::{Gid, GidEntry, GidKind, routed};

/// An entry of the GID table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Identifier {
    /// Its place.
    pub index: u8,
    /// The identifier, as an address.
    pub gid: String,
    /// What its packets are.
    pub kind: String,
    /// Whether the suite takes it where nobody names another by `--gid-index`.
    pub chosen: bool,
}

/// The adapter and its port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// Its name.
    pub name: &'static str,
    /// Its identifier.
    pub node_guid: String,
    /// What its port is attached to.
    pub link: String,
    /// Its port's address, 0 over Ethernet.
    pub lid: u16,
    /// Longest packet of a connected queue pair, and longest datagram, in bytes.
    pub mtu: u32,
    /// The port's identifiers.
    pub gids: Vec<Identifier>,
    /// The limits, by their names in `struct ibv_device_attr`.
    pub limits: Vec<(&'static str, u64)>,
}

impl Device {
    /// The adapter of this program.
    pub fn ours() -> Self {
        let attributes = device::attributes();
        // The ABI has these as `int`; none is negative.
        let count = |value: i32| u64::try_from(value).unwrap_or_default();
        Self {
            name: device::NAME,
            node_guid: format!("{:016x}", device::guid()),
            link: match verbena_hca::link::interface() {
                Some(interface) => format!("Ethernet, RoCE v2 by {}", interface.name),
                None => "InfiniBand".into(),
            },
            lid: device::port_attributes().lid,
            mtu: device::mtu_bytes(),
            gids: identifiers(),
            limits: vec![
                ("max_qp", count(attributes.max_qp)),
                ("max_qp_wr", count(attributes.max_qp_wr)),
                ("max_sge", count(attributes.max_sge)),
                ("max_inline_data", u64::from(device::MAX_INLINE)),
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

fn identifiers() -> Vec<Identifier> {
    let kind = match link::interface() {
        Some(_) => GidKind::RoceVersion2,
        None => GidKind::InfiniBand,
    };
    let entry = |index: u8| {
        let gid = Gid(device::gid_at(index.into())?.bytes());
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

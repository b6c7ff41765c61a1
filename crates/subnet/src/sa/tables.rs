//! Records that repeat attributes of nodes and ports.

use super::Records;
use super::record::{Component, at, bit, matches};
use crate::agent::{SWITCH_PARTITIONS, node_info};
use crate::attribute::{port_info, sm_info, switch_info};
use crate::fabric::{Fabric, Kind, NO_PORT, Node, Port};
use crate::mad::{Mad, status};

const NODE: u16 = 0x11;
const PORT_INFO: u16 = 0x12;
const SWITCH_INFO: u16 = 0x14;
const LINEAR: u16 = 0x15;
const MULTICAST: u16 = 0x17;
const SM_INFO: u16 = 0x18;
const LINK: u16 = 0x20;
const GUID_INFO: u16 = 0x30;
const P_KEYS: u16 = 0x33;

const OF_NODES: [Component; 15] = [
    at(0, 16),
    Component::Reserved,
    at(4, 8),
    at(5, 8),
    at(6, 8),
    at(7, 8),
    at(8, 64),
    at(16, 64),
    at(24, 64),
    at(32, 16),
    at(34, 16),
    at(36, 32),
    at(40, 8),
    at(41, 24),
    Component::Bytes(44, 64),
];
/// Index of the capability mask among [`OF_PORTS`].
const CAPABILITIES: u64 = 1 << 7;
const OF_PORTS: [Component; 25] = [
    at(0, 16),
    at(2, 8),
    Component::Reserved,
    at(4, 64),
    at(12, 64),
    at(20, 16),
    at(22, 16),
    at(24, 32),
    at(28, 16),
    at(30, 16),
    at(32, 8),
    at(33, 8),
    at(34, 8),
    at(35, 8),
    at(36, 4),
    bit(36, 4, 4),
    at(37, 4),
    bit(37, 4, 4),
    at(38, 2),
    Component::Reserved,
    bit(38, 5, 3),
    at(39, 4),
    bit(39, 4, 4),
    at(40, 4),
    bit(40, 4, 4),
];
const OF_SWITCHES: [Component; 1] = [at(0, 16)];
const OF_BLOCKS: [Component; 2] = [at(0, 16), at(2, 16)];
const OF_MULTICAST_BLOCKS: [Component; 4] =
    [at(0, 16), bit(2, 0, 4), Component::Reserved, bit(2, 7, 9)];
const OF_MANAGERS: [Component; 7] = [
    at(0, 16),
    Component::Reserved,
    at(4, 64),
    at(12, 64),
    at(20, 32),
    at(24, 4),
    bit(24, 4, 4),
];
const OF_LINKS: [Component; 4] = [at(0, 16), at(2, 8), at(3, 8), at(4, 16)];
const OF_GUIDS: [Component; 2] = [at(0, 16), at(2, 8)];
const OF_P_KEYS: [Component; 3] = [at(0, 16), at(2, 16), at(4, 8)];

/// Answers a query of one of these records.
pub(super) fn query(fabric: &Fabric, request: &Mad, manager: [u8; 24]) -> Records {
    let (components, size): (&[Component], usize) = match request.attribute() {
        NODE => (&OF_NODES, 108),
        PORT_INFO => (&OF_PORTS, 68),
        SWITCH_INFO => (&OF_SWITCHES, 24),
        LINEAR => (&OF_BLOCKS, 72),
        MULTICAST => (&OF_MULTICAST_BLOCKS, 72),
        SM_INFO => (&OF_MANAGERS, 25),
        LINK => (&OF_LINKS, 6),
        GUID_INFO => (&OF_GUIDS, 72),
        P_KEYS => (&OF_P_KEYS, 72),
        _ => return Err(status::ATTRIBUTE),
    };
    let mask = request.components();
    let template = request.record();
    // With this bit of the modifier, ports match that have at least the capabilities stated.
    let is_subset = request.attribute() == PORT_INFO && request.modifier() >> 31 != 0;
    let wanted = port_info::CAPABILITIES.get(&template[4..]);
    let has_capabilities = |record: &[u8]| {
        let has = port_info::CAPABILITIES.get(&record[4..]);
        !is_subset || mask & CAPABILITIES == 0 || has & wanted == wanted
    };
    let mut found = Vec::new();
    let mut add = |record: Vec<u8>| {
        let compared = match is_subset {
            true => mask & !CAPABILITIES,
            false => mask,
        };
        let is_one = request.attribute() != PORT_INFO || has_capabilities(&record);
        if is_one && matches(components, compared, template, &record) {
            found.push(record);
        }
    };
    match request.attribute() {
        SM_INFO => {
            let lid = sm_lid(fabric, &manager);
            let mut record = vec![0; 25];
            record[..2].copy_from_slice(&lid.to_be_bytes());
            record[4..25].copy_from_slice(&manager[..21]);
            add(record);
        }
        number => {
            for node in &fabric.nodes {
                of_node(fabric, node, number, size, &mut add);
            }
        }
    }
    Ok((size, found))
}

fn sm_lid(fabric: &Fabric, manager: &[u8]) -> u16 {
    let end = fabric.end_of_guid(sm_info::GUID.get(manager));
    end.and_then(|end| fabric.port(end)).map_or(0, Port::lid)
}

/// Adds the records of a node.
fn of_node(fabric: &Fabric, node: &Node, number: u16, size: usize, add: &mut impl FnMut(Vec<u8>)) {
    let is_switch = node.kind == Kind::Switch;
    // An adapter's port without a link is out of service.
    let lid_of = |port: u8| {
        let addressed = node.port(node.addressed(port));
        let in_service = addressed.filter(|port| is_switch || port.is_linked());
        in_service.map_or(0, Port::lid)
    };
    let begin = |lid: u16| {
        let mut record = vec![0; size];
        record[..2].copy_from_slice(&lid.to_be_bytes());
        record
    };
    let addressed = |port: &u8| lid_of(*port) != 0 && (!is_switch || *port == 0);
    let numbers = || node.numbered().map(|(port, _)| port);
    match number {
        NODE => {
            for port in numbers().filter(addressed) {
                let mut record = begin(lid_of(port));
                node_info(node, port, &mut record[4..]);
                record[44..108].copy_from_slice(&node.description);
                add(record);
            }
        }
        PORT_INFO => {
            for (port, this) in node.numbered().filter(|(port, _)| lid_of(*port) != 0) {
                let mut record = begin(lid_of(port));
                record[2] = port;
                record[4..].copy_from_slice(&this.info);
                port_info::LOCAL_PORT.set(&mut record[4..], port.into());
                // The management key stays secret.
                port_info::M_KEY.set(&mut record[4..], 0);
                add(record);
            }
        }
        SWITCH_INFO | LINEAR => {
            let Some(forwarding) = &node.forwarding else {
                return;
            };
            if lid_of(0) == 0 {
                return;
            }
            if number == SWITCH_INFO {
                let mut record = begin(lid_of(0));
                record[4..].copy_from_slice(&forwarding.info);
                return add(record);
            }
            let top = switch_info::LINEAR_TOP.get(&forwarding.info) as usize;
            for block in 0..=top / 64 {
                let mut record = begin(lid_of(0));
                record[2..4].copy_from_slice(&(block as u16).to_be_bytes());
                for (at, port) in record[8..].iter_mut().enumerate() {
                    let set = forwarding.linear.get(block * 64 + at);
                    *port = set.copied().unwrap_or(NO_PORT);
                }
                add(record);
            }
        }
        MULTICAST => {
            let tables = node.forwarding.iter().filter(|_| lid_of(0) != 0);
            for ((block, position), ports) in tables.flat_map(|table| &table.multicast) {
                let mut record = begin(lid_of(0));
                let place = u16::from(*position) << 12 | block;
                record[2..4].copy_from_slice(&place.to_be_bytes());
                record[8..].copy_from_slice(ports);
                add(record);
            }
        }
        LINK => {
            for (port, this) in node.numbered() {
                let Some(peer) = this.peer.filter(|_| this.is_linked()) else {
                    continue;
                };
                let to = fabric.nodes.get(peer.node as usize);
                let to = to.and_then(|node| node.port(node.addressed(peer.port)));
                let mut record = begin(lid_of(port));
                record[2..4].copy_from_slice(&[port, peer.port]);
                record[4..6].copy_from_slice(&to.map_or(0, Port::lid).to_be_bytes());
                add(record);
            }
        }
        GUID_INFO => {
            for (port, this) in node.numbered().filter(|(port, _)| addressed(port)) {
                let cap = port_info::GUID_CAP.get(&this.info) as usize;
                for block in 0..cap.div_ceil(8) {
                    let mut record = begin(lid_of(port));
                    record[2] = block as u8;
                    for (at, guid) in record[8..].as_chunks_mut::<8>().0.iter_mut().enumerate() {
                        *guid = this.guid_at(block * 8 + at).to_be_bytes();
                    }
                    add(record);
                }
            }
        }
        _ => {
            for (port, this) in node.numbered().filter(|(port, _)| lid_of(*port) != 0) {
                let set = this.tables.as_ref().map_or(0, |tables| tables.p_keys.len());
                let blocks = match is_switch {
                    true => usize::from(SWITCH_PARTITIONS) / 32,
                    false => set.div_ceil(32).max(1),
                };
                for block in 0..blocks {
                    let mut record = begin(lid_of(port));
                    record[2..4].copy_from_slice(&(block as u16).to_be_bytes());
                    record[4] = port;
                    for (at, key) in record[8..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                        *key = this.p_key((block * 32 + at) as u16).to_be_bytes();
                    }
                    add(record);
                }
            }
        }
    }
}

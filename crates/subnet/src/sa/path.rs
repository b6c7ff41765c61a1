//! Path records: the path between two ports, as the forwarding tables give it.

use super::record::{Component, at, bit, matches};
use super::{MOST_RECORDS, Records};
use crate::attribute::port_info::{self, state};
use crate::fabric::{End, Fabric, Kind, Port};
use crate::field::Field;
use crate::mad::{Mad, sa_status};

/// Number of the attribute.
pub const NUMBER: u16 = 0x35;
const SIZE: usize = 64;

const DGID_PREFIX: Field = Field::at_byte(8, 64);
const DGID_GUID: Field = Field::at_byte(16, 64);
const SGID_PREFIX: Field = Field::at_byte(24, 64);
const SGID_GUID: Field = Field::at_byte(32, 64);
const DLID: Field = Field::at_byte(40, 16);
const SLID: Field = Field::at_byte(42, 16);
const REVERSIBLE: Field = Field::at_byte(49, 1);
const NUMBER_OF_PATHS: Field = Field::new(49 * 8 + 1, 7);
const P_KEY: Field = Field::at_byte(50, 16);
const MTU: Field = Field::at_byte(54, 8);
const RATE: Field = Field::at_byte(55, 8);
const LIFE_TIME: Field = Field::at_byte(56, 8);
/// Bits of the component mask.
const HAS_DGID: u64 = 1 << 2;
const HAS_SGID: u64 = 1 << 3;
const HAS_DLID: u64 = 1 << 4;
const HAS_SLID: u64 = 1 << 5;
const HAS_P_KEY: u64 = 1 << 13;
/// Selector of MTU, rate and life time: exactly this.
const EXACTLY: u64 = 2 << 6;
/// Code of the life time of packets: 4.096 us times two to this power.
const LIFE: u64 = 18;

const COMPONENTS: [Component; 16] = [
    Component::Reserved,
    Component::Reserved,
    Component::Bytes(8, 16),
    Component::Bytes(24, 16),
    at(40, 16),
    at(42, 16),
    // As with OpenSM, every path may be asked for as one for raw packets.
    Component::Reserved,
    Component::Reserved,
    // Flow label, hop limit and traffic class are the asker's to choose within a subnet.
    Component::Reserved,
    Component::Reserved,
    Component::Reserved,
    // Every path is reversible; the number of paths limits the answer.
    Component::Reserved,
    Component::Reserved,
    // The partition is chosen by its key, full or limited.
    Component::Reserved,
    Component::Reserved,
    bit(52, 12, 4),
];

/// Returns the code of a rate in path records for a port: from width and speed in use.
pub(crate) fn rate_code(port: &Port) -> u64 {
    let lanes = match port_info::WIDTH_ACTIVE.get(&port.info) {
        1 => 0,
        16 => 1,
        4 => 3,
        8 => 4,
        _ => 2,
    };
    let speed = match (
        port_info::EXTENDED_2_ACTIVE.get(&port.info),
        port_info::EXTENDED_ACTIVE.get(&port.info),
        port_info::SPEED_ACTIVE.get(&port.info),
    ) {
        (0, 0, 1) => 0,
        (0, 0, 2) => 1,
        (0, 0, _) => 2,
        (0, 1, _) => 3,
        (0, 2, _) => 4,
        (0, 4, _) => 5,
        (0, ..) => 6,
        _ => 7,
    };
    // By speed from SDR to XDR, then 1, 2, 4, 8, 12 lanes; opensm's ib_types.h lists the codes. An
    // odd combination has the next lower one.
    const CODES: [[u64; 5]; 8] = [
        [2, 5, 3, 6, 4],
        [5, 3, 6, 7, 8],
        [3, 6, 7, 9, 10],
        [11, 19, 12, 13, 14],
        [15, 20, 16, 17, 18],
        [20, 16, 17, 21, 22],
        [16, 17, 21, 23, 24],
        [17, 21, 23, 25, 25],
    ];
    CODES[speed][lanes]
}

/// Answers a query. Both ends may be left open; more than [`MOST_RECORDS`] pairs are refused.
pub(super) fn query(fabric: &Fabric, request: &Mad) -> Records {
    let mask = request.components();
    let template = request.record();
    let ends: Vec<End> = fabric
        .ends()
        .filter(|end| {
            let node = &fabric.nodes[end.node as usize];
            node.addressed(end.port) == end.port
                && fabric.port(*end).is_some_and(|port| {
                    port.lid() != 0 && (port.state() == state::ACTIVE || node.kind == Kind::Switch)
                })
        })
        .collect();
    let side = |has_gid: u64, guid: Field, has_lid: u64, lid: Field| -> Result<Vec<End>, u16> {
        if mask & has_gid != 0 {
            let wanted = fabric.end_of_guid(guid.get(template));
            let wanted = wanted.filter(|end| ends.contains(end));
            return wanted.map(|end| vec![end]).ok_or(sa_status::INVALID_GID);
        }
        if mask & has_lid == 0 {
            return Ok(ends.clone());
        }
        let wanted = lid.get(template) as u16;
        let has_lid = |end: &&End| fabric.port(**end).is_some_and(|port| port.has_lid(wanted));
        Ok(ends.iter().filter(has_lid).copied().collect())
    };
    let sources = side(HAS_SGID, SGID_GUID, HAS_SLID, SLID)?;
    let targets = side(HAS_DGID, DGID_GUID, HAS_DLID, DLID)?;
    if sources.len() * targets.len() > MOST_RECORDS {
        return Err(super::NO_RESOURCES);
    }
    let p_key = (mask & HAS_P_KEY != 0).then(|| P_KEY.get(template) as u16);
    let mut found = Vec::new();
    for source in &sources {
        for target in &targets {
            let Some(record) = path(fabric, *source, *target, p_key) else {
                continue;
            };
            if matches(&COMPONENTS, mask, template, &record) {
                found.push(record);
            }
        }
    }
    Ok((SIZE, found))
}

/// Returns the record of a path, in the first common partition or the wanted one; `None` if there
/// is none, or the tables do not lead to its end.
fn path(fabric: &Fabric, source: End, target: End, wanted: Option<u16>) -> Option<Vec<u8>> {
    let (from, to) = (fabric.port(source)?, fabric.port(target)?);
    let p_key = match source == target {
        true if wanted.is_some_and(|wanted| !from.has_partition(wanted)) => return None,
        true => wanted.unwrap_or(from.p_key(0)),
        false => from.common_p_key(to, wanted)?,
    };
    let narrowest = fabric.narrowest(source, target)?;
    let mut record = vec![0; SIZE];
    for (field, value) in [
        (DGID_PREFIX, port_info::GID_PREFIX.get(&to.info)),
        (DGID_GUID, to.guid),
        (SGID_PREFIX, port_info::GID_PREFIX.get(&from.info)),
        (SGID_GUID, from.guid),
        (DLID, to.lid().into()),
        (SLID, from.lid().into()),
        (REVERSIBLE, 1),
        (NUMBER_OF_PATHS, 1),
        (P_KEY, p_key.into()),
        (MTU, EXACTLY | narrowest.0),
        (RATE, EXACTLY | narrowest.1),
        (LIFE_TIME, EXACTLY | LIFE),
    ] {
        field.set(&mut record, value);
    }
    Some(record)
}

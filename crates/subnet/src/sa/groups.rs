//! Multicast groups: MCMemberRecord.

use std::collections::BTreeMap;

use super::Records;
use super::record::{Component, at, bit, matches};
use crate::fabric::Fabric;
use crate::field::Field;
use crate::mad::{Mad, sa_status};

/// Number of the attribute.
pub const NUMBER: u16 = 0x38;
const SIZE: usize = 52;

const MGID: std::ops::Range<usize> = 0..16;
const PORT_GID: std::ops::Range<usize> = 16..32;
const PORT_GUID: Field = Field::at_byte(24, 64);
const MLID: Field = Field::at_byte(36, 16);
const JOIN_STATE: Field = Field::new(48 * 8 + 4, 4);
/// Bits of the component mask.
const HAS_MGID: u64 = 1;
const HAS_PORT_GID: u64 = 1 << 1;
const HAS_JOIN_STATE: u64 = 1 << 16;
/// Components of a request that creates a group: Q_Key, traffic class, P_Key, SL, flow label.
const TO_CREATE: u64 = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
/// The first LID for multicast.
const FIRST_MLID: u16 = 0xc000;
/// Maximum number of groups: the LIDs that a multicast table of a switch can have.
pub const MOST_GROUPS: usize = 4096;
/// Full members.
const FULL: u64 = 1;

const COMPONENTS: [Component; 17] = [
    Component::Bytes(0, 16),
    Component::Bytes(16, 16),
    at(32, 32),
    at(36, 16),
    Component::Reserved,
    bit(38, 2, 6),
    at(39, 8),
    at(40, 16),
    Component::Reserved,
    bit(42, 2, 6),
    Component::Reserved,
    bit(43, 2, 6),
    at(44, 4),
    bit(44, 4, 20),
    at(47, 8),
    at(48, 4),
    bit(48, 4, 4),
];

/// A group: the record that describes it, and its members with their join states.
#[derive(Debug, Clone)]
struct Group {
    record: Vec<u8>,
    members: BTreeMap<[u8; 16], u64>,
}

/// The groups of a subnet.
#[derive(Debug, Clone)]
pub(super) struct Groups(BTreeMap<[u8; 16], Group>);

impl Default for Groups {
    /// Returns the group that every subnet has: IPoIB's broadcast group of the default partition
    /// (RFC 4391), as OpenSM makes it.
    fn default() -> Self {
        let mut record = vec![0; SIZE];
        let broadcast = [
            0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        record[MGID].copy_from_slice(&broadcast);
        Field::at_byte(32, 32).set(&mut record, 0x0b1b);
        MLID.set(&mut record, FIRST_MLID.into());
        // Exactly 2048 bytes, 10 Gbit/s, a life time of 2^18 times 4.096 us.
        record[38] = 0x84;
        record[40..42].copy_from_slice(&[0xff, 0xff]);
        record[42] = 0x83;
        record[43] = 0x80 | 18;
        // Scope: link-local.
        record[48] = 0x20;
        let members = BTreeMap::new();
        Groups(BTreeMap::from([(broadcast, Group { record, members })]))
    }
}

fn mgid(record: &[u8]) -> [u8; 16] {
    let mut mgid = [0; 16];
    mgid.copy_from_slice(&record[MGID]);
    mgid
}

fn port_gid(record: &[u8]) -> [u8; 16] {
    let mut gid = [0; 16];
    gid.copy_from_slice(&record[PORT_GID]);
    gid
}

impl Groups {
    /// Returns the members that match. A group without members is a record without a port.
    pub fn query(&self, request: &Mad) -> (usize, Vec<Vec<u8>>) {
        let mut found = Vec::new();
        for group in self.0.values() {
            let members = group
                .members
                .iter()
                .map(|(gid, state)| group.member(gid, *state));
            let empty = group.members.is_empty().then(|| group.record.clone());
            let wanted = |record: &Vec<u8>| {
                matches(&COMPONENTS, request.components(), request.record(), record)
            };
            found.extend(members.chain(empty).filter(wanted));
        }
        (SIZE, found)
    }

    /// Adds a member, and makes the group if the request has all that a new group needs.
    pub fn join(&mut self, fabric: &Fabric, request: &Mad) -> Records {
        const NEEDED: u64 = HAS_MGID | HAS_PORT_GID | HAS_JOIN_STATE;
        let (mask, asked) = (request.components(), request.record());
        let state = JOIN_STATE.get(asked);
        if mask & NEEDED != NEEDED || state == 0 || asked[0] != 0xff {
            return Err(sa_status::REQUEST_INVALID);
        }
        if fabric.end_of_guid(PORT_GUID.get(asked)).is_none() {
            return Err(sa_status::INVALID_GID);
        }
        let (mgid, gid) = (mgid(asked), port_gid(asked));
        if !self.0.contains_key(&mgid) {
            if mask & TO_CREATE != TO_CREATE || state & FULL == 0 {
                return Err(sa_status::REQUEST_INVALID);
            }
            self.create(mgid, asked)?;
        }
        let Some(group) = self.0.get_mut(&mgid) else {
            return Err(sa_status::REQUEST_INVALID);
        };
        let others = mask & !(HAS_PORT_GID | HAS_JOIN_STATE);
        if !matches(&COMPONENTS, others, asked, &group.record) {
            return Err(sa_status::REQUEST_INVALID);
        }
        let joined = group.members.entry(gid).or_insert(0);
        *joined |= state;
        let joined = *joined;
        let record = group.member(&gid, joined);
        Ok((SIZE, vec![record]))
    }

    fn create(&mut self, mgid: [u8; 16], asked: &[u8]) -> Result<(), u16> {
        let used = |lid: u16| {
            self.0
                .values()
                .any(|group| MLID.get(&group.record) == lid.into())
        };
        let free = (FIRST_MLID..).take(MOST_GROUPS).find(|lid| !used(*lid));
        let lid = free.ok_or(super::NO_RESOURCES)?;
        let mut record = asked[..SIZE].to_vec();
        record[PORT_GID].fill(0);
        MLID.set(&mut record, lid.into());
        JOIN_STATE.set(&mut record, 0);
        for (byte, default) in [(38, 4), (42, 3), (43, 18)] {
            let value = record[byte] & 0x3f;
            record[byte] = 0x80 | if value == 0 { default } else { value };
        }
        let members = BTreeMap::new();
        self.0.insert(mgid, Group { record, members });
        Ok(())
    }

    /// Ends a membership. A group that programs made ends with its last full member.
    pub fn leave(&mut self, request: &Mad) -> Records {
        let asked = request.record();
        let (mgid, gid) = (mgid(asked), port_gid(asked));
        let state = JOIN_STATE.get(asked);
        let group = self.0.get_mut(&mgid).ok_or(sa_status::REQUEST_INVALID)?;
        let joined = group
            .members
            .get_mut(&gid)
            .ok_or(sa_status::REQUEST_INVALID)?;
        if *joined & state == 0 {
            return Err(sa_status::REQUEST_INVALID);
        }
        *joined &= !state;
        let left = *joined;
        if left == 0 {
            group.members.remove(&gid);
        }
        let record = group.member(&gid, left);
        let is_used = group.members.values().any(|state| state & FULL != 0);
        if !is_used && MLID.get(&group.record) != u64::from(FIRST_MLID) {
            self.0.remove(&mgid);
        }
        Ok((SIZE, vec![record]))
    }
}

impl Group {
    fn member(&self, gid: &[u8; 16], state: u64) -> Vec<u8> {
        let mut record = self.record.clone();
        record[PORT_GID].copy_from_slice(gid);
        JOIN_STATE.set(&mut record, state);
        record
    }
}

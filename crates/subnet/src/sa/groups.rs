//! Multicast groups: MCMemberRecord.

use std::collections::BTreeMap;

use super::Records;
use super::event::Event;
use super::record::{Component, at, bit, matches};
use crate::attribute::port_info;
use crate::fabric::{FIRST_MULTICAST, Fabric};
use crate::field::Field;
use crate::mad::{Mad, sa_status};
use crate::multicast::Member;
use crate::partitions::{Broadcast, DEFAULT, FULL as FULL_MEMBER, Partition};

/// Number of the attribute.
pub const NUMBER: u16 = 0x38;
const SIZE: usize = 52;

const MGID: std::ops::Range<usize> = 0..16;
const PORT_GID: std::ops::Range<usize> = 16..32;
const PORT_GUID: Field = Field::at_byte(24, 64);
const MLID: Field = Field::at_byte(36, 16);
const P_KEY: Field = Field::at_byte(40, 16);
const SCOPE: Field = Field::at_byte(48, 4);
const JOIN_STATE: Field = Field::new(48 * 8 + 4, 4);
/// Bits of the component mask.
const HAS_MGID: u64 = 1;
const HAS_PORT_GID: u64 = 1 << 1;
const HAS_JOIN_STATE: u64 = 1 << 16;
/// Components of a request that creates a group: Q_Key, traffic class, P_Key, SL, flow label.
const TO_CREATE: u64 = 1 << 2 | 1 << 6 | 1 << 7 | 1 << 12 | 1 << 13;
/// Maximum number of groups: the LIDs that a multicast table of a switch can have.
pub const MOST_GROUPS: usize = 4096;
/// Scope of addresses for one subnet.
const LINK_LOCAL: u8 = 2;
/// Full members, and those that only send: either may make a group, and it lasts as long as one.
const FULL: u64 = 0b1001;
/// Members that receive packets: full ones and non-members.
const RECEIVES: u64 = 0b11;

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
    /// Whether the group stays without members.
    is_kept: bool,
}

/// The groups of a subnet.
#[derive(Debug, Clone)]
pub(super) struct Groups {
    groups: BTreeMap<[u8; 16], Group>,
    by_lid: BTreeMap<u16, [u8; 16]>,
    /// Number of addresses that were chosen.
    chosen: u32,
    /// Groups that were made or deleted.
    events: Vec<Event>,
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

/// Returns the LID of the group whose membership a request changed, from the answer.
pub(super) fn changed(answer: &Mad) -> u16 {
    MLID.get(answer.record()) as u16
}

impl Groups {
    /// Returns the groups of a new subnet: IPoIB's broadcast groups of the partitions (RFC 4391);
    /// without partitions that of the default one, as OpenSM makes it.
    pub fn new(partitions: &[Partition]) -> Groups {
        let mut all = Groups {
            groups: BTreeMap::new(),
            by_lid: BTreeMap::new(),
            chosen: 0,
            events: Vec::new(),
        };
        match partitions {
            [] => all.broadcast(DEFAULT, &Broadcast::default()),
            _ => {
                for partition in partitions {
                    if let Some(broadcast) = &partition.broadcast {
                        all.broadcast(partition.p_key, broadcast);
                    }
                }
            }
        }
        all
    }

    /// Makes the broadcast group of a partition.
    fn broadcast(&mut self, p_key: u16, properties: &Broadcast) {
        let p_key = p_key | FULL_MEMBER;
        let mut mgid = [
            0xff, 0x10, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
        ];
        mgid[1] |= properties.scope;
        mgid[4..6].copy_from_slice(&p_key.to_be_bytes());
        let mut record = vec![0; SIZE];
        record[MGID].copy_from_slice(&mgid);
        // Exactly this MTU and rate, a life time of 2^18 times 4.096 us.
        for (field, value) in [
            (Field::at_byte(32, 32), properties.q_key.into()),
            (Field::at_byte(38, 8), 0x80 | u64::from(properties.mtu)),
            (Field::at_byte(39, 8), properties.traffic_class.into()),
            (P_KEY, p_key.into()),
            (Field::at_byte(42, 8), 0x80 | u64::from(properties.rate)),
            (Field::at_byte(43, 8), 0x80 | 18),
            (Field::at_byte(44, 4), properties.service_level.into()),
            (Field::new(44 * 8 + 4, 20), properties.flow_label.into()),
            (SCOPE, properties.scope.into()),
        ] {
            field.set(&mut record, value);
        }
        // There are fewer partitions than LIDs.
        let made = self.add(mgid, record, true);
        debug_assert!(made.is_ok());
    }

    /// Adds a group with the lowest free LID.
    fn add(&mut self, mgid: [u8; 16], mut record: Vec<u8>, is_kept: bool) -> Result<(), u16> {
        let mut all = (FIRST_MULTICAST..).take(MOST_GROUPS);
        // LIDs before the last one are used until one is left out.
        let free = match self.by_lid.last_key_value() {
            Some((last, _)) if usize::from(last - FIRST_MULTICAST) + 1 == self.by_lid.len() => {
                all.nth(self.by_lid.len())
            }
            _ => all.find(|lid| !self.by_lid.contains_key(lid)),
        };
        let lid = free.ok_or(super::NO_RESOURCES)?;
        MLID.set(&mut record, lid.into());
        self.by_lid.insert(lid, mgid);
        let group = Group {
            record,
            members: BTreeMap::new(),
            is_kept,
        };
        self.groups.insert(mgid, group);
        Ok(())
    }

    /// Returns the members that match. A group without members is a record without a port.
    pub fn query(&self, request: &Mad) -> (usize, Vec<Vec<u8>>) {
        let mut found = Vec::new();
        for group in self.groups.values() {
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

    /// Returns the groups that were made or deleted since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the LIDs of the groups.
    pub fn lids(&self) -> Vec<u16> {
        self.by_lid.keys().copied().collect()
    }

    /// Returns the members of the group with a LID; none if there is no such group.
    pub fn members(&self, lid: u16) -> Vec<Member> {
        let group = self.by_lid.get(&lid).and_then(|mgid| self.groups.get(mgid));
        let members = group.iter().flat_map(|group| &group.members);
        members
            .map(|(gid, state)| Member {
                guid: Field::at_byte(8, 64).get(gid),
                receives: state & RECEIVES != 0,
            })
            .collect()
    }

    /// Adds a member, and makes the group if the request has all that a new group needs.
    pub fn join(&mut self, fabric: &Fabric, request: &Mad) -> Records {
        const NEEDED: u64 = HAS_MGID | HAS_PORT_GID | HAS_JOIN_STATE;
        let (mask, asked) = (request.components(), request.record());
        let state = JOIN_STATE.get(asked);
        let (mut mgid, gid) = (mgid(asked), port_gid(asked));
        let is_chosen = mgid == [0; 16];
        if mask & NEEDED != NEEDED || state == 0 || !is_chosen && mgid[0] != 0xff {
            return Err(sa_status::REQUEST_INVALID);
        }
        let port = fabric.end_of_guid(PORT_GUID.get(asked));
        let port = port.and_then(|end| fabric.port(end));
        let port = port.ok_or(sa_status::INVALID_GID)?;
        let known = self.groups.get(&mgid).map(|group| &group.record);
        let p_key = P_KEY.get(known.map_or(asked, Vec::as_slice)) as u16;
        let others = mask & !(HAS_PORT_GID | HAS_JOIN_STATE);
        let is_possible = match known {
            Some(record) => matches(&COMPONENTS, others, asked, record),
            None => mask & TO_CREATE == TO_CREATE && state & FULL != 0,
        };
        if !is_possible || !port.has_partition(p_key) {
            return Err(sa_status::REQUEST_INVALID);
        }
        if known.is_none() {
            if is_chosen {
                let scope = SCOPE.get(asked) as u8;
                mgid = self.choose(scope, port_info::GID_PREFIX.get(&port.info));
            }
            self.create(mgid, asked)?;
        }
        let group = self.groups.get_mut(&mgid);
        let group = group.ok_or(sa_status::REQUEST_INVALID)?;
        let joined = group.members.entry(gid).or_insert(0);
        *joined |= state;
        let joined = *joined;
        let record = group.member(&gid, joined);
        Ok((SIZE, vec![record]))
    }

    /// Returns an address of no group, as OpenSM chooses them: a transient one with the prefix of
    /// the subnet and a number (15.2.5.17.2).
    fn choose(&mut self, scope: u8, prefix: u64) -> [u8; 16] {
        let mut mgid = [0; 16];
        let scope = if scope == 0 { LINK_LOCAL } else { scope };
        mgid[..4].copy_from_slice(&[0xff, 0x10 | scope, 0xa0, 0x1b]);
        mgid[4..12].copy_from_slice(&prefix.to_be_bytes());
        // There are fewer groups than numbers.
        loop {
            self.chosen = self.chosen.wrapping_add(1);
            mgid[12..].copy_from_slice(&self.chosen.to_be_bytes());
            if !self.groups.contains_key(&mgid) {
                return mgid;
            }
        }
    }

    fn create(&mut self, mgid: [u8; 16], asked: &[u8]) -> Result<(), u16> {
        let mut record = asked[..SIZE].to_vec();
        record[MGID].copy_from_slice(&mgid);
        record[PORT_GID].fill(0);
        JOIN_STATE.set(&mut record, 0);
        SCOPE.set(&mut record, u64::from(mgid[1] & 0xf));
        for (byte, default) in [(38, 4), (42, 3), (43, 18)] {
            let value = record[byte] & 0x3f;
            record[byte] = 0x80 | if value == 0 { default } else { value };
        }
        let p_key = P_KEY.get(&record) as u16;
        self.add(mgid, record, false)?;
        self.events.push(Event::Created(mgid, p_key));
        Ok(())
    }

    /// Ends a membership. A group that programs made ends with its last full member, one that
    /// only sends included.
    pub fn leave(&mut self, request: &Mad) -> Records {
        let asked = request.record();
        let (mgid, gid) = (mgid(asked), port_gid(asked));
        let state = JOIN_STATE.get(asked);
        let group = self.groups.get_mut(&mgid);
        let group = group.ok_or(sa_status::REQUEST_INVALID)?;
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
        if !is_used && !group.is_kept {
            let p_key = P_KEY.get(&group.record) as u16;
            self.events.push(Event::Deleted(mgid, p_key));
            self.by_lid.remove(&group.lid());
            self.groups.remove(&mgid);
        }
        Ok((SIZE, vec![record]))
    }
}

impl Group {
    fn lid(&self) -> u16 {
        MLID.get(&self.record) as u16
    }

    fn member(&self, gid: &[u8; 16], state: u64) -> Vec<u8> {
        let mut record = self.record.clone();
        record[PORT_GID].copy_from_slice(gid);
        JOIN_STATE.set(&mut record, state);
        record
    }
}

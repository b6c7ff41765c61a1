//! Subnet administration (15.2): answers queries about the subnet, from its state.

mod event;
mod groups;
mod inform;
mod path;
mod record;
mod services;
mod tables;

use std::collections::BTreeSet;

use crate::agent::class_port_info;
use crate::attribute::number::CLASS_PORT_INFO;
use crate::fabric::Fabric;
use crate::mad::{Mad, SA_DATA, SIZE, method, sa_status, status};
use crate::multicast::Member;
use crate::partitions::Partition;
use crate::route::Packet;

pub(crate) use event::{Event, Notice};
pub(crate) use path::rate_code;

use groups::Groups;
use inform::Subscriptions;
use services::Services;

/// Class version of subnet administration.
const VERSION: u8 = 2;
/// Data of a segment in bytes.
const SEGMENT: usize = SIZE - SA_DATA;
/// Bytes of the administration header that each segment's payload length includes.
const HEADER: usize = 20;
/// Maximum number of records in an answer.
pub const MOST_RECORDS: usize = 1 << 18;
/// Status of a request that exceeds this.
const NO_RESOURCES: u16 = 0x0100;
/// Capabilities: Get and Set of notices, groups of datagrams, masks in queries of capabilities.
const CAPABILITIES: u64 = 1 << 1 | 1 << 9 | 1 << 13;
/// Second capabilities: full members of groups that only send.
const CAPABILITIES_2: u64 = 1 << 12;

/// The result of a query: the size of a record, and the records; or a status.
type Records = Result<(usize, Vec<Vec<u8>>), u16>;

/// What administration keeps: groups, services and subscriptions that programs registered.
#[derive(Debug, Clone)]
pub(crate) struct Administration {
    groups: Groups,
    services: Services,
    subscriptions: Subscriptions,
}

impl Administration {
    /// Returns the administration of a new subnet, with the groups of its partitions.
    pub fn new(partitions: &[Partition]) -> Administration {
        Administration {
            groups: Groups::new(partitions),
            services: Services::default(),
            subscriptions: Subscriptions::default(),
        }
    }

    /// Answers a request; `None` if it is no request.
    pub fn answer(
        &mut self,
        fabric: &mut Fabric,
        packet: &Packet,
        sm_info: [u8; 24],
    ) -> Option<Mad> {
        let request = &packet.mad;
        if request.class_version() != VERSION {
            return Some(request.response(status::VERSION));
        }
        match request.method() {
            method::GET | method::SET | method::GET_TABLE | method::DELETE => {}
            method if method & method::RESPONSE != 0 => return None,
            _ => return Some(request.response(status::METHOD)),
        }
        if request.attribute() == CLASS_PORT_INFO {
            if request.method() != method::GET {
                return Some(request.response(status::ATTRIBUTE));
            }
            let mut answer = request.response(0);
            let block = &mut answer.bytes_mut()[SA_DATA..];
            class_port_info(VERSION, CAPABILITIES, CAPABILITIES_2, block);
            answer.set_record_size(72);
            return Some(answer);
        }
        let records = match request.method() {
            method::GET | method::GET_TABLE => self.query(fabric, packet, sm_info),
            method::SET => self.register(fabric, packet, true),
            _ => self.register(fabric, packet, false),
        };
        Some(match (records, request.method()) {
            (Err(refused), _) => request.response(refused),
            (Ok((size, records)), method::GET_TABLE) => table(request, size, &records),
            (Ok((size, records)), _) => match &records[..] {
                [] => request.response(sa_status::NO_RECORDS),
                [record] => one(request, size, record),
                _ => request.response(sa_status::TOO_MANY_RECORDS),
            },
        })
    }

    /// Returns the LID of the multicast group whose members a request has changed.
    pub fn changed(request: &Mad, answer: &Mad) -> Option<u16> {
        let is_change = request.attribute() == groups::NUMBER
            && matches!(request.method(), method::SET | method::DELETE)
            && answer.status() == 0;
        is_change.then(|| groups::changed(answer))
    }

    /// Returns the LIDs of the multicast groups.
    pub fn groups(&self) -> Vec<u16> {
        self.groups.lids()
    }

    /// Returns the members of the multicast group with a LID.
    pub fn members(&self, lid: u16) -> Vec<Member> {
        self.groups.members(lid)
    }

    /// Returns the reports of a notice, from the manager's port with this LID.
    pub fn reports(&mut self, fabric: &Fabric, notice: &Notice, from: u16) -> Vec<Packet> {
        self.subscriptions.reports(fabric, notice, from)
    }

    /// Ends the subscriptions of queue pairs of a node.
    pub fn end_subscriptions_of(&mut self, fabric: &Fabric, node: u32, of: &BTreeSet<u32>) {
        self.subscriptions.end_of(fabric, node, of);
    }

    /// Ends the subscriptions of a port that is out of service.
    pub fn end_subscriptions(&mut self, guid: u64) {
        self.subscriptions.end(guid);
    }

    /// Returns the groups that were made or deleted since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.groups.take_events()
    }

    fn query(&self, fabric: &Fabric, packet: &Packet, sm_info: [u8; 24]) -> Records {
        let request = &packet.mad;
        match request.attribute() {
            inform::RECORD => self.subscriptions.query(fabric, packet),
            path::NUMBER => path::query(fabric, request),
            groups::NUMBER => Ok(self.groups.query(request)),
            services::NUMBER => Ok(self.services.query(request)),
            _ => tables::query(fabric, request, sm_info),
        }
    }

    fn register(&mut self, fabric: &Fabric, packet: &Packet, is_set: bool) -> Records {
        match (packet.mad.attribute(), is_set) {
            (groups::NUMBER, true) => self.groups.join(fabric, &packet.mad),
            (groups::NUMBER, false) => self.groups.leave(&packet.mad),
            (services::NUMBER, true) => self.services.register(&packet.mad),
            (services::NUMBER, false) => self.services.remove(&packet.mad),
            (inform::NUMBER, true) => self.subscriptions.set(fabric, packet),
            _ => Err(status::ATTRIBUTE),
        }
    }
}

/// Returns the size of records of this many bytes in a table.
fn padded(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Returns an answer with one record.
fn one(request: &Mad, size: usize, record: &[u8]) -> Mad {
    let mut answer = request.response(0);
    answer.set_record_size(padded(size));
    answer.bytes_mut()[SA_DATA..][..record.len()].copy_from_slice(record);
    answer
}

/// Returns an answer with a table: one datagram of any length, with the header of its first
/// segment.
fn table(request: &Mad, size: usize, records: &[Vec<u8>]) -> Mad {
    if records.len() > MOST_RECORDS {
        return request.response(NO_RESOURCES);
    }
    let size = padded(size);
    let data = size * records.len();
    let mut answer = request.response(0);
    answer.bytes_mut()[SA_DATA..].fill(0);
    answer.set_record_size(size);
    answer.resize(SA_DATA + data);
    for (at, record) in records.iter().enumerate() {
        answer.bytes_mut()[SA_DATA + at * size..][..record.len()].copy_from_slice(record);
    }
    let segments = data.div_ceil(SEGMENT).max(1);
    // Each segment repeats a part of the header (13.6.2.1).
    let payload = data + segments * HEADER;
    answer.set_segment(1, segments == 1, payload as u32);
    answer
}

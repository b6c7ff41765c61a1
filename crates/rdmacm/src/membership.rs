//! Memberships of multicast groups at the subnet administration of a fabric (15.2.5.17), as Linux'
//! `cma_join_ib_multicast` and `ib_sa` request them: a new group has service level, flow label and
//! traffic class of the broadcast group of its partition, which is asked for first. The answers
//! come to queue pair 1 of the port, which the processes of a node share; each takes those of its
//! own transactions.

use crate::abi::{AddressVector, DatagramParameters};
use crate::alarm::Alarm;
use crate::channel::Waiting;
use crate::command::attributes::QUEUE_KEY;
use crate::event::{Event, EventKind, Parameters};
use crate::identifier::Space;
use crate::path::Path;
use crate::state::State;
use verbena_fabric_protocol::{Datagram, PortState};
use verbena_hca_net::link;
use verbena_hca_os::clock;
use verbena_hca_os::errno::Errno;
use verbena_wire::mad::{Class, DATA, HEADER, Header, LENGTH, Mad, Method};

/// The queue pair of general services.
const GENERAL_SERVICES: u32 = 1;
/// The queue pair number of every group.
pub const EVERY_MEMBER: u32 = 0xff_ffff;
/// Requests before a membership fails, and the time between them in nanoseconds.
const ATTEMPTS: u32 = 3;
const PAUSE: u64 = 1_000_000_000;
/// The bits of a P_Key in which members agree, and that of full members.
const MEMBERS: u16 = 0x7fff;
const FULL_MEMBER: u16 = 0x8000;

/// Class version of subnet administration, its methods, and the number of MCMemberRecord.
const VERSION: u8 = 2;
const GET_TABLE: Method = Method(0x12);
const DELETE: Method = Method(0x15);
const RESPONSE: u8 = 0x80;
const MEMBER: u16 = 0x38;
/// Offsets in the data of a datagram.
const COMPONENTS: usize = 48 - HEADER;
const RECORD: usize = 56 - HEADER;
/// Components of MCMemberRecord.
const MGID: u64 = 1;
const PORT_GID: u64 = 1 << 1;
const Q_KEY: u64 = 1 << 2;
const MTU: u64 = 1 << 4 | 1 << 5;
const TRAFFIC_CLASS: u64 = 1 << 6;
const PARTITION: u64 = 1 << 7;
const RATE: u64 = 1 << 8 | 1 << 9;
const SERVICE_LEVEL: u64 = 1 << 12;
const FLOW_LABEL: u64 = 1 << 13;
const HOP_LIMIT: u64 = 1 << 14;
const JOIN_STATE: u64 = 1 << 16;
/// Join state of full members.
const FULL: u8 = 1;
/// Bytes of a record.
const SIZE: usize = 52;

/// MCMemberRecord.
type Record = [u8; SIZE];

/// How far a membership is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The broadcast group is asked for.
    Asks,
    /// The join waits for its answer.
    Joins,
    /// The port is a member, or may be one as an answer was lost.
    Joined,
    /// Subnet administration has refused it.
    Refused,
}

/// A membership at subnet administration.
#[derive(Clone, Debug)]
pub struct Administered {
    path: Path,
    group: [u8; 16],
    space: Space,
    stage: Stage,
    transaction: u64,
    sent: u32,
    request: [u8; LENGTH],
}

/// Returns the address of the broadcast group of a partition (RFC 4391, section 4).
fn broadcast(p_key: u16) -> [u8; 16] {
    let mut group = [
        0xff, 0x12, 0x40, 0x1b, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ];
    group[4..6].copy_from_slice(&(p_key | FULL_MEMBER).to_be_bytes());
    group
}

fn request(method: Method, transaction: u64, components: u64, record: &Record) -> [u8; LENGTH] {
    let mut data = [0; DATA];
    data[COMPONENTS..RECORD].copy_from_slice(&components.to_be_bytes());
    data[RECORD..][..SIZE].copy_from_slice(record);
    let header = Header {
        class: Class::ADMINISTRATION,
        class_version: VERSION,
        method,
        status: 0,
        class_specific: 0,
        transaction,
        attribute: MEMBER,
        modifier: 0,
    };
    let mut bytes = [0; LENGTH];
    // The buffer is as long as a datagram.
    let emitted = Mad {
        header,
        data: &data,
    }
    .emit(&mut bytes);
    debug_assert!(emitted.is_ok());
    bytes
}

/// Returns the request to join a group with the properties of the broadcast group.
fn join(membership: &Administered, transaction: u64, broadcast: &Record) -> [u8; LENGTH] {
    let mut record = *broadcast;
    record[..16].copy_from_slice(&membership.group);
    record[16..32].copy_from_slice(&membership.path.source);
    record[32..36].copy_from_slice(&QUEUE_KEY.to_be_bytes());
    let p_key = membership.path.pkey() | FULL_MEMBER;
    record[40..42].copy_from_slice(&p_key.to_be_bytes());
    record[48..].copy_from_slice(&[FULL, 0, 0, 0]);
    let mut components = MGID | PORT_GID | Q_KEY | PARTITION | JOIN_STATE;
    components |= TRAFFIC_CLASS | SERVICE_LEVEL | FLOW_LABEL;
    if membership.space == Space::Ipoib && *broadcast != [0; SIZE] {
        components |= MTU | RATE | HOP_LIMIT;
    }
    request(Method::SET, transaction, components, &record)
}

/// Returns the request to leave a group.
fn leave(membership: &Administered, transaction: u64) -> [u8; LENGTH] {
    let mut record = [0; SIZE];
    record[..16].copy_from_slice(&membership.group);
    record[16..32].copy_from_slice(&membership.path.source);
    record[48] = FULL;
    request(DELETE, transaction, MGID | PORT_GID | JOIN_STATE, &record)
}

/// Returns how the program reaches a group that has been joined.
fn address(path: &Path, record: &Record) -> DatagramParameters {
    let word = |at: usize| u16::from_be_bytes([record[at], record[at + 1]]);
    let long = |at: usize| u32::from(word(at)) << 16 | u32::from(word(at + 2));
    let mut dgid = [0; 16];
    dgid.copy_from_slice(&record[..16]);
    DatagramParameters {
        qp_num: EVERY_MEMBER,
        qkey: long(32),
        ah_attr: AddressVector {
            dgid,
            dlid: word(36),
            sl: record[44] >> 4,
            flow_label: long(44) >> 8 & 0xf_ffff,
            hop_limit: record[47],
            traffic_class: record[39],
            static_rate: record[42] & 0x3f,
            is_global: 1,
            ..path.address_vector()
        },
        ..Default::default()
    }
}

/// Returns the partition key of a port's requests: that of the default partition, as in Linux.
fn default_p_key(port: &PortState) -> u16 {
    let keys = &port.p_keys;
    let of_default = keys.iter().find(|key| **key & MEMBERS == MEMBERS);
    let first = of_default.or_else(|| keys.first());
    first.copied().unwrap_or(0)
}

/// Sends a request to the subnet administration of a port's subnet.
fn send(port: u8, data: [u8; LENGTH]) {
    let Some(fabric) = link::fabric() else {
        return;
    };
    let Some(state) = fabric.port(port) else {
        return;
    };
    fabric.send(&Datagram {
        port,
        service_level: state.sm_sl,
        lid: state.sm_lid,
        queue_pair: GENERAL_SERVICES,
        peer: GENERAL_SERVICES,
        p_key: default_p_key(state),
        data,
    });
}

impl State {
    /// Returns the number of a new transaction. The highest bit distinguishes those of adapters
    /// from those of device files.
    fn next_transaction(&mut self) -> u64 {
        self.transactions = self.transactions.wrapping_add(1);
        1 << 63 | self.transactions
    }

    /// Begins the membership of a group on a fabric, which an event reports.
    pub fn begin_membership(&mut self, id: u32, path: Path, group: [u8; 16], space: Space) {
        let transaction = self.next_transaction();
        let mut record = [0; SIZE];
        record[..16].copy_from_slice(&broadcast(path.pkey()));
        let membership = Administered {
            path,
            group,
            space,
            stage: Stage::Asks,
            transaction,
            sent: 0,
            request: request(GET_TABLE, transaction, MGID, &record),
        };
        if let Some(of_library) = self.groups.get_mut(id) {
            of_library.administered = Some(Box::new(membership));
            self.send_membership(id);
        }
    }

    /// Sends the request of a membership, again after a pause.
    fn send_membership(&mut self, id: u32) {
        let of_library = self.groups.get_mut(id);
        let Some(membership) = of_library.and_then(|one| one.administered.as_deref_mut()) else {
            return;
        };
        membership.sent += 1;
        let alarm = Alarm::Membership(id, membership.transaction);
        send(membership.path.port, membership.request);
        self.set_alarm(clock::now() + PAUSE, alarm);
    }

    /// Sends the request of a membership again, or reports that there was no answer.
    pub(crate) fn membership_is_due(&mut self, id: u32, transaction: u64) {
        let of_library = self.groups.get_mut(id);
        let Some(membership) = of_library.and_then(|one| one.administered.as_deref_mut()) else {
            return;
        };
        let is_pending = matches!(membership.stage, Stage::Asks | Stage::Joins);
        if membership.transaction != transaction || !is_pending {
            return;
        }
        if membership.sent < ATTEMPTS {
            return self.send_membership(id);
        }
        // A join may have been carried out.
        membership.stage = match membership.stage {
            Stage::Asks => Stage::Refused,
            _ => Stage::Joined,
        };
        let error = Event::plain(EventKind::MulticastError, -libc::ETIMEDOUT);
        self.report_membership(id, error);
    }

    /// Handles an answer of subnet administration, if it is to a request of this process.
    pub(crate) fn take_administration(&mut self, answer: &Datagram) {
        let Ok(mad) = Mad::parse(&answer.data) else {
            return;
        };
        let Header {
            class,
            method,
            transaction,
            status,
            ..
        } = mad.header;
        if class != Class::ADMINISTRATION || method.0 & RESPONSE == 0 {
            return;
        }
        let asked = self.groups.iter().find_map(|(id, group)| {
            let membership = group.administered.as_deref()?;
            (membership.transaction == transaction).then_some((id, membership.stage))
        });
        let mut record = [0; SIZE];
        record.copy_from_slice(&mad.data[RECORD..][..SIZE]);
        match asked {
            Some((id, Stage::Asks)) => self.join_membership(id, status, &record),
            Some((id, Stage::Joins)) => self.joined_membership(id, status, &record),
            _ => {}
        }
    }

    /// Joins, with the properties of the broadcast group if there is one.
    fn join_membership(&mut self, id: u32, status: u16, record: &Record) {
        let transaction = self.next_transaction();
        let of_library = self.groups.get_mut(id);
        let Some(membership) = of_library.and_then(|one| one.administered.as_deref_mut()) else {
            return;
        };
        let is_broadcast = status == 0 && record[..16] == broadcast(membership.path.pkey());
        let properties = if is_broadcast { *record } else { [0; SIZE] };
        membership.request = join(membership, transaction, &properties);
        membership.stage = Stage::Joins;
        membership.transaction = transaction;
        membership.sent = 0;
        self.send_membership(id);
    }

    /// Reports the answer to a join.
    fn joined_membership(&mut self, id: u32, status: u16, record: &Record) {
        let of_library = self.groups.get_mut(id);
        let Some(membership) = of_library.and_then(|one| one.administered.as_deref_mut()) else {
            return;
        };
        let is_joined = status == 0;
        membership.stage = match is_joined {
            true => Stage::Joined,
            false => Stage::Refused,
        };
        let event = match is_joined {
            true => Event {
                kind: EventKind::MulticastJoin,
                status: 0,
                parameters: Parameters::Datagram(Box::new(address(&membership.path, record))),
            },
            false => Event::plain(EventKind::MulticastError, -Errno::EINVAL.0),
        };
        self.report_membership(id, event);
    }

    fn report_membership(&mut self, id: u32, event: Event) {
        let owner = self.groups.get(id).map(|group| group.identifier);
        let identifier = owner.and_then(|owner| self.identifiers.get(owner));
        let channel = identifier.map(|identifier| identifier.channel);
        if let (Some(owner), Some(channel)) = (owner, channel)
            && let Some(channel) = self.channels.get_mut(&channel)
        {
            channel.push(Waiting {
                owner,
                group: Some(id),
                request: None,
                event,
            });
        }
    }

    /// Removes a membership. The port leaves the group unless another identifier of this process
    /// is in it; the fabric counts those of other processes.
    pub fn remove_membership(&mut self, id: u32) {
        let removed = self.groups.remove(id);
        let Some(membership) = removed.and_then(|group| group.administered) else {
            return;
        };
        let may_be_member = |one: &Administered| matches!(one.stage, Stage::Joins | Stage::Joined);
        let is_same = |other: &Administered| {
            (other.path.port, other.group) == (membership.path.port, membership.group)
        };
        let is_used = self.groups.iter().any(|(_, group)| {
            let other = group.administered.as_deref();
            other.is_some_and(|other| may_be_member(other) && is_same(other))
        });
        if may_be_member(&membership) && !is_used {
            let transaction = self.next_transaction();
            send(membership.path.port, leave(&membership, transaction));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(space: Space) -> Administered {
        Administered {
            path: Path::loopback(),
            group: [0xff; 16],
            space,
            stage: Stage::Joins,
            transaction: 1,
            sent: 0,
            request: [0; LENGTH],
        }
    }

    #[test]
    fn a_join_has_the_properties_of_the_broadcast_group() {
        let mut properties = [0; SIZE];
        properties[..16].copy_from_slice(&broadcast(0x7fff));
        properties[38..40].copy_from_slice(&[0x84, 7]);
        properties[42] = 0x83;
        properties[44..48].copy_from_slice(&[0x50, 0, 9, 3]);
        let bytes = join(&membership(Space::Udp), 5, &properties);
        assert_eq!((bytes[3], bytes[15], bytes[17]), (2, 5, 0x38));
        let components = u64::from_be_bytes(bytes[48..56].try_into().unwrap());
        // Those of Linux' cma_join_ib_multicast.
        assert_eq!(components, 0x1_30c7);
        let record: &Record = bytes[56..][..SIZE].try_into().unwrap();
        assert_eq!(record[..16], [0xff; 16]);
        assert_eq!(record[32..36], QUEUE_KEY.to_be_bytes());
        assert_eq!(record[48], FULL);
        let address = address(&Path::loopback(), record);
        let vector = address.ah_attr;
        assert_eq!((vector.sl, vector.flow_label), (5, 9));
        assert_eq!((vector.traffic_class, vector.hop_limit), (7, 3));
        assert_eq!((vector.static_rate, address.qkey), (3, QUEUE_KEY));
        let bytes = join(&membership(Space::Ipoib), 5, &properties);
        let components = u64::from_be_bytes(bytes[48..56].try_into().unwrap());
        assert_eq!(components, 0x1_73f7);
    }

    #[test]
    fn requests_have_the_key_of_the_default_partition() {
        let of = |keys: &[u16]| {
            let p_keys = keys.to_vec();
            default_p_key(&PortState {
                p_keys,
                ..PortState::default()
            })
        };
        assert_eq!(of(&[0x8010, 0x7fff]), 0x7fff);
        assert_eq!(of(&[0x8010, 0]), 0x8010);
        assert_eq!(of(&[]), 0);
    }
}

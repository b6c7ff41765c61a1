//! Records of subnet administration (InfiniBand 15.2.5): MCMemberRecord and PathRecord, as requests
//! and in answers.

use verbena_verbs::Gid;
use verbena_wire::mad::{Class, DATA, HEADER, Header, LENGTH, Mad, Method};

/// A management datagram.
pub type Datagram = [u8; LENGTH];

/// Class version of subnet administration, its method Delete, and the numbers of the records.
const VERSION: u8 = 2;
const DELETE: Method = Method(0x15);
const MEMBER: u16 = 0x38;
const PATH: u16 = 0x35;
/// Offsets in the data of a datagram: RMPP header, SM_Key and attribute offset precede them.
const COMPONENTS: usize = 48 - HEADER;
const RECORD: usize = 56 - HEADER;
/// Components of MCMemberRecord.
const MGID: u64 = 1;
const PORT_GID: u64 = 1 << 1;
const QUEUE_KEY: u64 = 1 << 2;
const MTU: u64 = 1 << 4 | 1 << 5;
const TRAFFIC_CLASS: u64 = 1 << 6;
const PARTITION: u64 = 1 << 7;
const RATE: u64 = 1 << 8 | 1 << 9;
const LEVELS: u64 = 1 << 12 | 1 << 13 | 1 << 14;
const JOIN_STATE: u64 = 1 << 16;
/// Components of PathRecord: DGID, SGID, traffic class, number of paths, P_Key.
const PATH_COMPONENTS: u64 = 1 << 2 | 1 << 3 | 1 << 10 | 1 << 12 | 1 << 13;
/// Selector of MTU and rate: exactly this. The code is in the other bits.
const EXACTLY: u8 = 2 << 6;
const CODE: u8 = 0x3f;

/// The role of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It sends and receives.
    Full,
    /// It only sends.
    SendOnly,
}

impl Role {
    /// Returns the join state. Either makes a group that does not exist, as in Linux.
    fn join_state(self) -> u8 {
        match self {
            Role::Full => 1,
            Role::SendOnly => 8,
        }
    }
}

/// The properties of a group. All groups of an IP link have those of its broadcast group (RFC 4391
/// section 4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Properties {
    /// Multicast LID.
    pub lid: u16,
    /// Queue key.
    pub queue_key: u32,
    /// Code of the MTU.
    pub mtu: u8,
    /// Code of the rate.
    pub rate: u8,
    /// Traffic class.
    pub traffic_class: u8,
    /// Service level (4 bits), flow label (20), hop limit (8).
    levels: u32,
}

impl Properties {
    /// Returns the service level.
    pub fn service_level(&self) -> u8 {
        (self.levels >> 28) as u8
    }

    /// Returns whether a group with these properties is used as another is, but for its LID.
    pub fn is_like(&self, other: &Properties) -> bool {
        let lid = self.lid;
        Properties { lid, ..*other } == *self
    }

    /// Returns whether LID and MTU are those of a group.
    pub fn is_valid(&self) -> bool {
        (0xc000..0xffff).contains(&self.lid) && (1..=5).contains(&self.mtu)
    }
}

/// A path to a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Path {
    /// LID of the port.
    pub lid: u16,
    /// Service level.
    pub service_level: u8,
}

impl Path {
    /// Returns whether the LID is that of a port.
    pub fn is_valid(&self) -> bool {
        (1..0xc000).contains(&self.lid)
    }
}

/// The port of an interface, as requests name it.
#[derive(Debug, Clone, Copy)]
pub struct Local {
    /// Its GID.
    pub gid: Gid,
    /// The key of the partition's full members.
    pub partition: u16,
}

fn datagram(method: Method, attribute: u16, transaction: u64, data: &[u8; DATA]) -> Datagram {
    let header = Header {
        class: Class::ADMINISTRATION,
        class_version: VERSION,
        method,
        status: 0,
        class_specific: 0,
        transaction,
        attribute,
        modifier: 0,
    };
    let mut bytes = [0; LENGTH];
    // The buffer is as long as a datagram.
    let emitted = Mad { header, data }.emit(&mut bytes);
    debug_assert!(emitted.is_ok());
    bytes
}

fn member(local: &Local, group: Gid, role: Role, more: u64) -> [u8; DATA] {
    let mut data = [0; DATA];
    let components = MGID | PORT_GID | PARTITION | JOIN_STATE | more;
    data[COMPONENTS..RECORD].copy_from_slice(&components.to_be_bytes());
    let record = &mut data[RECORD..];
    record[..16].copy_from_slice(&group.0);
    record[16..32].copy_from_slice(&local.gid.0);
    record[40..42].copy_from_slice(&local.partition.to_be_bytes());
    record[48] = role.join_state();
    data
}

/// Returns the request to join a group. `properties` are those of the broadcast group for each
/// other group, which is made if it does not exist.
pub fn join(
    local: &Local,
    group: Gid,
    role: Role,
    properties: Option<&Properties>,
    transaction: u64,
) -> Datagram {
    let more = match properties {
        Some(_) => QUEUE_KEY | MTU | TRAFFIC_CLASS | RATE | LEVELS,
        None => 0,
    };
    let mut data = member(local, group, role, more);
    if let Some(properties) = properties {
        let record = &mut data[RECORD..];
        record[32..36].copy_from_slice(&properties.queue_key.to_be_bytes());
        record[38..40].copy_from_slice(&[EXACTLY | properties.mtu, properties.traffic_class]);
        record[42] = EXACTLY | properties.rate;
        record[44..48].copy_from_slice(&properties.levels.to_be_bytes());
    }
    datagram(Method::SET, MEMBER, transaction, &data)
}

/// Returns the request to leave a group.
pub fn leave(local: &Local, group: Gid, role: Role, transaction: u64) -> Datagram {
    let data = member(local, group, role, 0);
    datagram(DELETE, MEMBER, transaction, &data)
}

/// Returns the request for the path to a port.
pub fn path(local: &Local, to: Gid, traffic_class: u8, transaction: u64) -> Datagram {
    let mut data = [0; DATA];
    data[COMPONENTS..RECORD].copy_from_slice(&PATH_COMPONENTS.to_be_bytes());
    let record = &mut data[RECORD..];
    record[8..24].copy_from_slice(&to.0);
    record[24..40].copy_from_slice(&local.gid.0);
    // Traffic class, then one path, which need not be reversible.
    record[48..50].copy_from_slice(&[traffic_class, 1]);
    record[50..52].copy_from_slice(&local.partition.to_be_bytes());
    datagram(Method::GET, PATH, transaction, &data)
}

/// An answer of subnet administration.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    /// The transaction of the request.
    pub transaction: u64,
    /// 0 for success.
    pub status: u16,
    record: &'a [u8],
}

impl<'a> Answer<'a> {
    /// Reads an answer; `None` if it is none.
    pub fn parse(bytes: &'a [u8]) -> Option<Answer<'a>> {
        const RESPONSE: u8 = 0x80;
        let mad = Mad::parse(bytes).ok()?;
        let Header { class, method, .. } = mad.header;
        let is_answer = class == Class::ADMINISTRATION && method.0 & RESPONSE != 0;
        is_answer.then(|| Answer {
            transaction: mad.header.transaction,
            status: mad.header.status,
            record: &mad.data[RECORD..],
        })
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.record[at], self.record[at + 1]])
    }

    fn long(&self, at: usize) -> u32 {
        u32::from(self.word(at)) << 16 | u32::from(self.word(at + 2))
    }

    /// Returns the properties of a group that has been joined.
    pub fn properties(&self) -> Properties {
        Properties {
            queue_key: self.long(32),
            lid: self.word(36),
            mtu: self.record[38] & CODE,
            traffic_class: self.record[39],
            rate: self.record[42] & CODE,
            levels: self.long(44),
        }
    }

    /// Returns a path.
    pub fn path(&self) -> Path {
        Path {
            lid: self.word(40),
            service_level: self.record[53] & 0x0f,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOCAL: Local = Local {
        gid: Gid([7; 16]),
        partition: 0x8010,
    };

    /// Returns the answer that repeats a request with this status.
    fn answer(mut bytes: Datagram, status: u16) -> Datagram {
        bytes[3] |= 0x80;
        bytes[4..6].copy_from_slice(&status.to_be_bytes());
        bytes
    }

    proptest! {
        #[test]
        fn properties_of_a_join_are_read_back(
            queue_key: u32, mtu in 1u8..6, rate in 2u8..25, traffic_class: u8, levels: u32,
            status: u16, transaction: u64,
        ) {
            let properties = Properties { lid: 0, queue_key, mtu, rate, traffic_class, levels };
            let request = join(&LOCAL, Gid([0xff; 16]), Role::Full, Some(&properties), transaction);
            prop_assert!(Answer::parse(&request).is_none());
            let bytes = answer(request, status);
            let read = Answer::parse(&bytes).unwrap();
            prop_assert_eq!((read.transaction, read.status), (transaction, status));
            prop_assert_eq!(read.properties(), properties);
            prop_assert_eq!(properties.service_level(), (levels >> 28) as u8);
        }

        #[test]
        fn any_bytes_may_be_received(bytes: Vec<u8>) {
            prop_assert!(Answer::parse(&bytes).is_none_or(|_| bytes.len() == LENGTH));
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut bytes = answer(path(&LOCAL, Gid([9; 16]), 3, 1), 0);
        assert_eq!(bytes[..4], [1, 3, 2, 0x81]);
        assert_eq!(bytes[48..56], (0x3400_u64 | 0xc).to_be_bytes());
        assert_eq!(
            (&bytes[64..80], &bytes[80..96]),
            (&[9; 16][..], &[7; 16][..])
        );
        assert_eq!(bytes[104..108], [3, 1, 0x80, 0x10]);
        bytes[96..98].copy_from_slice(&[0x12, 0x34]);
        bytes[109] = 0xf5;
        let read = Answer::parse(&bytes).unwrap().path();
        assert_eq!(
            read,
            Path {
                lid: 0x1234,
                service_level: 5
            }
        );
        let bytes = leave(&LOCAL, Gid([0xff; 16]), Role::SendOnly, 1);
        assert_eq!((bytes[3], bytes[17], bytes[56 + 48]), (0x15, 0x38, 8));
        assert_eq!(bytes[48..56], 0x1_0083_u64.to_be_bytes());
        // Without properties of another group, none is made.
        let bytes = join(&LOCAL, Gid([0xff; 16]), Role::Full, None, 1);
        assert_eq!((bytes[3], bytes[56 + 48]), (2, 1));
        assert_eq!(bytes[48..56], 0x1_0083_u64.to_be_bytes());
    }
}

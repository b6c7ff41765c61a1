//! Notices (13.4.8.2): the content of traps and reports.

use crate::fabric::{End, Fabric, Kind};
use crate::field::Field;
use crate::sa::shares_partition;

/// Type of notices that ask for an action now.
pub const URGENT: u8 = 1;
/// Type of security notices.
pub const SECURITY: u8 = 2;
/// Type of notices of the subnet manager.
const OF_MANAGER: u8 = 3;
/// Type of notices for information.
pub const INFORMATION: u8 = 4;
/// Code of the subnet manager as the source of a notice.
const MANAGER: u8 = 4;

/// Whether the trap is one of the specification.
pub const GENERIC: Field = Field::at_byte(0, 1);
/// Type.
pub const TYPE: Field = Field::new(1, 7);
/// Kind of the node, or the manager, that issues it.
pub const PRODUCER: Field = Field::at_byte(1, 24);
/// Number of the trap.
pub const TRAP: Field = Field::at_byte(4, 16);
/// LID of the issuer.
pub const ISSUER: Field = Field::at_byte(6, 16);
/// Offset of the GID of a port or group that the manager reports.
const SUBJECT: usize = 16;
/// Offset of the GID of the issuer.
pub const ISSUER_GUID: usize = 64;
/// Size of a notice in a trap.
pub const SIZE: usize = 64;

/// Returns a generic notice with this trap number, issued by this LID and kind of node. Its details
/// begin at byte 10.
pub fn generic(kind: u8, trap: u16, issuer: u16, producer: Kind) -> [u8; SIZE] {
    of(kind, trap, issuer, producer.code())
}

fn of(kind: u8, trap: u16, issuer: u16, producer: u8) -> [u8; SIZE] {
    let mut notice = [0; SIZE];
    notice[0] = 0x80 | kind;
    notice[3] = producer;
    notice[4..6].copy_from_slice(&trap.to_be_bytes());
    notice[6..8].copy_from_slice(&issuer.to_be_bytes());
    notice
}

/// An event that the subnet manager reports by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A port came into service.
    InService(End),
    /// A port went out of service.
    OutOfService(End),
    /// A multicast group with this address and partition key was made.
    Created([u8; 16], u16),
    /// It was deleted.
    Deleted([u8; 16], u16),
}

/// A notice with the GID of its issuer, as reports have it, and what decides who may see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    bytes: [u8; SIZE + 16],
    source: Source,
}

/// The source of an event, which a subscriber must reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Port(End),
    Partition(u16),
}

impl Notice {
    /// Returns the notice of a trap that a port sent.
    pub fn of_trap(fabric: &Fabric, from: End, trap: &[u8]) -> Notice {
        let mut bytes = [0; SIZE + 16];
        bytes[..SIZE].copy_from_slice(&trap[..SIZE]);
        bytes[ISSUER_GUID..].copy_from_slice(&fabric.gid(from));
        let source = Source::Port(from);
        Notice { bytes, source }
    }

    /// Returns the notice of an event, issued by the manager at a port.
    pub fn of_event(fabric: &Fabric, manager: End, event: Event) -> Notice {
        let (trap, subject, source) = match event {
            Event::InService(end) => (64, fabric.gid(end), Source::Port(end)),
            Event::OutOfService(end) => (65, fabric.gid(end), Source::Port(end)),
            Event::Created(group, p_key) => (66, group, Source::Partition(p_key)),
            Event::Deleted(group, p_key) => (67, group, Source::Partition(p_key)),
        };
        let lid = fabric.port(manager).map_or(0, |port| port.lid());
        let mut bytes = [0; SIZE + 16];
        bytes[..SIZE].copy_from_slice(&of(OF_MANAGER, trap, lid, MANAGER));
        bytes[SUBJECT..][..16].copy_from_slice(&subject);
        bytes[ISSUER_GUID..].copy_from_slice(&fabric.gid(manager));
        Notice { bytes, source }
    }

    /// Returns the bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns whether it is about a multicast group.
    pub fn is_of_group(&self) -> bool {
        matches!(self.source, Source::Partition(_))
    }

    /// Returns whether the partitions of a subscriber let it know.
    pub fn is_visible(&self, fabric: &Fabric, subscriber: End) -> bool {
        match self.source {
            Source::Port(source) => shares_partition(fabric, source, subscriber),
            Source::Partition(p_key) => {
                let port = fabric.port(subscriber);
                port.is_some_and(|port| port.has_partition(p_key))
            }
        }
    }
}

//! Events, and the notices that report them to subscribers.

use super::inform::shares_partition;
use crate::fabric::{End, Fabric};
use crate::notice::{MANAGER, OF_MANAGER, SIZE, of};

/// Offset of the GID of a port or group that the manager reports.
const SUBJECT: usize = 16;
/// Offset of the GID of the issuer.
pub const ISSUER_GUID: usize = SIZE;

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

/// A notice with the GID of its issuer, as reports have it, and its source.
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

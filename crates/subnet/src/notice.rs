//! Notices (13.4.8.2): the content of traps and reports.

use crate::fabric::Kind;
use crate::field::Field;

/// Type of notices that ask for an action now.
pub const URGENT: u8 = 1;
/// Type of security notices.
pub const SECURITY: u8 = 2;
/// Type of notices of the subnet manager.
pub const OF_MANAGER: u8 = 3;
/// Type of notices for information.
pub const INFORMATION: u8 = 4;
/// Code of the subnet manager as the source of a notice.
pub const MANAGER: u8 = 4;

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
/// Number of the trap of changed capabilities of a port.
pub const CAPABILITIES_CHANGED: u64 = 144;
/// Number of the trap of a packet with a partition key that the port lacks.
pub const BAD_P_KEY: u16 = 257;
/// Size of a notice in a trap.
pub const SIZE: usize = 64;

/// Returns a generic notice with this trap number, issued by this LID and kind of node. Its details
/// begin at byte 10.
pub fn generic(kind: u8, trap: u16, issuer: u16, producer: Kind) -> [u8; SIZE] {
    of(kind, trap, issuer, producer.code())
}

/// Returns a generic notice of this code of a producer, as [`generic`].
pub fn of(kind: u8, trap: u16, issuer: u16, producer: u8) -> [u8; SIZE] {
    let mut notice = [0; SIZE];
    notice[0] = 0x80 | kind;
    notice[3] = producer;
    notice[4..6].copy_from_slice(&trap.to_be_bytes());
    notice[6..8].copy_from_slice(&issuer.to_be_bytes());
    notice
}

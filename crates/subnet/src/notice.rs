//! Notices (13.4.8.2): the content of traps.

use crate::fabric::Kind;

/// Type of notices that ask for an action now.
pub const URGENT: u8 = 1;
/// Type of security notices.
pub const SECURITY: u8 = 2;

/// Returns a generic notice with this trap number, issued by this LID and kind of node. Its details
/// begin at byte 10.
pub fn generic(kind: u8, trap: u16, issuer: u16, producer: Kind) -> [u8; 64] {
    let mut notice = [0; 64];
    notice[0] = 0x80 | kind;
    notice[3] = producer.code();
    notice[4..6].copy_from_slice(&trap.to_be_bytes());
    notice[6..8].copy_from_slice(&issuer.to_be_bytes());
    notice
}

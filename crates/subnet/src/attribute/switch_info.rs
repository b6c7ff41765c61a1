//! SwitchInfo (14.2.5.4).

use crate::field::Field;

/// Number of the attribute.
pub const NUMBER: u16 = 0x12;
/// Size in bytes.
pub const SIZE: usize = 20;

/// Number of LIDs that the linear table can have.
pub const LINEAR_CAP: Field = Field::at_byte(0, 16);
/// Number of LIDs that the multicast table can have.
pub const MULTICAST_CAP: Field = Field::at_byte(4, 16);
/// Highest LID in the linear table.
pub const LINEAR_TOP: Field = Field::at_byte(6, 16);
/// Default port.
pub const DEFAULT_PORT: Field = Field::at_byte(8, 8);
/// Default multicast port.
pub const DEFAULT_PRIMARY: Field = Field::at_byte(9, 8);
/// Default multicast port of other packets.
pub const DEFAULT_OTHER: Field = Field::at_byte(10, 8);
/// Life time of packets.
pub const LIFE_TIME: Field = Field::at_byte(11, 5);
/// Whether a port changed its state; writing 1 clears it.
pub const PORT_STATE_CHANGE: Field = Field::new(11 * 8 + 5, 1);
/// Number of partition keys that are enforced.
pub const ENFORCEMENT_CAP: Field = Field::at_byte(14, 16);
/// Whether port 0 is a whole port (16.5, "enhanced").
pub const ENHANCED: Field = Field::new(16 * 8 + 4, 1);
/// Inbound enforcement, outbound enforcement and raw filters are there.
pub const ENFORCEMENT: Field = Field::at_byte(16, 4);
/// Highest LID in the multicast table.
pub const MULTICAST_TOP: Field = Field::at_byte(18, 16);

/// Fields that Set writes.
pub const WRITABLE: [Field; 6] = [
    LINEAR_TOP,
    DEFAULT_PORT,
    DEFAULT_PRIMARY,
    DEFAULT_OTHER,
    LIFE_TIME,
    MULTICAST_TOP,
];

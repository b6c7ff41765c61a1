//! NodeInfo (14.2.5.3).

use crate::field::Field;

/// Number of the attribute.
pub const NUMBER: u16 = 0x11;
/// Size in bytes.
pub const SIZE: usize = 40;

/// Base version of management datagrams, 1.
pub const BASE_VERSION: Field = Field::at_byte(0, 8);
/// Class version of subnet management, 1.
pub const CLASS_VERSION: Field = Field::at_byte(1, 8);
/// 1 adapter, 2 switch, 3 router.
pub const NODE_TYPE: Field = Field::at_byte(2, 8);
/// Number of ports, without a switch's port 0.
pub const PORTS: Field = Field::at_byte(3, 8);
/// GUID of the system.
pub const SYSTEM_GUID: Field = Field::at_byte(4, 64);
/// GUID of the node.
pub const NODE_GUID: Field = Field::at_byte(12, 64);
/// GUID of the port by which the request came in; of a switch that of port 0.
pub const PORT_GUID: Field = Field::at_byte(20, 64);
/// Number of partition keys of a port.
pub const PARTITIONS: Field = Field::at_byte(28, 16);
/// Device.
pub const DEVICE: Field = Field::at_byte(30, 16);
/// Revision.
pub const REVISION: Field = Field::at_byte(32, 32);
/// Port by which the request came in.
pub const LOCAL_PORT: Field = Field::at_byte(36, 8);
/// Vendor.
pub const VENDOR: Field = Field::at_byte(37, 24);

//! Layout of management attributes. Each module has an attribute's number and its fields.

pub mod counters;
pub mod node_info;
pub mod port_info;
pub mod switch_info;

/// Numbers of attributes that have no fields of interest here, or are made in one place.
pub mod number {
    /// Class of the agent, of all classes but subnet management.
    pub const CLASS_PORT_INFO: u16 = 0x01;
    /// Notice of an event.
    pub const NOTICE: u16 = 0x02;
    /// Description of a node, 64 bytes of text.
    pub const NODE_DESCRIPTION: u16 = 0x10;
    /// GUIDs of a port, 8 a block.
    pub const GUID_INFO: u16 = 0x14;
    /// Partition keys, 32 a block.
    pub const P_KEY_TABLE: u16 = 0x16;
    /// Virtual lanes by service level.
    pub const SL_TO_VL: u16 = 0x17;
    /// Arbitration of virtual lanes.
    pub const VL_ARBITRATION: u16 = 0x18;
    /// Linear forwarding table, 64 LIDs a block.
    pub const LINEAR_TABLE: u16 = 0x19;
    /// Multicast forwarding table, 32 LIDs a block.
    pub const MULTICAST_TABLE: u16 = 0x1b;
    /// State of a subnet manager.
    pub const SM_INFO: u16 = 0x20;
    /// Diagnostics of the vendor.
    pub const VENDOR_DIAGNOSTICS: u16 = 0x30;
    /// The LED of a port.
    pub const LED_INFO: u16 = 0x31;
    /// Mellanox' extension of PortInfo, which has FDR10.
    pub const EXTENDED_PORT_INFO: u16 = 0xff90;
}

/// Fields of SMInfo.
pub mod sm_info {
    use crate::field::Field;

    /// GUID of the port of the subnet manager.
    pub const GUID: Field = Field::at_byte(0, 64);
    /// Number of actions, by which others see that it lives.
    pub const ACTIVITY: Field = Field::at_byte(16, 32);
    /// Priority.
    pub const PRIORITY: Field = Field::at_byte(20, 4);
    /// State: 3 is master.
    pub const STATE: Field = Field::new(20 * 8 + 4, 4);
    /// The state of a master.
    pub const MASTER: u64 = 3;
}

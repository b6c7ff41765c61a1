//! PortInfo (14.2.5.6).

use crate::field::Field;

/// Number of the attribute.
pub const NUMBER: u16 = 0x15;
/// Size in bytes.
pub const SIZE: usize = 64;

/// Management key.
pub const M_KEY: Field = Field::at_byte(0, 64);
/// Prefix of the port's GIDs.
pub const GID_PREFIX: Field = Field::at_byte(8, 64);
/// Base LID.
pub const LID: Field = Field::at_byte(16, 16);
/// LID of the subnet manager.
pub const SM_LID: Field = Field::at_byte(18, 16);
/// Capabilities; see [`capability`].
pub const CAPABILITIES: Field = Field::at_byte(20, 32);
/// Lease of the management key in seconds.
pub const M_KEY_LEASE: Field = Field::at_byte(26, 16);
/// Port by which the request came in.
pub const LOCAL_PORT: Field = Field::at_byte(28, 8);
/// Widths that may be used.
pub const WIDTH_ENABLED: Field = Field::at_byte(29, 8);
/// Widths that the port has.
pub const WIDTH_SUPPORTED: Field = Field::at_byte(30, 8);
/// Width in use.
pub const WIDTH_ACTIVE: Field = Field::at_byte(31, 8);
/// Speeds up to QDR that the port has.
pub const SPEED_SUPPORTED: Field = Field::at_byte(32, 4);
/// State: 1 down, 2 initialised, 3 armed, 4 active.
pub const STATE: Field = Field::new(32 * 8 + 4, 4);
/// Physical state: 2 polling, 3 disabled, 5 linked.
pub const PHYSICAL_STATE: Field = Field::at_byte(33, 4);
/// Physical state after a link went down.
pub const DOWN_DEFAULT: Field = Field::new(33 * 8 + 4, 4);
/// Protection by the management key.
pub const M_KEY_PROTECTION: Field = Field::at_byte(34, 2);
/// LID mask control.
pub const LMC: Field = Field::new(34 * 8 + 5, 3);
/// Speed in use, up to QDR.
pub const SPEED_ACTIVE: Field = Field::at_byte(35, 4);
/// Speeds up to QDR that may be used.
pub const SPEED_ENABLED: Field = Field::new(35 * 8 + 4, 4);
/// MTU of the peer.
pub const NEIGHBOR_MTU: Field = Field::at_byte(36, 4);
/// Service level of the subnet manager.
pub const SM_SL: Field = Field::new(36 * 8 + 4, 4);
/// Virtual lanes that the port has.
pub const VL_CAP: Field = Field::at_byte(37, 4);
/// Type of initialisation.
pub const INIT_TYPE: Field = Field::new(37 * 8 + 4, 4);
/// Limit of high priority.
pub const VL_HIGH_LIMIT: Field = Field::at_byte(38, 8);
/// Entries of the table of high priority.
pub const VL_HIGH_CAP: Field = Field::at_byte(39, 8);
/// Entries of the table of low priority.
pub const VL_LOW_CAP: Field = Field::at_byte(40, 8);
/// Largest MTU.
pub const MTU_CAP: Field = Field::new(41 * 8 + 4, 4);
/// Stall count and lifetime at the head of a queue.
pub const QUEUE_LIFE: Field = Field::at_byte(42, 8);
/// Virtual lanes in use.
pub const OPERATIONAL_VLS: Field = Field::at_byte(43, 4);
/// Partition enforcement and raw filters, in and out.
pub const ENFORCEMENT: Field = Field::new(43 * 8 + 4, 4);
/// Violations of the management key.
pub const M_KEY_VIOLATIONS: Field = Field::at_byte(44, 16);
/// Violations of partition keys.
pub const P_KEY_VIOLATIONS: Field = Field::at_byte(46, 16);
/// Violations of queue keys.
pub const Q_KEY_VIOLATIONS: Field = Field::at_byte(48, 16);
/// Number of GUIDs of the port.
pub const GUID_CAP: Field = Field::at_byte(50, 8);
/// Whether programs must register again.
pub const CLIENT_REREGISTER: Field = Field::at_byte(51, 1);
/// Subnet timeout.
pub const SUBNET_TIMEOUT: Field = Field::new(51 * 8 + 3, 5);
/// Response time.
pub const RESPONSE_TIME: Field = Field::new(52 * 8 + 3, 5);
/// Thresholds of errors.
pub const THRESHOLDS: Field = Field::at_byte(53, 8);
/// Speed in use, from XDR on: the second set of extended speeds.
pub const EXTENDED_2_ACTIVE: Field = Field::new(56 * 8 + 1, 2);
/// Speeds from XDR on that the port has.
pub const EXTENDED_2_SUPPORTED: Field = Field::new(56 * 8 + 3, 2);
/// Speeds from XDR on that may be used.
pub const EXTENDED_2_ENABLED: Field = Field::new(56 * 8 + 5, 3);
/// Capabilities of the second mask.
pub const CAPABILITIES_2: Field = Field::at_byte(60, 16);
/// Speed in use, from FDR on.
pub const EXTENDED_ACTIVE: Field = Field::at_byte(62, 4);
/// Speeds from FDR on that the port has.
pub const EXTENDED_SUPPORTED: Field = Field::new(62 * 8 + 4, 4);
/// Speeds from FDR on that may be used.
pub const EXTENDED_ENABLED: Field = Field::new(63 * 8 + 3, 5);

/// States of a port.
pub mod state {
    /// No change, in Set.
    pub const UNCHANGED: u64 = 0;
    /// Down.
    pub const DOWN: u64 = 1;
    /// Initialised.
    pub const INIT: u64 = 2;
    /// Armed.
    pub const ARMED: u64 = 3;
    /// Active.
    pub const ACTIVE: u64 = 4;
}

/// Physical states of a port.
pub mod physical {
    /// Polling.
    pub const POLLING: u64 = 2;
    /// Disabled.
    pub const DISABLED: u64 = 3;
    /// Linked.
    pub const LINK_UP: u64 = 5;
}

/// Bits of [`CAPABILITIES`].
pub mod capability {
    /// A subnet manager runs at the port.
    pub const IS_SM: u64 = 0x2;
    /// Traps are sent.
    pub const TRAP: u64 = 0x8;
    /// Service levels are mapped.
    pub const SL_MAP: u64 = 0x40;
    /// The system image GUID is known.
    pub const SYSTEM_IMAGE: u64 = 0x800;
    /// Speeds from FDR on.
    pub const EXTENDED_SPEEDS: u64 = 0x4000;
    /// [`super::CAPABILITIES_2`] is valid.
    pub const SECOND_MASK: u64 = 0x8000;
    /// Connection management.
    pub const CM: u64 = 0x1_0000;
    /// Classes of vendors.
    pub const VENDOR_CLASS: u64 = 0x10_0000;
    /// Traps for changes of this mask.
    pub const MASK_NOTICE: u64 = 0x40_0000;
    /// [`super::CLIENT_REREGISTER`] is understood.
    pub const CLIENT_REREGISTER: u64 = 0x200_0000;
    /// Traps for other local changes.
    pub const OTHER_CHANGES: u64 = 0x400_0000;
    /// The multicast table has a top.
    pub const MULTICAST_TOP: u64 = 0x4000_0000;
    /// Links of two lanes, of the second mask.
    pub const WIDTH_2X: u64 = 0x10;
    /// HDR, of the second mask.
    pub const HDR: u64 = 0x20;
    /// NDR, of the second mask.
    pub const NDR: u64 = 0x400;
    /// The second set of extended speeds, of the second mask.
    pub const EXTENDED_SPEEDS_2: u64 = 0x800;
    /// XDR, of the second mask.
    pub const XDR: u64 = 0x1000;
}

/// Fields that Set writes at every port as they are.
pub const WRITABLE: [Field; 6] = [
    VL_HIGH_LIMIT,
    QUEUE_LIFE,
    ENFORCEMENT,
    THRESHOLDS,
    INIT_TYPE,
    P_KEY_VIOLATIONS,
];

/// Fields that Set writes at ports with a LID as they are: of adapters and routers, and port 0 of
/// switches.
pub const WRITABLE_OF_ENDS: [Field; 9] = [
    M_KEY,
    GID_PREFIX,
    SM_LID,
    M_KEY_LEASE,
    M_KEY_PROTECTION,
    SM_SL,
    SUBNET_TIMEOUT,
    M_KEY_VIOLATIONS,
    Q_KEY_VIOLATIONS,
];

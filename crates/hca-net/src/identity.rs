//! The identity of the devices: that of the software adapter, or of another one that it emulates.

use std::sync::OnceLock;

/// Prefix of the names of the software adapter's devices; the index follows.
pub const NAME: &str = "verbena";

/// Vendor ID, in the place of an organisation's 24 bits: with the local bit, so that it belongs to
/// no organisation. Programs take 0 for a device that failed to answer.
pub const VENDOR: u32 = 0x02_5642;

/// An identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Prefix of the devices' names; the index follows.
    pub name: String,
    /// `vendor_id` of ibv_query_device(3).
    pub vendor: u32,
    /// The vendor on the bus, in sysfs.
    pub bus_vendor: u32,
    /// `vendor_part_id`, and the device on the bus.
    pub part: u32,
    /// `hw_ver`.
    pub revision: u32,
}

static EMULATED: OnceLock<Identity> = OnceLock::new();

/// Sets the identity to that of another adapter (`verbena run --as`), before a device is listed.
pub fn stand_for(identity: Identity) {
    EMULATED.get_or_init(|| identity);
}

/// Returns the identity of the emulated adapter; none for the software adapter's.
pub fn emulated() -> Option<&'static Identity> {
    EMULATED.get()
}

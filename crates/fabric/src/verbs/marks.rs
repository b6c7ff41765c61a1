//! How packets are marked on their way, where somebody wants it.

/// Marks of all packets of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Class in the global route, which they then have in any case.
    pub traffic_class: Option<u8>,
    /// Level.
    pub service_level: u8,
    /// Partition, by its P_Key; the first of the port's table without.
    pub partition: Option<u16>,
}

//! Marks of a process's packets: traffic class, service level, partition.

/// Marking of all packets of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Traffic class in the global route header, which packets then always have.
    pub traffic_class: Option<u8>,
    /// Service level.
    pub service_level: u8,
    /// Partition, by its P_Key; if absent, the first entry of the port's table.
    pub partition: Option<u16>,
}

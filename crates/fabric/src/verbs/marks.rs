//! Optional packet marking.

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

/// Order in which remote writes to a region may reach memory over the bus (`ibv_reg_mr(3)`,
/// `IBV_ACCESS_RELAXED_ORDERING`). A completion is never visible before its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// In order of arrival.
    #[default]
    Strict,
    /// In any order chosen by the bus.
    Relaxed,
}

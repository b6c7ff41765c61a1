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

/// In which order what peers write into a region may reach memory, as far as the bus is concerned (`ibv_reg_mr(3)`,
/// `IBV_ACCESS_RELAXED_ORDERING`). A completion is never seen before its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Ordering {
    /// As it was written.
    #[default]
    Strict,
    /// As the bus likes.
    Relaxed,
}

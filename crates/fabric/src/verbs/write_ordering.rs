//! Order of remote writes to a region.

/// Order in which remote writes to a region may reach memory over the bus (`ibv_reg_mr(3)`,
/// `IBV_ACCESS_RELAXED_ORDERING`). A completion is never visible before its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteOrdering {
    /// In order of arrival.
    #[default]
    Strict,
    /// In any order chosen by the bus.
    Relaxed,
}

//! Time, as the caller says it.

/// A point on the caller's monotonic clock, in nanoseconds from any beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant(pub u64);

impl Instant {
    /// So many nanoseconds later.
    pub const fn plus(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }
}

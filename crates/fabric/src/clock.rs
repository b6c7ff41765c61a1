//! The fabric's clock. A reading is a count of ticks, cheap enough to take around every operation;
//! [`ClockSource`] converts differences to nanoseconds later, outside the timed code.

/// A clock reading, in ticks since an arbitrary origin that is common to the processes of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ticks(pub u64);

impl Ticks {
    /// Returns the ticks since `earlier`, or zero if `earlier` is later.
    pub fn since(self, earlier: Ticks) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Description of a fabric's clock (measurement rule 1).
#[derive(Debug, Clone, PartialEq)]
pub struct ClockSource {
    /// `tsc`, `monotonic-raw`, `virtual`.
    pub name: &'static str,
    /// Length of a tick in nanoseconds.
    pub nanos_per_tick: f64,
    /// Difference of two back-to-back readings, in nanoseconds; 0 for virtual time.
    pub overhead_nanos: f64,
}

impl ClockSource {
    /// Converts ticks to nanoseconds.
    pub fn nanos(&self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }

    /// Converts nanoseconds to whole ticks, rounded up.
    pub fn ticks(&self, nanos: f64) -> u64 {
        (nanos / self.nanos_per_tick).ceil().max(0.0) as u64
    }
}

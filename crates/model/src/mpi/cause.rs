//! Cause of a rank's wake-up: the rank responsible, and the time of its action.

use crate::kernel::Time;

/// An action that a rank waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// Rank whose processor performed it.
    pub rank: usize,
    /// When it was posted to the adapter, or passed through shared memory.
    pub at: Time,
}

/// A wake-up of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Time.
    pub at: Time,
    /// Cause.
    pub cause: Cause,
}

//! A switch's knowledge of its own ports when it chooses one. It has no other: in a partitioned
//! simulation other partitions are at a different time.

use crate::kernel::Time;

/// An egress port that a load may take, and its class of virtual lanes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub egress: usize,
    pub class: usize,
}

/// The queues before a switch's egress ports.
pub(crate) trait Outlook {
    /// Returns the number of loads that wait for buffer space at the far end of a port's link, and
    /// the time when the port is free.
    fn crowd(&self, choice: Choice) -> (usize, Time);

    /// Returns the bytes that wait for a port or are in the buffer behind it.
    fn queued(&self, egress: usize) -> u64;

    /// The same for the choice's lane only.
    fn queued_in_lane(&self, choice: Choice) -> u64;

    /// Returns the part of these bytes that is present even when nothing waits.
    fn in_passing(&self) -> u64;
}

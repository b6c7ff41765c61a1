//! What a switch knows of its own ports when it chooses one. It knows nothing else: in a simulation of places what is elsewhere is of
//! another time.

use super::Choice;
use crate::kernel::Time;

/// What is before the egress ports of a switch.
pub(in crate::component) trait Outlook {
    /// Those who wait for room at the other end of a port's link, and when the port is free.
    fn crowd(&self, choice: Choice) -> (usize, Time);

    /// Bytes that wait for a port, or are in the buffer behind it.
    fn queued(&self, egress: usize) -> u64;

    /// The same of the choice's lane alone.
    fn queued_in_lane(&self, choice: Choice) -> u64;

    /// As many of them as are there when nothing waits.
    fn in_passing(&self) -> u64;
}

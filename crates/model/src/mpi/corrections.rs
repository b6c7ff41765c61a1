//! How a library applies the correction of its messages ([`crate::correction`]).

use crate::correction::{Correction, taken};
use crate::kernel::Time;
use crate::profile::Mpi;

/// How a library applies the correction of its messages between nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Plan {
    /// Time by which an arrived message is held before it is matched.
    pub held: Time,
    /// Taken from the overhead on each side.
    pub overhead: Time,
    /// Taken from the time in which a waiting rank wakes up.
    pub wakeup: Time,
    /// Processor time of the sender after a message.
    pub after: Time,
    /// Part of a negative latency that the library does not have.
    pub unmet: Time,
    /// Part of a negative occupancy that the overhead does not have.
    pub unmet_occupancy: Time,
}

impl Plan {
    /// Returns the plan of a correction for a library.
    pub fn of(correction: Correction, mpi: &Mpi) -> Plan {
        let mut plan = Plan {
            after: correction.occupancy.added(),
            ..Plan::default()
        };
        let mut occupancy = correction.occupancy.removed();
        plan.overhead = taken(&mut occupancy, mpi.overhead);
        plan.unmet_occupancy = occupancy;
        // The message is under way for the time that both sides compute less.
        let flight = plan.overhead * 2 + correction.latency.added();
        let mut latency = correction.latency.removed();
        let from_flight = taken(&mut latency, flight);
        plan.held = flight.since(from_flight);
        let mut each = Time(latency.0.div_ceil(2));
        plan.overhead += taken(&mut each, mpi.overhead.since(plan.overhead));
        let mut left = each * 2;
        plan.wakeup = taken(&mut left, mpi.wakeup.unwrap_or_default());
        plan.unmet = left;
        plan
    }
}

//! Corrections of a system by measurements of the machine, kept apart from its profiles.
//!
//! A correction has two signed times for a message of an operation:
//!
//! - **Latency**: how much later than modelled a message takes effect. A message is held for a
//!   positive time when its doorbell has reached the adapter. A negative time is taken from the
//!   fixed delays on the way, in this order: the doorbell's flight, the sending pipeline, the
//!   receiving pipeline, the way from the bus to where a processor sees the data. An excess over
//!   them is not applied (`unmet` in [`crate::adapter::Plan`]).
//! - **Occupancy**: how much longer than modelled a message occupies the processor that posts it. A
//!   positive time follows the doorbell, so it delays later messages and not its own. A negative
//!   one is taken from each serial step of a stream: posting, the interval of the adapter's
//!   engines, and the fetch of an entry's remainder. The doorbell's arrival remains, and with it
//!   the message's latency.
//!
//! A message of an MPI library is corrected likewise: it is matched later by its latency, or its
//! library's overhead and then the wake-up of a waiting rank are shorter; occupancy follows the
//! sender's work, or is taken from the overhead on both sides. The verbs operations that carry the
//! message have their own corrections in addition. Messages inside a node, one-sided MPI operations
//! and atomics have none.
//!
//! Without corrections, the simulation is the same to the picosecond.

use crate::kernel::Time;

/// A signed time in picoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offset(pub i64);

impl Offset {
    /// Converts from nanoseconds, rounded to the nearest picosecond.
    pub fn from_nanos(nanos: f64) -> Offset {
        Offset((nanos * 1e3).round() as i64)
    }

    /// Returns the time in nanoseconds.
    pub fn nanos(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Returns the time to add; zero if it is negative.
    pub fn added(self) -> Time {
        Time(u64::try_from(self.0).unwrap_or(0))
    }

    /// Returns the time to take away; zero if it is positive.
    pub fn removed(self) -> Time {
        Time(u64::try_from(self.0.saturating_neg()).unwrap_or(0))
    }
}

/// The correction of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Correction {
    /// Added to the time until a message takes effect.
    pub latency: Offset,
    /// Added to the time that a message occupies the processor that sends it.
    pub occupancy: Offset,
}

/// An operation that is corrected separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// RDMA writes.
    Write,
    /// Sends over a connection.
    Send,
    /// RDMA reads.
    Read,
    /// Sends of datagrams.
    Datagram,
    /// Messages of an MPI library between nodes.
    Mpi,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 5] = [
        Operation::Write,
        Operation::Send,
        Operation::Read,
        Operation::Datagram,
        Operation::Mpi,
    ];

    /// Returns its name, a plural.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Write => "writes",
            Operation::Send => "sends",
            Operation::Read => "reads",
            Operation::Datagram => "datagrams",
            Operation::Mpi => "MPI messages",
        }
    }
}

/// The corrections of a system, by operation; zero unless set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Corrections([Correction; Operation::ALL.len()]);

impl Corrections {
    /// Returns the correction of an operation.
    pub fn of(&self, operation: Operation) -> Correction {
        self.0[operation as usize]
    }

    /// Sets the correction of an operation.
    pub fn set(&mut self, operation: Operation, correction: Correction) {
        self.0[operation as usize] = correction;
    }

    /// Returns whether all are zero.
    pub fn is_none(&self) -> bool {
        *self == Corrections::default()
    }
}

/// Takes as much of `wanted` as there is, and returns it.
pub(crate) fn taken(wanted: &mut Time, there: Time) -> Time {
    let taken = (*wanted).min(there);
    *wanted = wanted.since(taken);
    taken
}

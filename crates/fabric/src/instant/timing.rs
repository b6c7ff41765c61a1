//! Policies for the duration of requests.

/// Data about a posted request for a timing policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The process that posted it.
    pub rank: usize,
    /// Its queue pair's number.
    pub pair: u32,
    /// Payload bytes.
    pub length: usize,
    /// Pages of local memory that it touches, as (key, page index).
    pub pages: Vec<(u32, usize)>,
    /// Whether it returns data (reads and atomics).
    pub returns: bool,
}

/// Duration of a request, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// Time until the process's adapter can start the next request.
    pub occupancy: u64,
    /// Time from then to its effect and completion.
    pub latency: u64,
}

/// A timing policy.
pub trait Timing {
    /// Returns the cost of a request; called once for each, in the order of posting.
    fn cost(&mut self, posted: &Posted) -> Cost;
    /// Returns the bytes of host memory held by a process with that many queue pairs.
    fn host_memory(&self, _pairs: usize) -> Option<u64> {
        None
    }
    /// Returns whether binding processes to processors fails.
    fn refuses_processors(&self) -> bool {
        false
    }
    /// Returns the reported cost of reading the clock, in nanoseconds (it takes no virtual time).
    fn clock_cost(&self, _rank: usize) -> f64 {
        0.0
    }
    /// Called when a process comes to an exchange among all.
    fn exchange(&mut self) {}
}

/// Timing policy in which everything takes a nanosecond.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTime;

impl Timing for NoTime {
    fn cost(&mut self, _posted: &Posted) -> Cost {
        Cost {
            occupancy: 1,
            latency: 1,
        }
    }
}

//! An in-process fabric for tests: every process of the job is a future on one thread, memory is
//! plain vectors, and time is a count of nanoseconds that advances when no process can proceed.
//!
//! It implements the contract of the crate's root exactly; a [`Timing`] determines the times: here
//! close to zero, in [`crate::fault_injection`] those of an adapter with injected faults. Not
//! covered: loss, retries, access through real verbs, and realistic timing.

mod memory;
mod process;
mod queues;
mod world;

pub use memory::{InstantBuffer, InstantRegion};
pub use process::{InstantGroup, InstantProcess};
pub use queues::{InstantAddress, InstantCompletions, InstantPair, InstantSharedReceive};
pub use world::World;

use crate::executor::{Task, drive};
use std::rc::Rc;

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

/// Runs a job of `size` processes on one in-process fabric and returns their results in the order
/// of ranks.
pub fn run_job<T, F>(size: usize, timing: impl Timing + 'static, program: F) -> Vec<T>
where
    F: AsyncFn(InstantProcess) -> T,
{
    let world = World::shared(size, timing);
    let tasks: Vec<Task<'_, T>> = (0..size)
        .map(|rank| {
            let process = InstantProcess::new(Rc::clone(&world), rank);
            let program = &program;
            Box::pin(async move { program(process).await }) as Task<'_, T>
        })
        .collect();
    drive(tasks, || world.borrow_mut().advance())
}

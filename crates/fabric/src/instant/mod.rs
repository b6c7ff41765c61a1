//! An in-process fabric for tests: every process of the job is a future on one thread, memory is plain vectors, and time
//! is a count of nanoseconds that moves when no process can go on.
//!
//! What it does is the contract of the crate's root, exactly; how long it takes is up to a [`Timing`]: here next to
//! nothing, in [`crate::planted`] an adapter with known faults. It leaves to others: loss, retries, access through real
//! verbs, and any likeness to a machine.

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

/// What a timing policy is told about a posted request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The process that posted it.
    pub rank: usize,
    /// Its queue pair's number.
    pub pair: u32,
    /// Payload bytes.
    pub length: usize,
    /// The pages of local memory that it touches, as (key, page index).
    pub pages: Vec<(u32, usize)>,
    /// Whether data comes back (reads and atomics).
    pub returns: bool,
}

/// How long a request takes, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// For how long it keeps the process's adapter from starting the next.
    pub occupancy: u64,
    /// From the end of that to its effect and completion.
    pub latency: u64,
}

/// A policy for the time that requests take.
pub trait Timing {
    /// The cost of a request; called once for each, in the order of posting.
    fn cost(&mut self, posted: &Posted) -> Cost;
    /// Bytes of host memory that a process with so many queue pairs holds.
    fn host_memory(&self, _pairs: usize) -> Option<u64> {
        None
    }
    /// Whether the system binds no process to a processor.
    fn refuses_processors(&self) -> bool {
        false
    }
    /// What reading the clock costs a process, in nanoseconds (it takes no virtual time).
    fn clock_cost(&self, _rank: usize) -> f64 {
        0.0
    }
}

/// Everything takes a nanosecond.
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

/// Runs a job of `size` processes on one in-process fabric and gives their results in the order of ranks.
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

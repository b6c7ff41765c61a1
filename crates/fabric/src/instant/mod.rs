//! An in-process fabric for tests: every process of the job is a future on one thread, memory is
//! plain vectors, and time is a count of nanoseconds that advances when no process can proceed.
//!
//! It implements the contract of the crate's root exactly; a [`Timing`] determines the times: here
//! close to zero, in [`crate::simulated_limits`] those of an adapter with simulated limits. Not
//! covered: loss, retries, access through real verbs, and realistic timing.

mod memory;
mod process;
mod queues;
mod timing;
mod world;

pub use memory::{InstantBuffer, InstantRegion};
pub use process::{InstantGroup, InstantProcess};
pub use queues::{InstantAddress, InstantCompletions, InstantPair, InstantSharedReceive};
pub use timing::{Cost, NoTime, Posted, Timing};
pub use world::World;

use crate::executor::{Task, drive};
use std::rc::Rc;

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

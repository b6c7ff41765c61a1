//! Benchmarks that another crate starts: those of an MPI library, whose `mpirun` starts their
//! processes. A session treats their launches and results like all others.

use crate::Failure;
use crate::local::Ended;
use crate::options::MeasureOptions;
use crate::plan::Task;
use crate::resolved::Resolved;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use verbena_report::schema::Line;
use verbena_workloads::Benchmark;

/// A launch to run.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Sizes, budget, floors.
    pub task: &'a Task,
    /// The benchmark.
    pub benchmark: &'a Benchmark,
    /// Number of the launch, from 0.
    pub number: u32,
    /// Requested number of processes; `None` lets the benchmark choose.
    pub processes: Option<usize>,
    /// Set when the user requests a stop.
    pub stop: &'a AtomicBool,
}

/// Takes each record of a launch as it arrives.
pub type Take<'a> = dyn FnMut(Line) -> Result<(), Failure> + 'a;

/// A launcher of benchmarks that the engine does not start itself.
pub trait External {
    /// Returns whether it starts this benchmark.
    fn starts(&self, benchmark: &Benchmark) -> bool;

    /// Prepares launches on a target; `None` if it starts none of the benchmarks, or does not reach
    /// the target.
    ///
    /// # Errors
    ///
    /// Fails if this machine lacks a requirement.
    fn prepared(
        &self,
        benchmarks: &[&'static Benchmark],
        target: &Resolved,
        options: &MeasureOptions,
    ) -> Result<Option<Box<dyn Prepared>>, Failure>;
}

/// A launcher that is ready for a session on one target.
pub trait Prepared {
    /// Returns its version and settings for the record (rule 19).
    fn described(&self) -> BTreeMap<String, String>;

    /// Runs one launch and passes each record to `take`.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be started or `take` fails. A benchmark that fails is reported as
    /// [`Ended::Failed`] or as a failed point.
    fn launch(&mut self, launch: &Launch<'_>, take: &mut Take<'_>) -> Result<Ended, Failure>;
}

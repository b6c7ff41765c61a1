//! Runs a program with the recorder library preloaded: records it, or times it from `MPI_Init` to
//! `MPI_Finalize`.

use super::programs::Program;
use crate::Failure;
use crate::app::output_file;
use crate::mpirun::{self, Mpirun};
use crate::path_check;
use crate::ready::Ready;
use crate::recorder::{Compiler, put_before};
use std::path::Path;
use verbena_bench::counters;
use verbena_bench::temporary::Directory;
use verbena_measure::processors;
use verbena_mpi_trace::{Trace, recorder, stopwatch};

/// A program with a number of processes.
pub struct Runner<'a> {
    pub program: &'a Program,
    pub processes: usize,
}

impl Runner<'_> {
    /// Records a trace in an existing directory.
    ///
    /// # Errors
    ///
    /// Fails if the run fails or used another transport, or the trace is unreadable.
    pub fn record(&self, ready: &Ready, directory: &Path) -> Result<Trace, Failure> {
        self.run(ready, recorder::DIRECTORY, directory)?;
        Ok(Trace::open(directory)?)
    }

    /// Returns the nanoseconds until the last process reaches `MPI_Finalize`.
    ///
    /// # Errors
    ///
    /// Fails if the run fails or used another transport, or its times are unreadable.
    pub fn time(&self, ready: &Ready) -> Result<f64, Failure> {
        let directory = Directory::create()?;
        self.run(ready, stopwatch::DIRECTORY, directory.path())?;
        let taken = stopwatch::read(directory.path(), self.processes)?;
        let longest = taken.iter().map(|one| one.passed).max();
        Ok(longest.unwrap_or_default() as f64)
    }

    fn run(&self, ready: &Ready, variable: &str, told: &Path) -> Result<(), Failure> {
        let (place, counters) = (Directory::create()?, Directory::create()?);
        let (program, arguments) = self.program.prepared(place.path(), self.processes)?;
        let library = Compiler::of(ready.compiler())?.recorder()?;
        let transport = ready.transport();
        let mut command = ready.command(transport, program, self.processes, &counters)?;
        put_before(&mut command, &library);
        command
            .args(arguments)
            .env(variable, told)
            .env(recorder::CPUS, cpu_list(&processors::allowed()))
            .env("OMP_NUM_THREADS", "1")
            .current_dir(place.path());
        let before = ready.before();
        let (mpirun, mut output) = Mpirun::start(command, ready.launcher())?;
        let _ = std::io::copy(&mut output, &mut output_file(place.path())?);
        let (status, said) = mpirun.end()?;
        let adapter = path_check::through_the_adapter(&counters::read(counters.path()));
        let counted = before.counted(u64::from(self.processes > 1), adapter);
        let wrong = mpirun::trouble(status, &said)
            .or_else(|| self.program.judged(place.path(), self.processes).err())
            .or_else(|| counted.contradicts(transport));
        match wrong {
            Some(reason) => {
                let text = format!("{}: {reason}", self.program.name());
                Err(verbena_bench::Failure::Suite(text).into())
            }
            None => Ok(()),
        }
    }
}

/// Formats the list for CPU pinning. Each process is pinned to one processor, as in `mpi.*`,
/// because the scheduler's placement and migration are not predicted.
pub fn cpu_list(processors: &[usize]) -> String {
    let words: Vec<String> = processors.iter().map(usize::to_string).collect();
    words.join(",")
}

//! `verbena bench mpi.*`: measures an MPI library from inside. A C program is compiled by the
//! user's `mpicc`, because the binary interfaces of libraries differ, and started by the same
//! library's `mpirun`. It samples by the suite's rules and prints raw samples, which are evaluated
//! here like all others.
//!
//! [`catalogue`] lists the benchmarks. [`library`] finds the compiler and launcher, and [`program`]
//! builds and caches C programs. [`transport`] selects the transport (adapter, TCP or the library's
//! shared memory), and [`marks`] the ports of the adapter. [`mpirun`] controls the launcher,
//! [`mod@launch`] runs the program, [`lines`] parses its output, and [`points`] computes the
//! results. [`path_check`] checks by counters that the selected transport was used. Applications
//! ([`crate::app`]) use the same transports.

pub mod catalogue;
mod launch;
mod library;
mod lines;
mod marks;
pub mod mpirun;
pub mod path_check;
mod plan;
mod points;
pub mod program;
pub mod transport;

pub use launch::launch;
pub use library::{Kind, Library};

use crate::app;
use crate::failure::Failure;
use crate::launch::environment::Environment;
use crate::launch::libraries::Libraries;
use crate::stats::directory::Directory;
use crate::suite::options::MeasureOptions;
use crate::suite::plan::Task;
use crate::suite::ports::Port;
use crate::suite::target::Resolved;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use transport::{Settings, Transport};
use verbena_workloads::Benchmark;

/// A launch to run.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Sizes, budget, floors.
    pub task: &'a Task,
    pub benchmark: &'a Benchmark,
    /// Number of the launch, from 0.
    pub number: u32,
    /// Requested number of processes; `None` lets the benchmark choose.
    pub processes: Option<usize>,
    /// Set when the user requests a stop.
    pub stop: &'a AtomicBool,
}

/// A library ready to be measured: launcher, compiled program, and settings.
pub struct Ready {
    library: Library,
    program: PathBuf,
    transport: Transport,
    /// Settings for the adapter's ports and packet marks.
    marks: Vec<(&'static str, String)>,
    /// Ports whose counters give the traffic of a hardware adapter.
    ports: Vec<Port>,
}

impl Ready {
    /// Prepares the library for a target; `None` if no benchmark needs it, or no transport leads to
    /// the target.
    ///
    /// # Errors
    ///
    /// Fails if no MPI library is found or the program does not compile.
    pub fn for_benchmarks(
        benchmarks: &[&'static Benchmark],
        target: &Resolved,
        options: &MeasureOptions,
    ) -> Result<Option<Ready>, Failure> {
        let is_needed = benchmarks
            .iter()
            .any(|benchmark| runs_under_mpirun(benchmark));
        let Some(transport) = Transport::to(target).filter(|_| is_needed) else {
            return Ok(None);
        };
        let library = Library::find(options.mpi)?;
        let program = match benchmarks.iter().any(|benchmark| is_of_library(benchmark)) {
            true => program::SUITE.built(&library)?,
            // Applications need no measuring program.
            false => PathBuf::new(),
        };
        Ok(Some(Ready {
            library,
            program,
            transport,
            marks: marks::of(transport, target, options),
            ports: target.ports.clone(),
        }))
    }

    /// Prepares the library for other programs than the measuring one.
    ///
    /// # Errors
    ///
    /// Fails if the MPI library is not found.
    pub fn of(kind: Option<Kind>, transport: Transport) -> Result<Ready, Failure> {
        let library = Library::find(kind)?;
        Ok(Ready {
            library,
            program: PathBuf::new(),
            transport,
            marks: Vec::new(),
            ports: Vec::new(),
        })
    }

    pub fn compiler(&self) -> &Path {
        &self.library.mpicc
    }

    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the transport.
    pub fn transport(&self) -> Transport {
        self.transport
    }

    /// Reads the counters before a launch.
    pub fn before(&self) -> path_check::Before {
        let ports = match self.transport {
            Transport::Hardware => self.ports.as_slice(),
            _ => &[],
        };
        path_check::Before::of(ports)
    }

    fn settings(&self, transport: Transport) -> Settings {
        let mut settings = Settings::of(self.library.kind, transport);
        if transport.is_adapter() {
            settings.variables.extend(self.marks.iter().cloned());
        }
        settings
    }

    pub fn launcher(&self) -> &Path {
        &self.library.mpirun
    }

    /// Returns the launcher command for processes of a program, to which arguments can be appended.
    ///
    /// # Errors
    ///
    /// Fails if the software adapter is needed and its libraries are not found.
    pub fn command(
        &self,
        transport: Transport,
        program: &Path,
        processes: usize,
        counters: &Directory,
    ) -> Result<Command, Failure> {
        let settings = self.settings(transport);
        let mut command = Command::new(&self.library.mpirun);
        command
            .args(&settings.arguments)
            .args(["-n", &processes.to_string()])
            .arg(program)
            .envs(settings.variables)
            // For other transports too, to detect unintended use of the adapter.
            .env("VERBENA_STATS_DIR", counters.path());
        if transport == Transport::Software {
            let libraries = Libraries::beside_this_executable()?;
            command.envs(Environment::new(&libraries, None).variables());
        }
        Ok(command)
    }

    /// Returns the library and its settings for the record (rule 19).
    pub fn described(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("MPI".to_owned(), self.library.version.clone()),
            (
                "MPI settings".to_owned(),
                self.settings(self.transport).to_string(),
            ),
        ])
    }
}

/// Returns whether the library's launcher starts a benchmark: MPI benchmarks and applications.
pub fn runs_under_mpirun(benchmark: &Benchmark) -> bool {
    is_of_library(benchmark) || app::catalogue::find(benchmark.name).is_some()
}

pub fn is_of_library(benchmark: &Benchmark) -> bool {
    catalogue::quantity(benchmark.name).is_some()
}

//! `verbena bench mpi.*`: a message-passing library, measured from inside. One C program is compiled by the user's own `mpicc`,
//! for the binary interfaces of libraries differ, and started by the `mpirun` of the same library; it samples by the suite's
//! rules and tells raw samples, which are judged here as all others are.
//!
//! [`catalogue`] is what there is to measure; [`library`] the user's compiler and launcher; [`program`] C programs and where they
//! are kept; [`way`] what the library is told, so that it takes an adapter, TCP or its own shared memory, and [`marks`] what of
//! the adapter; [`mpirun`] is the launcher at work; [`launch`] runs the program, [`lines`] reads it, [`points`] makes results of
//! that, and [`proof`] holds the way that was taken against counters. Whole applications ([`crate::app`]) run the same ways.

pub mod catalogue;
mod launch;
mod library;
mod lines;
mod marks;
pub mod mpirun;
mod plan;
mod points;
pub mod program;
pub mod proof;
pub mod way;

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
use verbena_workloads::Benchmark;
use way::{Settings, Way};

/// A launch to run.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    /// Sizes, budget, floors.
    pub task: &'a Task,
    /// Of these.
    pub benchmark: &'a Benchmark,
    /// From 0.
    pub number: u32,
    /// How many processes are asked for; none if the benchmark chooses.
    pub processes: Option<usize>,
    /// The user's wish to stop.
    pub stop: &'a AtomicBool,
}

/// A library that can be measured: its launcher, the program compiled for it, and what it is told.
pub struct Ready {
    library: Library,
    program: PathBuf,
    way: Way,
    /// Which ports of the adapter, and how packets are marked.
    marks: Vec<(&'static str, String)>,
    /// Whose counters tell what an adapter of hardware has carried.
    ports: Vec<Port>,
}

impl Ready {
    /// For a target; `None` where no benchmark needs it, or nothing leads there.
    pub fn for_benchmarks(
        benchmarks: &[&'static Benchmark],
        target: &Resolved,
        options: &MeasureOptions,
    ) -> Result<Option<Ready>, Failure> {
        let is_needed = benchmarks
            .iter()
            .any(|benchmark| runs_under_mpirun(benchmark));
        let Some(way) = Way::to(target).filter(|_| is_needed) else {
            return Ok(None);
        };
        let library = Library::find(options.mpi)?;
        let program = match benchmarks.iter().any(|benchmark| is_of_library(benchmark)) {
            true => program::SUITE.built(&library)?,
            // Applications are measured from outside.
            false => PathBuf::new(),
        };
        Ok(Some(Ready {
            library,
            program,
            way,
            marks: marks::of(way, target, options),
            ports: target.ports.clone(),
        }))
    }

    /// For programs that are run from outside.
    pub fn of(kind: Option<Kind>, way: Way) -> Result<Ready, Failure> {
        let library = Library::find(kind)?;
        Ok(Ready {
            library,
            program: PathBuf::new(),
            way,
            marks: Vec::new(),
            ports: Vec::new(),
        })
    }

    /// The compiler.
    pub fn compiler(&self) -> &Path {
        &self.library.mpicc
    }

    /// The library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Which way its messages take.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Counters as they are before a launch.
    pub fn before(&self) -> proof::Before {
        let ports = match self.way {
            Way::Hardware => self.ports.as_slice(),
            _ => &[],
        };
        proof::Before::of(ports)
    }

    /// What the library is told for a way.
    fn settings(&self, way: Way) -> Settings {
        let mut settings = Settings::of(self.library.kind, way);
        if way.is_adapter() {
            settings.variables.extend(self.marks.iter().cloned());
        }
        settings
    }

    /// The launcher.
    pub fn launcher(&self) -> &Path {
        &self.library.mpirun
    }

    /// The launcher with so many processes of a program, whose arguments follow.
    pub fn command(
        &self,
        way: Way,
        program: &Path,
        processes: usize,
        counters: &Directory,
    ) -> Result<Command, Failure> {
        let settings = self.settings(way);
        let mut command = Command::new(&self.library.mpirun);
        command
            .args(&settings.arguments)
            .args(["-n", &processes.to_string()])
            .arg(program)
            .envs(settings.variables)
            // On another way too: whoever uses the adapter all the same is seen.
            .env("VERBENA_STATS_DIR", counters.path());
        if way == Way::Software {
            let libraries = Libraries::beside_this_executable()?;
            command.envs(Environment::new(&libraries, None).variables());
        }
        Ok(command)
    }

    /// For the record (rule 19): which library, and what it was told.
    pub fn described(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("MPI".to_owned(), self.library.version.clone()),
            (
                "MPI settings".to_owned(),
                self.settings(self.way).to_string(),
            ),
        ])
    }
}

/// Whether a benchmark is started by the library's launcher: its own, and whole applications.
pub fn runs_under_mpirun(benchmark: &Benchmark) -> bool {
    is_of_library(benchmark) || app::catalogue::find(benchmark.name).is_some()
}

/// Whether a benchmark is of a message-passing library.
pub fn is_of_library(benchmark: &Benchmark) -> bool {
    catalogue::quantity(benchmark.name).is_some()
}

//! `verbena bench mpi.*`: a message-passing library, measured from inside. One C program is compiled by the user's own `mpicc`,
//! for the binary interfaces of libraries differ, and started by the `mpirun` of the same library; it samples by the suite's
//! rules and tells raw samples, which are judged here as all others are.
//!
//! [`catalogue`] is what there is to measure; [`library`] the user's compiler and launcher; [`program`] the C program and where it
//! is kept; [`way`] what the library is told, so that it takes the adapter, TCP or its own shared memory; [`launch`] runs it,
//! [`lines`] reads it, [`points`] makes results of that, and [`proof`] holds the way that was taken against counters.

pub mod catalogue;
mod launch;
mod library;
mod lines;
mod plan;
mod points;
mod program;
mod proof;
mod way;

pub use launch::launch;
pub use library::Kind;

use crate::failure::Failure;
use crate::suite::options::MeasureOptions;
use crate::suite::target::Resolved;
use library::Library;
use std::collections::BTreeMap;
use std::path::PathBuf;
use verbena_workloads::Benchmark;
use way::{Settings, Way};

/// A library that can be measured: its launcher, the program compiled for it, and what it is told.
pub struct Ready {
    library: Library,
    program: PathBuf,
    way: Way,
    settings: Settings,
}

impl Ready {
    /// For a target; `None` where no benchmark needs it, or nothing leads there.
    pub fn for_benchmarks(
        benchmarks: &[&'static Benchmark],
        target: &Resolved,
        options: &MeasureOptions,
    ) -> Result<Option<Ready>, Failure> {
        let Some(way) = Way::to(target).filter(|_| benchmarks.iter().any(|b| is_of_library(b)))
        else {
            return Ok(None);
        };
        let library = Library::find(options.mpi)?;
        let program = program::built(&library)?;
        let settings = Settings::of(library.kind, way);
        Ok(Some(Ready {
            library,
            program,
            way,
            settings,
        }))
    }

    /// For the record (rule 19): which library, and what it was told.
    pub fn described(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("MPI".to_owned(), self.library.version.clone()),
            ("MPI settings".to_owned(), self.settings.to_string()),
        ])
    }
}

/// Whether a benchmark is of a message-passing library.
pub fn is_of_library(benchmark: &Benchmark) -> bool {
    catalogue::quantity(benchmark.name).is_some()
}

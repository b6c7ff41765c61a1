//! `mpi.*` measures an MPI library from inside. A C program is compiled by the user's `mpicc`,
//! because the binary interfaces of libraries differ, and started by the same library's `mpirun`.
//! It samples by the rules of all benchmarks and prints raw samples, which are evaluated here.
//!
//! [`catalogue`] lists the benchmarks. [`library`] finds the compiler and launcher, and `program`
//! builds and caches C programs. `transport` selects the transport (adapter, TCP or the library's
//! shared memory), and `marks` the ports of the adapter. `mpirun` controls the launcher, `launch`
//! runs the program, `lines` parses its output, and `points` computes the results. `path_check`
//! checks by counters that the selected transport was used.
//!
//! Applications ([`app`]) use the same transports. [`recorder`] builds the recorder of MPI calls,
//! [`import`] reads traces of other recorders, [`replays`] predicts programs' times on models, and
//! [`validation`] compares predicted with measured run times. [`benchmarks`] lists all benchmarks,
//! and [`report`] writes the report of their results.
#![forbid(unsafe_code)]

pub mod app;
pub mod catalogue;
mod failure;
pub mod import;
mod launch;
pub mod library;
mod lines;
mod marks;
mod mpirun;
mod path_check;
mod plan;
mod points;
mod program;
mod ready;
pub mod recorder;
pub mod replays;
pub mod report;
mod transport;
pub mod validation;

pub use failure::Failure;

use app::Applications;
use library::MpiKind;
use ready::Ready;
use std::collections::{BTreeMap, BTreeSet};
use verbena_bench::engine::Engine;
use verbena_bench::external::{External, Launch, Prepared, Take};
use verbena_bench::host::Host;
use verbena_bench::local::Ended;
use verbena_bench::options::MeasureOptions;
use verbena_bench::resolved::Resolved;
use verbena_bench::service;
use verbena_bench::suggestion::did_you_mean;
use verbena_workloads::Benchmark;
use verbena_workloads::registry::ALL;

/// The launcher of MPI benchmarks and applications.
#[derive(Clone, Copy)]
pub struct Mpi {
    /// The requested library; by default that of `mpicc`.
    pub kind: Option<MpiKind>,
    /// This host and its software adapter.
    pub host: &'static dyn Host,
}

impl Mpi {
    /// Returns the measuring engine with this launcher.
    pub fn engine(&self) -> Engine<'_> {
        Engine {
            host: self.host,
            external: self,
        }
    }
}

/// Returns all benchmarks, including those of MPI, applications and the file service.
pub fn benchmarks() -> impl Iterator<Item = &'static Benchmark> {
    ALL.iter()
        .chain(catalogue::all())
        .chain(app::catalogue::ALL.iter().map(|one| &one.benchmark))
        .chain(service::catalogue::ALL)
}

/// Returns the benchmarks with these names, or whose names begin with one that ends in a dot; each
/// once.
///
/// # Errors
///
/// Fails on a name without a benchmark, with the most similar one.
pub fn named(names: &[String]) -> Result<Vec<&'static Benchmark>, verbena_bench::Failure> {
    let mut found: Vec<&'static Benchmark> = Vec::new();
    for name in names {
        let before = found.len();
        match benchmarks().find(|benchmark| benchmark.name == name) {
            Some(benchmark) => found.push(benchmark),
            None if name.ends_with('.') => {
                found.extend(benchmarks().filter(|one| one.name.starts_with(name.as_str())));
            }
            None => {}
        }
        if found.len() == before {
            let meant = did_you_mean(name, benchmarks().map(|benchmark| benchmark.name));
            let text = format!(
                "no benchmark {name:?}{meant} (`verbena list` shows all; a name with a final dot, \
                 such as `latency.`, is a group)"
            );
            return Err(verbena_bench::Failure::Input(text));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|benchmark| seen.insert(benchmark.name));
    Ok(found)
}

impl External for Mpi {
    fn starts(&self, benchmark: &Benchmark) -> bool {
        is_of_library(benchmark) || app::catalogue::find(benchmark.name).is_some()
    }

    fn prepared(
        &self,
        benchmarks: &[&'static Benchmark],
        target: &Resolved,
        options: &MeasureOptions,
    ) -> Result<Option<Box<dyn Prepared>>, verbena_bench::Failure> {
        if !benchmarks.iter().any(|benchmark| self.starts(benchmark)) {
            return Ok(None);
        }
        let is_measured = benchmarks.iter().any(|benchmark| is_of_library(benchmark));
        let ready = Ready::on(target, self.kind, is_measured, options, self.host)?;
        Ok(ready.map(|ready| -> Box<dyn Prepared> {
            Box::new(Session {
                ready,
                applications: Applications::default(),
            })
        }))
    }
}

/// A library that is ready for the launches of a session.
struct Session {
    ready: Ready,
    applications: Applications,
}

impl Prepared for Session {
    fn described(&self) -> BTreeMap<String, String> {
        self.ready.described()
    }

    fn launch(
        &mut self,
        launch: &Launch<'_>,
        take: &mut Take<'_>,
    ) -> Result<Ended, verbena_bench::Failure> {
        match is_of_library(launch.benchmark) {
            true => launch::launch(&self.ready, launch, take),
            false => self.applications.launch(&self.ready, launch, take),
        }
    }
}

/// Returns whether the measuring program has this benchmark.
fn is_of_library(benchmark: &Benchmark) -> bool {
    catalogue::quantity(benchmark.name).is_some()
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn benchmarks_are_named_by_name_or_prefix_each_once() {
        let names = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            named(&words).map(|found| found.iter().map(|one| one.name).collect::<Vec<_>>())
        };
        let found = names(&["latency.write", "latency."]).unwrap();
        assert_eq!(found[0], "latency.write");
        assert!(found.len() > 2 && found.iter().all(|name| name.starts_with("latency.")));
        assert_eq!(
            found
                .iter()
                .filter(|name| **name == "latency.write")
                .count(),
            1
        );
        let error = names(&["latency.rite"]).unwrap_err().to_string();
        assert!(error.contains("did you mean \"latency.write\"?"), "{error}");
        assert!(names(&["latency"]).is_err());
    }
}

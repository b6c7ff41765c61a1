//! One point of a study: a benchmark with its parameters on a system with some profile values.

use super::fabric::StudyFabric;
use super::suite;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use verbena_measure::memory::{available, shortage};
use verbena_measure::result::HotPort;
use verbena_model::adapter::Fidelity;
use verbena_model::component::check_joins;
use verbena_model::profile::{Error, Library, Overrides, System};
use verbena_reproduce::application::halo_run;
use verbena_reproduce::bench::{Latency, Operation, latency};
use verbena_reproduce::effort::Effort;
use verbena_reproduce::mpi_benchmarks::{ALL, Measure, WORD};
use verbena_reproduce::mpi_effort::effort;
use verbena_reproduce::pattern_effort::PROCESS;
use verbena_workloads::modelled::hot_ports;

/// A driver of the models' own, for benchmarks that the suite does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Driver {
    /// Pairs in lockstep, each on several connections.
    InlineWrites,
    /// A benchmark of message passing.
    Messages(Measure),
    Halo,
}

impl Driver {
    /// Returns whether it needs a message-passing library.
    pub fn passes_messages(self) -> bool {
        self != Driver::InlineWrites
    }
}

/// Returns the largest accepted value of a parameter.
pub(super) fn largest(parameter: &str) -> u64 {
    match parameter {
        "size" => 1 << 30,
        "tile" => 1 << 26,
        "pairs" => 512,
        // Limited by memory.
        "processes" | "ranks" | "nodes" => 1 << 20,
        _ => 65_536,
    }
}

/// Name, driver, and its parameters with their defaults.
type Entry = (&'static str, Driver, &'static [(&'static str, u64)]);

pub(super) const DRIVERS: &[Entry] = &[
    (
        "latency.write-inline",
        Driver::InlineWrites,
        &[("size", 1), ("pairs", 1), ("connections", 1)],
    ),
    (
        "mpi.latency",
        Driver::Messages(Measure::Latency),
        &[("size", 1)],
    ),
    (
        "mpi.bandwidth",
        Driver::Messages(Measure::Bandwidth),
        &[("size", 65_536)],
    ),
    (
        "mpi.bandwidth-both",
        Driver::Messages(Measure::BothWays),
        &[("size", 65_536)],
    ),
    (
        "mpi.pingping",
        Driver::Messages(Measure::PingPing),
        &[("size", 1)],
    ),
    (
        "mpi.put-latency",
        Driver::Messages(Measure::Put),
        &[("size", 1)],
    ),
    (
        "mpi.get-latency",
        Driver::Messages(Measure::Get),
        &[("size", 1)],
    ),
    (
        "mpi.put-bandwidth",
        Driver::Messages(Measure::Puts),
        &[("size", 65_536)],
    ),
    (
        "mpi.get-bandwidth",
        Driver::Messages(Measure::Gets),
        &[("size", 65_536)],
    ),
    (
        "mpi.barrier-latency",
        Driver::Messages(Measure::Barrier),
        &[("ranks", 4)],
    ),
    (
        "mpi.broadcast-latency",
        Driver::Messages(Measure::Broadcast),
        &[("size", 1), ("ranks", 4)],
    ),
    (
        "mpi.allreduce-latency",
        Driver::Messages(Measure::AllReduce),
        &[("size", 8), ("ranks", 4)],
    ),
    (
        "mpi.allgather-latency",
        Driver::Messages(Measure::AllGather),
        &[("size", 8), ("ranks", 4)],
    ),
    (
        "mpi.alltoall-latency",
        Driver::Messages(Measure::AllToAll),
        &[("size", 8), ("ranks", 4)],
    ),
    (
        "halo",
        Driver::Halo,
        &[("ranks", 32), ("nodes", 4), ("tile", 2)],
    ),
];

/// Value of a benchmark parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// A size or another count.
    Count(u64),
    /// A kind, such as a transport.
    Word(String),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Count(count) => write!(f, "{count}"),
            Setting::Word(word) => f.write_str(word),
        }
    }
}

/// Reason why a point has no figure.
#[derive(Debug, thiserror::Error)]
pub enum PointError {
    /// Its profiles are invalid.
    #[error(transparent)]
    Profile(#[from] Error),
    /// Its benchmark has no figure, or several.
    #[error("{0}")]
    Benchmark(String),
}

/// Separates a system's name from its fidelity.
const BY_MESSAGES: &str = ":message";

/// Returns a system's name and the fidelity that is appended to it, by default that of packets.
pub(super) fn at_fidelity(system: &str) -> (&str, Fidelity) {
    match system.strip_suffix(BY_MESSAGES) {
        Some(name) => (name, Fidelity::Message),
        None => (system, Fidelity::Packet),
    }
}

/// A figure with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudyFigure {
    /// The benchmark's name for it, such as `bandwidth`.
    pub metric: String,
    /// The figure.
    pub value: f64,
    /// `us`, `MB/s`, or another unit of the suite's benchmark.
    pub unit: String,
}

/// The result of a point.
#[derive(Debug, Clone, PartialEq)]
pub struct PointResult {
    /// The figures, the headline first.
    pub figures: Vec<StudyFigure>,
    /// The hottest ports of a fabric that exists; none of others.
    pub hot_ports: Vec<HotPort>,
}

/// One point of a study.
#[derive(Debug, Clone)]
pub struct StudyPoint {
    pub(super) benchmark: &'static str,
    pub(super) system: String,
    pub(super) fabric: Option<StudyFabric>,
    pub(super) parameters: BTreeMap<String, Setting>,
    pub(super) profile: BTreeMap<String, f64>,
}

impl fmt::Display for StudyPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.benchmark, self.system)?;
        if let Some(name) = self.fabric_name() {
            write!(f, ", fabric {name}")?;
        }
        for (name, setting) in &self.parameters {
            write!(f, ", {name} {setting}")?;
        }
        for (path, value) in &self.profile {
            write!(f, ", {path} {value}")?;
        }
        Ok(())
    }
}

impl StudyPoint {
    /// Returns the name of its fabric, if the study has several.
    pub(super) fn fabric_name(&self) -> Option<&str> {
        self.fabric.as_ref()?.name.as_deref()
    }

    /// Runs the point.
    ///
    /// # Errors
    ///
    /// Returns [`PointError`] if a profile is invalid or the parameters do not select exactly one
    /// point.
    pub fn compute(&self, library: &Library) -> Result<PointResult, PointError> {
        let overrides = self
            .profile
            .iter()
            .fold(Overrides::none(), |all, (path, value)| {
                all.with(path, *value)
            });
        let (name, fidelity) = at_fidelity(&self.system);
        let library = library.with(&overrides)?;
        let library = match &self.fabric {
            Some(fabric) => fabric.joining(library),
            None => library,
        };
        let system = library.system(name)?;
        let effort = self.effort_on((&system, fidelity)).unwrap_or_default();
        let shortage = available().and_then(|available| shortage(effort.memory, available));
        if let Some(reason) = shortage {
            return Err(PointError::Benchmark(format!(
                "{}: {reason}",
                self.benchmark
            )));
        }
        let driver = DRIVERS.iter().find(|(name, _, _)| *name == self.benchmark);
        match driver {
            Some((_, driver, defaults)) => self.drive(*driver, defaults, (&system, fidelity)),
            None => suite::compute(self.benchmark, (&system, fidelity), &self.parameters),
        }
    }

    /// Estimates the effort of the point; `None` if it is small or its system is not in the
    /// library.
    pub fn effort(&self, library: &Library) -> Option<Effort> {
        let (name, fidelity) = at_fidelity(&self.system);
        let mut system = library.system(name).ok()?;
        if let Some(fabric) = &self.fabric {
            system.nodes = fabric.connections.wiring.nodes() as u64;
        }
        self.effort_on((&system, fidelity))
    }

    fn effort_on(&self, (system, fidelity): (&System, Fidelity)) -> Option<Effort> {
        let driver = DRIVERS.iter().find(|(name, _, _)| *name == self.benchmark);
        let Some((_, driver, defaults)) = driver else {
            let Some(Setting::Count(processes)) = self.parameters.get("processes") else {
                return None;
            };
            let size = self.given("size", &[]);
            return Some(Effort {
                nodes: *processes,
                memory: (PROCESS + size) * processes,
                ..Effort::default()
            });
        };
        let given = |name| self.given(name, defaults);
        let (measure, ranks, nodes) = match driver {
            Driver::InlineWrites => return None,
            Driver::Messages(measure) => (*measure, given("ranks").max(2), system.nodes.max(2)),
            Driver::Halo => (Measure::Halo, given("ranks"), given("nodes")),
        };
        let bytes = match driver {
            Driver::Halo => given("tile").saturating_mul(WORD),
            _ => given("size"),
        };
        let entry = ALL.iter().find(|entry| entry.measure == measure)?;
        let system = System {
            nodes,
            ..system.clone()
        };
        Some(effort(entry, (&system, fidelity), (ranks as usize, bytes)))
    }

    /// Returns a parameter, or its default.
    fn given(&self, name: &str, defaults: &[(&str, u64)]) -> u64 {
        match self.parameters.get(name) {
            Some(Setting::Count(count)) => *count,
            _ => {
                let default = defaults.iter().find(|(known, _)| *known == name);
                default.map_or(1, |(_, value)| *value)
            }
        }
    }

    fn drive(
        &self,
        driver: Driver,
        defaults: &[(&str, u64)],
        (system, fidelity): (&System, Fidelity),
    ) -> Result<PointResult, PointError> {
        let given = |name: &str| self.given(name, defaults);
        let (value, unit, metric, hot) = match driver {
            Driver::InlineWrites => {
                let bench = Latency::of(Operation::inline_write(given("size")));
                let bench = match given("connections") {
                    1 => bench,
                    connections => bench.connections(connections as usize),
                };
                let value = latency(system, bench.pairs(given("pairs") as usize));
                (value, "us", "latency", Vec::new())
            }
            Driver::Messages(measure) => {
                let ranks = (given("ranks") as usize).max(2);
                let run = measure.observe(fidelity, system, given("size"), ranks);
                (
                    run.figure,
                    measure.unit(),
                    measure.headline(),
                    run.hot_ports,
                )
            }
            Driver::Halo => {
                let (ranks, nodes) = (given("ranks") as usize, given("nodes") as usize);
                check_joins(system, nodes).map_err(PointError::Benchmark)?;
                let fidelity = match nodes {
                    0..=16 => fidelity,
                    _ => Fidelity::Message,
                };
                let run = halo_run(system, ranks, nodes, given("tile"), fidelity);
                (run.micros, "us", "exchange-time", run.hot_ports)
            }
        };
        Ok(PointResult {
            figures: vec![StudyFigure {
                metric: metric.to_owned(),
                value,
                unit: unit.to_owned(),
            }],
            hot_ports: hot_ports(&hot),
        })
    }
}

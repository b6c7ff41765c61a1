//! One point of a study: a benchmark with its parameters on a system with some values of its own.

use crate::application::halo_run;
use crate::bench::{
    Bandwidth, Direction, Latency, Operation, Ranks, Start, bandwidth, latency, mpi_bandwidth,
    mpi_latency,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use verbena_model::adapter::{Fidelity, Kind, Placement};
use verbena_model::profile::{Error, Library, Overrides};

/// A benchmark that a study can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Benchmark {
    Latency(Kind, Placement),
    Bandwidth(Kind, Direction),
    MpiLatency,
    MpiBandwidth,
    Halo,
}

impl Benchmark {
    /// Whether it needs a message-passing library.
    pub fn passes_messages(self) -> bool {
        matches!(
            self,
            Benchmark::MpiLatency | Benchmark::MpiBandwidth | Benchmark::Halo
        )
    }
}

/// The largest value of a parameter that a model is asked for.
pub(super) fn largest(parameter: &str) -> u64 {
    match parameter {
        "size" => 1 << 30,
        "tile" => 1 << 26,
        "pairs" => 512,
        _ => 65_536,
    }
}

/// Name, benchmark, and the parameters that it takes with their defaults.
type Entry = (&'static str, Benchmark, &'static [(&'static str, u64)]);

/// The benchmarks by name.
pub(super) const BENCHMARKS: &[Entry] = {
    use Benchmark as B;
    use Placement::{Inline, Reference};
    const PAIRS: &[(&str, u64)] = &[("size", 1), ("pairs", 1), ("connections", 1)];
    const STREAM: &[(&str, u64)] = &[
        ("size", 65_536),
        ("pairs", 1),
        ("connections", 1),
        ("window", 64),
    ];
    &[
        ("latency.write", B::Latency(Kind::Write, Reference), PAIRS),
        (
            "latency.write-inline",
            B::Latency(Kind::Write, Inline),
            PAIRS,
        ),
        ("latency.read", B::Latency(Kind::Read, Reference), PAIRS),
        ("latency.send", B::Latency(Kind::Send, Reference), PAIRS),
        (
            "bandwidth.write",
            B::Bandwidth(Kind::Write, Direction::One),
            STREAM,
        ),
        (
            "bandwidth.write-both",
            B::Bandwidth(Kind::Write, Direction::Both),
            STREAM,
        ),
        (
            "bandwidth.read",
            B::Bandwidth(Kind::Read, Direction::One),
            STREAM,
        ),
        (
            "bandwidth.send",
            B::Bandwidth(Kind::Send, Direction::One),
            STREAM,
        ),
        ("mpi.latency", B::MpiLatency, &[("size", 1)]),
        ("mpi.bandwidth", B::MpiBandwidth, &[("size", 65_536)]),
        ("halo", B::Halo, &[("ranks", 32), ("nodes", 4), ("tile", 2)]),
    ]
};

/// A figure with its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The figure.
    pub value: f64,
    /// `us` or `MB/s`.
    pub unit: String,
}

/// One point of a study.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub(super) benchmark: &'static str,
    pub(super) system: String,
    /// The benchmark's parameters.
    pub(super) parameters: BTreeMap<String, u64>,
    /// Values of profiles by path.
    pub(super) profile: BTreeMap<String, f64>,
}

impl Point {
    /// Runs it.
    pub fn compute(&self, library: &Library) -> Result<Figure, Error> {
        let overrides = self
            .profile
            .iter()
            .fold(Overrides::none(), |all, (path, value)| {
                all.with(path, *value)
            });
        let system = library.with(&overrides)?.system(&self.system)?;
        let (_, benchmark, defaults) = BENCHMARKS
            .iter()
            .find(|(name, _, _)| *name == self.benchmark)
            .expect("a study's benchmark is in the table");
        let given = |name: &str| {
            let default = defaults.iter().find(|(known, _)| *known == name);
            let default = default.map_or(1, |(_, value)| *value);
            self.parameters.get(name).copied().unwrap_or(default)
        };
        let figure = |value, unit: &str| Figure {
            value,
            unit: unit.to_owned(),
        };
        let size = given("size");
        Ok(match *benchmark {
            Benchmark::Latency(kind, placement) => {
                let bench = Latency::of(Operation::new(kind, size, placement));
                let bench = match given("connections") {
                    1 => bench,
                    connections => bench.connections(connections as usize),
                };
                let bench = Latency {
                    start: Start::Lockstep,
                    ..bench.pairs(given("pairs") as usize)
                };
                figure(latency(&system, bench), "us")
            }
            Benchmark::Bandwidth(kind, direction) => {
                let bench = Bandwidth {
                    direction,
                    window: given("window"),
                    ..Bandwidth::of(Operation::new(kind, size, Placement::Reference))
                        .pairs(given("pairs") as usize)
                        .connections(given("connections") as usize)
                };
                figure(bandwidth(&system, bench).received, "MB/s")
            }
            Benchmark::MpiLatency => figure(mpi_latency(&system, Ranks::Apart, size), "us"),
            Benchmark::MpiBandwidth => figure(
                mpi_bandwidth(&system, Ranks::Apart, size, Direction::One),
                "MB/s",
            ),
            Benchmark::Halo => {
                let (ranks, nodes) = (given("ranks") as usize, given("nodes") as usize);
                let fidelity = match nodes {
                    0..=16 => Fidelity::Packet,
                    _ => Fidelity::Message,
                };
                figure(
                    halo_run(&system, ranks, nodes, given("tile"), fidelity).micros,
                    "us",
                )
            }
        })
    }
}

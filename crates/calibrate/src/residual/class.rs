//! The properties by which the errors of models are grouped.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FigureKind {
    /// Time of a message.
    Latency,
    /// Rate of a stream of messages.
    Bandwidth,
}

impl FigureKind {
    /// Returns the kind of figures in a unit: rates end in `/s`, all others are times.
    pub fn of_unit(unit: &str) -> FigureKind {
        match unit.ends_with("/s") {
            true => FigureKind::Bandwidth,
            false => FigureKind::Latency,
        }
    }
}

impl fmt::Display for FigureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FigureKind::Latency => "latency",
            FigureKind::Bandwidth => "bandwidth",
        })
    }
}

/// The interface that a benchmark measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Work requests of a queue pair.
    Verbs,
    /// Messages of an MPI library.
    Mpi,
}

impl Layer {
    /// Returns the layer of a benchmark; `None` if no published curve is of its kind, as of the
    /// file service, of host memory, of MPI inside a node, and of MPI's collectives, exchanges of
    /// many ranks and one-sided calls: the curves of MPI are of messages between two ranks.
    pub fn of(benchmark: &str) -> Option<Layer> {
        if benchmark.ends_with("-inside") {
            return None;
        }
        let group = benchmark.split('.').next()?;
        match group {
            "latency" | "bandwidth" | "rate" => Some(Layer::Verbs),
            "mpi" => {
                const OF_TWO_RANKS: [&str; 4] =
                    ["latency", "pingping", "bandwidth", "bandwidth-both"];
                let (_, name) = benchmark.split_once('.')?;
                OF_TWO_RANKS.contains(&name).then_some(Layer::Mpi)
            }
            _ => None,
        }
    }
}

/// Returns the layer and the benchmark whose curves stand in for those of a benchmark of many
/// nodes or processes, as no such curves are published: those of two nodes with the same layer and
/// kind of figure. `None` for other benchmarks.
pub fn stand_in(benchmark: &str, figure: FigureKind) -> Option<(Layer, &'static str)> {
    if Layer::of(benchmark).is_some() || benchmark.ends_with("-inside") {
        return None;
    }
    let (group, _) = benchmark.split_once('.')?;
    match (group, figure) {
        ("patterns", FigureKind::Bandwidth) => Some((Layer::Verbs, "bandwidth.write")),
        ("patterns", FigureKind::Latency) => Some((Layer::Verbs, "latency.write")),
        ("mpi", FigureKind::Bandwidth) => Some((Layer::Mpi, "mpi.bandwidth")),
        ("mpi", FigureKind::Latency) => Some((Layer::Mpi, "mpi.latency")),
        _ => None,
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Verbs => "verbs",
            Layer::Mpi => "MPI",
        })
    }
}

/// Largest short message in bytes: a cache line.
const SHORT: u64 = 64;
/// Smallest long message in bytes: perftest's default.
const LONG: u64 = 65_536;

/// Message sizes whose errors are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum SizeClass {
    /// Up to 64 bytes.
    Short,
    /// Between the two limits.
    Middle,
    /// From 64 KiB on.
    Long,
}

impl SizeClass {
    /// All classes, by size.
    pub const ALL: [SizeClass; 3] = [SizeClass::Short, SizeClass::Middle, SizeClass::Long];

    /// Returns the class of a message size in bytes.
    pub fn of(bytes: u64) -> SizeClass {
        match bytes {
            0..=SHORT => SizeClass::Short,
            LONG.. => SizeClass::Long,
            _ => SizeClass::Middle,
        }
    }
}

impl fmt::Display for SizeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SizeClass::Short => "up to 64 B",
            SizeClass::Middle => "64 B to 64 KiB",
            SizeClass::Long => "from 64 KiB on",
        })
    }
}

/// Adapters of similar hosts and buses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Era {
    /// PCI-X and PCI Express 1 and 2: InfiniHost to ConnectX-2.
    Early,
    /// PCI Express 3 and later: ConnectX-3 and later.
    Late,
}

impl Era {
    /// Returns the era of an adapter's profile; `None` for a profile with another name.
    pub fn of(adapter: &str) -> Option<Era> {
        let number = adapter.strip_prefix("connectx");
        match number.and_then(|rest| rest.chars().next()) {
            Some('3'..='9') => Some(Era::Late),
            _ if number.is_some() || adapter.starts_with("infinihost") => Some(Era::Early),
            _ => None,
        }
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Era::Early => "adapters up to PCI Express 2",
            Era::Late => "adapters from PCI Express 3 on",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapters_have_an_era() {
        let eras = ["infinihost3-mem", "connectx", "connectx-2009"].map(Era::of);
        assert_eq!(eras, [Some(Era::Early); 3]);
        let eras = ["connectx3", "connectx6dx", "connectx7"].map(Era::of);
        assert_eq!(eras, [Some(Era::Late); 3]);
        assert_eq!(Era::of("mine"), None);
    }

    #[test]
    fn benchmarks_have_a_layer_if_there_are_curves_of_their_kind() {
        assert_eq!(Layer::of("latency.write"), Some(Layer::Verbs));
        assert_eq!(Layer::of("mpi.bandwidth"), Some(Layer::Mpi));
        assert_eq!(Layer::of("mpi.latency-inside"), None);
        assert_eq!(Layer::of("rfio.readers"), None);
        for of_many in ["mpi.alltoall-latency", "mpi.halo", "mpi.multi-pair-latency"] {
            assert_eq!(Layer::of(of_many), None, "{of_many}");
        }
        let stand_in = |benchmark| stand_in(benchmark, FigureKind::Bandwidth);
        let write = Some((Layer::Verbs, "bandwidth.write"));
        assert_eq!(stand_in("patterns.bisection"), write);
        for none in [
            "bandwidth.write",
            "mpi.halo-inside",
            "rfio.readers",
            "app.hpl",
        ] {
            assert_eq!(stand_in(none), None, "{none}");
        }
        assert_eq!(FigureKind::of_unit("bytes/s"), FigureKind::Bandwidth);
        assert_eq!(FigureKind::of_unit("ns"), FigureKind::Latency);
        let classes = [64, 65, 65_536].map(SizeClass::of);
        assert_eq!(classes, SizeClass::ALL);
    }
}

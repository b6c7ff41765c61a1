//! The benchmarks of message passing, as OSU's do them, on modelled libraries: they have no counterpart over the seam, for the
//! library is part of what is modelled.

use crate::application::{cyclic, job};
use crate::bench::{Direction, Ranks, mpi_bandwidth, mpi_latency};
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};
use verbena_model::adapter::Fidelity;
use verbena_model::mpi::Rank;
use verbena_model::profile::System;
use verbena_workloads::{Benchmark, Group, Processes};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Half a round trip.
    Latency,
    /// A window of messages one way.
    Bandwidth,
    /// A window each way.
    BothWays,
    /// Both send, then both receive.
    PingPing,
    /// All wait for all.
    Barrier,
    /// One has it, all get it.
    Broadcast,
    /// All get what all have together.
    AllReduce,
    /// All get what each has.
    AllGather,
    /// Each has something for each.
    AllToAll,
}

/// A benchmark and what it measures.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// As it is listed.
    pub benchmark: Benchmark,
    /// What it does.
    pub measure: Measure,
}

const fn entry(
    name: &'static str,
    measure: Measure,
    processes: Processes,
    answers: &'static str,
    source: &'static str,
) -> Entry {
    Entry {
        benchmark: Benchmark {
            name,
            group: Group::MessagePassing,
            answers,
            source,
            processes,
            axis: "size",
        },
        measure,
    }
}

/// All of them.
pub const ALL: &[Entry] = &[
    entry(
        "mpi.latency",
        Measure::Latency,
        Processes::Two,
        "How long does a message of the library take?",
        "osu_latency",
    ),
    entry(
        "mpi.bandwidth",
        Measure::Bandwidth,
        Processes::Two,
        "How fast do the library's messages flow one way?",
        "osu_bw",
    ),
    entry(
        "mpi.bandwidth-both",
        Measure::BothWays,
        Processes::Two,
        "How fast do they flow both ways?",
        "osu_bibw",
    ),
    entry(
        "mpi.pingping",
        Measure::PingPing,
        Processes::Two,
        "How long does a message take that another one meets?",
        "IMB's PingPing",
    ),
    entry(
        "mpi.barrier-latency",
        Measure::Barrier,
        Processes::AtLeast(2),
        "How long do all wait for all?",
        "osu_barrier",
    ),
    entry(
        "mpi.broadcast-latency",
        Measure::Broadcast,
        Processes::AtLeast(2),
        "How long until all have what one has?",
        "osu_bcast",
    ),
    entry(
        "mpi.allreduce-latency",
        Measure::AllReduce,
        Processes::AtLeast(2),
        "How long until all have the sum?",
        "osu_allreduce",
    ),
    entry(
        "mpi.allgather-latency",
        Measure::AllGather,
        Processes::AtLeast(2),
        "How long until all have what each has?",
        "osu_allgather",
    ),
    entry(
        "mpi.alltoall-latency",
        Measure::AllToAll,
        Processes::AtLeast(2),
        "How long until each has something of each?",
        "osu_alltoall",
    ),
];

/// The benchmark of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.benchmark.name == name)
}

/// Ranks of a collective, unless asked otherwise.
const RANKS: usize = 4;

impl Measure {
    /// `us`, or `MB/s` of 10^6 bytes.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Bandwidth | Measure::BothWays => "MB/s",
            _ => "us",
        }
    }

    /// The figure for messages of `bytes`, in that unit. Two ranks are on two nodes; more are dealt out over the system's nodes.
    /// Panics if the system has no message-passing library.
    pub fn figure(self, system: &System, bytes: u64, ranks: usize) -> f64 {
        match self {
            Measure::Latency => mpi_latency(system, Ranks::Apart, bytes),
            Measure::Bandwidth => mpi_bandwidth(system, Ranks::Apart, bytes, Direction::One),
            Measure::BothWays => mpi_bandwidth(system, Ranks::Apart, bytes, Direction::Both),
            Measure::PingPing => repeated(system, 2, async move |rank: &Rank| {
                let other = 1 - rank.number;
                rank.exchange(other, bytes, other).await;
            }),
            Measure::Barrier => {
                repeated(system, ranks, async move |rank: &Rank| rank.barrier().await)
            }
            Measure::Broadcast => repeated(system, ranks, async move |rank: &Rank| {
                rank.broadcast(bytes).await;
                // The next one begins when all have this one.
                rank.barrier().await;
            }),
            Measure::AllReduce => repeated(system, ranks, async move |rank: &Rank| {
                rank.all_reduce(bytes).await
            }),
            Measure::AllGather => repeated(system, ranks, async move |rank: &Rank| {
                rank.all_gather(bytes).await
            }),
            Measure::AllToAll => repeated(system, ranks, async move |rank: &Rank| {
                rank.all_to_all(bytes).await
            }),
        }
    }
}

/// Microseconds of an operation that all ranks do over and over.
fn repeated(system: &System, ranks: usize, operation: impl AsyncFn(&Rank) + Copy + 'static) -> f64 {
    const ROUNDS: u64 = 8;
    let nodes = (system.nodes as usize).max(2);
    // What is done but once, such as connecting and registering, is in the first round and subtracted.
    let span = |rounds: u64| {
        job(
            system,
            cyclic(ranks, nodes),
            Fidelity::Packet,
            |rank| async move {
                for _ in 0..rounds {
                    operation(&rank).await;
                }
            },
        )
    };
    (span(ROUNDS + 1) - span(1)).micros() / ROUNDS as f64
}

/// Points of a benchmark on a system, which must have a message-passing library, for these sizes.
pub fn points(entry: &Entry, system: &System, sizes: &[u64], ranks: Option<usize>) -> Vec<Point> {
    let collective = matches!(entry.benchmark.processes, Processes::AtLeast(_));
    let ranks = match collective {
        true => ranks
            .unwrap_or(RANKS)
            .max(entry.benchmark.processes.least()),
        false => 2,
    };
    let sizes = match entry.measure {
        Measure::Barrier => &[0],
        _ => sizes,
    };
    let point = |&bytes: &u64| {
        let figure = entry.measure.figure(system, bytes, ranks);
        let metric = match entry.measure.unit() {
            "us" if collective => Metric::figure("average-time", "ns", Better::Lower, figure * 1e3),
            "us" => Metric::figure("one-way-latency", "ns", Better::Lower, figure * 1e3),
            _ => Metric::figure("bandwidth", "bytes/s", Better::Higher, figure * 1e6),
        };
        // Names are those under which OSU's results are imported, so that the two can be laid over each other.
        let mut parameters = Parameters::from([("transport".to_owned(), Value::from("mpi"))]);
        if entry.measure != Measure::Barrier {
            parameters.insert("size".to_owned(), Value::from(bytes as usize));
        }
        if collective {
            parameters.insert("processes".to_owned(), Value::from(ranks));
        }
        Point {
            benchmark: entry.benchmark.name.to_owned(),
            launch: 0,
            parameters,
            metrics: vec![metric],
            pairs: Vec::new(),
            conduct: Conduct::default(),
            warnings: Vec::new(),
        }
    };
    sizes.iter().map(point).collect()
}

/// Sizes that are measured unless asked otherwise.
pub fn sizes(quick: bool) -> Vec<u64> {
    let step = if quick { 4 } else { 1 };
    (0..=20).step_by(step).map(|power| 1 << power).collect()
}

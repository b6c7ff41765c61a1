//! The table of MPI benchmarks, as in the OSU suite, and their runs on modelled libraries. The
//! crate `bench-mpi` runs the same table over real ones. They have no counterpart over the fabric
//! interface, because the library is part of the model.

use crate::application::{grid, halo_run};
use crate::bench::{Direction, Observed, Ranks, mpi_bandwidth_observed, mpi_latency_observed};
use verbena_measure::compare::Better;
use verbena_measure::result::{Conduct, Metric, Parameters, Point, Value};
use verbena_model::adapter::Fidelity;
use verbena_model::kernel::JoinHandle;
use verbena_model::mpi::Rank;
use verbena_model::profile::System;
use verbena_replay::{cyclic, run_on_ranks, run_rounds};
use verbena_workloads::modelled::hot_ports;
use verbena_workloads::{Benchmark, Group, Processes};

/// Measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Half a round trip.
    Latency,
    /// A window of messages in one direction.
    Bandwidth,
    /// A window in each direction.
    BothWays,
    /// Both ranks send, then both receive.
    PingPing,
    /// All ranks wait for all.
    Barrier,
    /// One rank's data go to all ranks.
    Broadcast,
    /// All ranks get the combined data of all.
    AllReduce,
    /// All ranks get each rank's data.
    AllGather,
    /// Each rank has data for each rank.
    AllToAll,
    /// Half a round trip, between many pairs at the same time.
    PairsLatency,
    /// A window of messages in one direction, between many pairs at the same time.
    PairsBandwidth,
    /// Edges of tiles.
    Halo,
    /// Time until a write to the peer's memory is complete.
    Put,
    /// Time until a read of the peer's memory is complete.
    Get,
    /// A window of writes in one direction.
    Puts,
    /// A window of reads.
    Gets,
}

/// A benchmark and its quantity.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The benchmark as listed.
    pub benchmark: Benchmark,
    /// Its quantity.
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
            axis: match measure {
                Measure::PairsLatency | Measure::PairsBandwidth => "pairs",
                Measure::Halo => "tiles",
                _ => "size",
            },
        },
        measure,
    }
}

/// All benchmarks.
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
        "How fast are the library's messages one way?",
        "osu_bw",
    ),
    entry(
        "mpi.bandwidth-both",
        Measure::BothWays,
        Processes::Two,
        "How fast are the library's messages both ways?",
        "osu_bibw",
    ),
    entry(
        "mpi.pingping",
        Measure::PingPing,
        Processes::Two,
        "How long does a message take while another comes back?",
        "IMB's PingPing",
    ),
    entry(
        "mpi.barrier-latency",
        Measure::Barrier,
        Processes::AtLeast(2),
        "How long does a barrier take?",
        "osu_barrier",
    ),
    entry(
        "mpi.broadcast-latency",
        Measure::Broadcast,
        Processes::AtLeast(2),
        "How long does a broadcast take?",
        "osu_bcast",
    ),
    entry(
        "mpi.allreduce-latency",
        Measure::AllReduce,
        Processes::AtLeast(2),
        "How long does a sum over all take?",
        "osu_allreduce",
    ),
    entry(
        "mpi.allgather-latency",
        Measure::AllGather,
        Processes::AtLeast(2),
        "How long does gathering to all take?",
        "osu_allgather",
    ),
    entry(
        "mpi.alltoall-latency",
        Measure::AllToAll,
        Processes::AtLeast(2),
        "How long does an exchange of all with all take?",
        "osu_alltoall",
    ),
    entry(
        "mpi.multi-pair-latency",
        Measure::PairsLatency,
        Processes::Pairs,
        "Does latency hold when many pairs communicate?",
        "osu_multi_lat",
    ),
    entry(
        "mpi.multi-pair-bandwidth",
        Measure::PairsBandwidth,
        Processes::Pairs,
        "What total bandwidth and message rate do many pairs get?",
        "osu_mbw_mr",
    ),
    entry(
        "mpi.halo",
        Measure::Halo,
        Processes::AtLeast(4),
        "How long does a 2-D halo exchange by the library take?",
        "connectx_multicore, section 3.4",
    ),
    entry(
        "mpi.put-latency",
        Measure::Put,
        Processes::Two,
        "How long does a put take?",
        "osu_put_latency",
    ),
    entry(
        "mpi.get-latency",
        Measure::Get,
        Processes::Two,
        "How long does a get take?",
        "osu_get_latency",
    ),
    entry(
        "mpi.put-bandwidth",
        Measure::Puts,
        Processes::Two,
        "How fast are puts?",
        "osu_put_bw",
    ),
    entry(
        "mpi.get-bandwidth",
        Measure::Gets,
        Processes::Two,
        "How fast are gets?",
        "osu_get_bw",
    ),
];

/// Returns the benchmark of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.benchmark.name == name)
}

const RANKS: usize = 4;
const PAIRS: [usize; 4] = [1, 2, 4, 8];
/// Bytes of an element of `mpi.halo`.
pub const WORD: u64 = 4;
/// Number of messages in a window.
pub(crate) const WINDOW: u64 = 64;

impl Measure {
    /// Returns the unit: `us`, or `MB/s` of 10^6 bytes.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Bandwidth
            | Measure::BothWays
            | Measure::PairsBandwidth
            | Measure::Puts
            | Measure::Gets => "MB/s",
            _ => "us",
        }
    }

    /// Returns the figure for messages of `bytes`, in that unit. Two ranks run on two nodes; more
    /// are distributed over the system's nodes.
    ///
    /// # Panics
    ///
    /// If the system has no message-passing library.
    pub fn figure(self, system: &System, bytes: u64, ranks: usize) -> f64 {
        self.figure_at(Fidelity::Packet, system, bytes, ranks)
    }

    /// Returns the metric names of a benchmark's figure. A model's adapter fetches from memory
    /// regardless of caches, so streams over alternating buffers and over a single one are equal.
    fn names(self) -> &'static [&'static str] {
        match self {
            Measure::Bandwidth | Measure::BothWays => &["bandwidth", "cached-bandwidth"],
            Measure::PairsBandwidth | Measure::Puts | Measure::Gets => &["cached-bandwidth"],
            Measure::Put | Measure::Get => &["completion-latency"],
            Measure::Latency | Measure::PingPing | Measure::PairsLatency => &["one-way-latency"],
            Measure::Halo => &["exchange-time"],
            Measure::Barrier
            | Measure::Broadcast
            | Measure::AllReduce
            | Measure::AllGather
            | Measure::AllToAll => &["average-time"],
        }
    }

    /// Returns the name of the figure in results.
    pub fn headline(self) -> &'static str {
        self.names()[0]
    }

    /// Like [`figure`](Measure::figure), at a fidelity. Benchmarks of two ranks always simulate
    /// packets.
    ///
    /// # Panics
    ///
    /// If the system has no message-passing library.
    pub fn figure_at(self, fidelity: Fidelity, system: &System, bytes: u64, ranks: usize) -> f64 {
        self.observe(fidelity, system, bytes, ranks).figure
    }

    /// Like [`figure_at`](Measure::figure_at), with the ports that the messages use most.
    ///
    /// # Panics
    ///
    /// If the system has no message-passing library.
    pub fn observe(
        self,
        fidelity: Fidelity,
        system: &System,
        bytes: u64,
        ranks: usize,
    ) -> Observed {
        let run = Repeated {
            system,
            nodes: (system.nodes as usize).max(2),
            ranks,
            fidelity,
        };
        match self {
            Measure::Latency => mpi_latency_observed(system, Ranks::Apart, bytes),
            Measure::Bandwidth => {
                mpi_bandwidth_observed(system, Ranks::Apart, bytes, Direction::One)
            }
            Measure::BothWays => {
                mpi_bandwidth_observed(system, Ranks::Apart, bytes, Direction::Both)
            }
            Measure::PairsLatency => {
                let round_trip = Repeated { nodes: 2, ..run }.micros(async move |rank: &Rank| {
                    let other = rank.number ^ 1;
                    match rank.number < other {
                        true => {
                            rank.send(other, bytes).await;
                            rank.receive(other).await;
                        }
                        false => {
                            rank.receive(other).await;
                            rank.send(other, bytes).await;
                        }
                    }
                });
                round_trip.map(|micros| micros / 2.0)
            }
            Measure::PairsBandwidth => {
                let window = Repeated { nodes: 2, ..run }.micros(async move |rank: &Rank| {
                    let other = rank.number ^ 1;
                    let is_sender = rank.number < other;
                    let messages: Vec<_> = (0..WINDOW)
                        .map(|_| match is_sender {
                            true => rank.begin_send(other, bytes),
                            false => rank.begin_receive(other),
                        })
                        .collect();
                    for message in messages {
                        message.await;
                    }
                    match is_sender {
                        true => rank.receive(other).await,
                        false => rank.send(other, WORD).await,
                    }
                });
                let moved = (ranks as u64 / 2 * WINDOW * bytes) as f64;
                window.map(|micros| moved / micros)
            }
            Measure::Halo => {
                let halo = halo_run(system, ranks, run.nodes, bytes.div_ceil(WORD), fidelity);
                Observed {
                    figure: halo.micros,
                    hot_ports: halo.hot_ports,
                }
            }
            Measure::Put => alone(system, async move |rank: &Rank| {
                rank.write_to(1, bytes).await
            }),
            Measure::Get => alone(system, async move |rank: &Rank| {
                rank.read_from(1, bytes).await
            }),
            Measure::Puts => stream(system, bytes, move |rank| rank.begin_write_to(1, bytes)),
            Measure::Gets => stream(system, bytes, move |rank| rank.begin_read_from(1, bytes)),
            Measure::PingPing => Repeated::of_two(system).micros(async move |rank: &Rank| {
                let other = 1 - rank.number;
                rank.exchange(other, bytes, other).await;
            }),
            Measure::Barrier => run.micros(async move |rank: &Rank| rank.barrier().await),
            Measure::Broadcast => run.micros(async move |rank: &Rank| {
                rank.broadcast(bytes).await;
                // The next broadcast begins when all ranks have this one.
                rank.barrier().await;
            }),
            Measure::AllReduce => run.micros(async move |rank: &Rank| rank.all_reduce(bytes).await),
            Measure::AllGather => run.micros(async move |rank: &Rank| rank.all_gather(bytes).await),
            Measure::AllToAll => run.micros(async move |rank: &Rank| rank.all_to_all(bytes).await),
        }
    }
}

/// Rounds of an operation that count.
pub(crate) const ROUNDS: u64 = 8;
/// Ranks from which rounds are simulated only until they repeat exactly.
const MANY: usize = 64;

/// An operation that all ranks repeat.
#[derive(Clone, Copy)]
struct Repeated<'a> {
    system: &'a System,
    /// Nodes over which the ranks are distributed.
    nodes: usize,
    ranks: usize,
    fidelity: Fidelity,
}

impl Repeated<'_> {
    /// Returns one of two ranks on two nodes.
    fn of_two(system: &System) -> Repeated<'_> {
        Repeated {
            system,
            nodes: 2,
            ranks: 2,
            fidelity: Fidelity::Packet,
        }
    }

    /// Returns the microseconds of an operation, and the hottest ports of all of its rounds.
    fn micros(self, operation: impl AsyncFn(&Rank) + Copy + Sync + 'static) -> Observed {
        // One-time costs, such as connecting and registering, are in the first round and
        // subtracted.
        let span = |rounds: u64| {
            let placement = cyclic(self.ranks, self.nodes);
            run_on_ranks(self.system, placement, self.fidelity, |rank| async move {
                for _ in 0..rounds {
                    operation(&rank).await;
                }
            })
        };
        let (first, last, hot_ports) = match self.ranks >= MANY {
            true => {
                let placement = cyclic(self.ranks, self.nodes);
                let (system, all) = (self.system, ROUNDS as usize + 1);
                let (rounds, hot_ports) =
                    run_rounds(system, placement, self.fidelity, all, operation);
                let first = rounds.first.unwrap_or_else(|| span(1).end);
                (first, rounds.last, hot_ports)
            }
            false => {
                let all = span(ROUNDS + 1);
                (span(1).end, all.end, all.hot_ports)
            }
        };
        Observed {
            figure: (last - first).micros() / ROUNDS as f64,
            hot_ports,
        }
    }
}

/// Returns the microseconds of an operation of the first of two ranks in which the other takes no
/// part.
fn alone(system: &System, operation: impl AsyncFn(&Rank) + Copy + Sync + 'static) -> Observed {
    Repeated::of_two(system).micros(async move |rank: &Rank| {
        if rank.number == 0 {
            operation(rank).await;
        }
    })
}

/// Returns the rate of windows of concurrent accesses of `bytes` each, in bytes a microsecond.
fn stream(
    system: &System,
    bytes: u64,
    begin: impl Fn(&Rank) -> JoinHandle<()> + Copy + Sync + 'static,
) -> Observed {
    let window = alone(system, async move |rank: &Rank| {
        let all: Vec<_> = (0..WINDOW).map(|_| begin(rank)).collect();
        for one in all {
            one.await;
        }
    });
    window.map(|micros| (WINDOW * bytes) as f64 / micros)
}

/// Returns the numbers of ranks to run a benchmark with: the requested ones, as far as the
/// benchmark has a choice.
pub fn crews(entry: &Entry, processes: Option<usize>, pairs: Option<&[usize]>) -> Vec<usize> {
    match entry.benchmark.processes {
        Processes::AtLeast(least) => vec![processes.unwrap_or(least.max(RANKS))],
        Processes::Pairs => pairs
            .unwrap_or(&PAIRS)
            .iter()
            .map(|pairs| 2 * pairs)
            .collect(),
        Processes::One | Processes::Two => vec![2],
    }
}

/// Returns the number of nodes over which a benchmark's ranks are distributed.
pub fn nodes(entry: &Entry, system: &System) -> usize {
    match entry.benchmark.processes {
        Processes::AtLeast(_) => (system.nodes as usize).max(2),
        _ => 2,
    }
}

impl Entry {
    /// Estimates the memory of a point at message fidelity, in bytes, of ranks that send `messages`
    /// messages in a round together. Measured with 64 to 32768 ranks on 2 to 4096 nodes: 26 KiB a
    /// node and at most 18 KiB a rank; in an exchange of all with all, 6 KiB for each message.
    pub fn memory(&self, nodes: usize, ranks: usize, messages: u64) -> u64 {
        let (nodes, ranks) = (nodes as u64, ranks as u64);
        let messages = match self.measure {
            Measure::AllToAll => messages,
            _ => 0,
        };
        (26 << 10) * nodes.min(ranks) + (18 << 10) * ranks + (6 << 10) * messages
    }
}

/// Returns the points of a benchmark, (ranks, bytes), for these sizes and numbers of ranks.
pub fn points(entry: &Entry, sizes: &[u64], crews: &[usize]) -> Vec<(usize, u64)> {
    let sizes = match entry.measure {
        Measure::Barrier => &[0],
        _ => sizes,
    };
    let each = crews
        .iter()
        .flat_map(|&ranks| sizes.iter().map(move |&bytes| (ranks, bytes)));
    each.collect()
}

/// Computes a point. The system must have a message-passing library.
///
/// # Panics
///
/// If it has none.
pub fn point(
    entry: &Entry,
    (system, fidelity): (&System, Fidelity),
    (ranks, bytes): (usize, u64),
) -> Point {
    let observed = entry.measure.observe(fidelity, system, bytes, ranks);
    let figure = observed.figure;
    // The names match those of measurements and of imported OSU results, so that curves can be
    // overlaid; so do those of the parameters.
    let metrics = entry
        .measure
        .names()
        .iter()
        .map(|name| match entry.measure.unit() {
            "MB/s" => Metric::figure(name, "bytes/s", Better::Higher, figure * 1e6),
            _ => Metric::figure(name, "ns", Better::Lower, figure * 1e3),
        });
    Point {
        benchmark: entry.benchmark.name.to_owned(),
        launch: 0,
        parameters: parameters(entry, (ranks, bytes)),
        metrics: metrics.collect(),
        pairs: Vec::new(),
        conduct: Conduct::default(),
        hot_ports: hot_ports(&observed.hot_ports),
        warnings: Vec::new(),
    }
}

/// Returns the parameters of a point.
pub fn parameters(entry: &Entry, (ranks, bytes): (usize, u64)) -> Parameters {
    let mut parameters = Parameters::from([("transport".to_owned(), Value::from("mpi"))]);
    let mut put = |name: &str, value: usize| parameters.insert(name.to_owned(), Value::from(value));
    if entry.measure != Measure::Barrier {
        put("size", bytes as usize);
    }
    match entry.benchmark.processes {
        Processes::AtLeast(_) => drop(put("processes", ranks)),
        Processes::Pairs => drop(put("pairs", ranks / 2)),
        Processes::One | Processes::Two => {}
    }
    if entry.measure == Measure::Halo {
        let (columns, rows) = grid(ranks);
        put("tiles", bytes.div_ceil(WORD) as usize);
        put("rows", rows);
        put("columns", columns);
    }
    parameters
}

/// Returns the default message sizes of a benchmark.
pub fn sizes(entry: &Entry, quick: bool) -> Vec<u64> {
    let step = if quick { 4 } else { 1 };
    match (entry.measure, quick) {
        (Measure::Halo, true) => [1, 32, 1024].map(|words| words * WORD).to_vec(),
        (Measure::Halo, false) => (0..=10).map(|power| WORD << power).collect(),
        (Measure::PairsLatency | Measure::PairsBandwidth, true) => vec![8, 65_536],
        (Measure::PairsLatency | Measure::PairsBandwidth, false) => {
            vec![1, 8, 64, 512, 4096, 65_536, 1 << 20]
        }
        _ => (0..=20).step_by(step).map(|power| 1 << power).collect(),
    }
}

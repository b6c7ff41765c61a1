//! Computes the published figures of the paper `connectx_multicore` (`papers/`): InfiniHost III and
//! ConnectX, DDR, on hosts of the Bensley platform.

use super::{Bench, Computed, mean_ratio};
use crate::application::{halo, lammps};
use crate::mpi_benchmarks::{Measure, WORD};
use crate::suite::Suite;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::System;

/// Sizes below 256 bytes, as in the figures.
const BELOW_256: [u64; 8] = [1, 2, 4, 8, 16, 32, 64, 128];

/// Returns the latency of inline writes of several pairs in lockstep, in microseconds.
pub(crate) fn write(system: &System, bytes: u64, pairs: usize) -> f64 {
    let suite = Suite::new(system, "multi-pair.write-latency");
    suite.pairs(pairs).size(bytes).figure()
}

/// Like [`fn@write`], for reads.
pub(crate) fn read(system: &System, bytes: u64, pairs: usize) -> f64 {
    let suite = Suite::new(system, "multi-pair.read-latency");
    suite.pairs(pairs).size(bytes).figure()
}

fn send(system: &System) -> f64 {
    let suite = Suite::new(system, "latency.send");
    suite.transport("rc").size(1).figure()
}

/// Returns the bandwidth of writes of several pairs together, in 10^6 bytes a second.
pub(crate) fn write_bandwidth(system: &System, bytes: u64, pairs: usize) -> f64 {
    let suite = Suite::new(system, "multi-pair.write-bandwidth");
    suite.pairs(pairs).size(bytes).every_signalled().figure()
}

/// A quantity that is measured with verbs or MPI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// Half a round trip of inline writes, in microseconds.
    WriteLatency,
    /// The time of a read, in microseconds.
    ReadLatency,
    /// Half a round trip of messages, in microseconds.
    SendLatency,
    /// The bandwidth of writes of all pairs together, in 10^6 bytes a second.
    WriteBandwidth,
    /// Half a round trip of messages by MPI, in microseconds.
    MpiLatency,
    /// The bandwidth of messages by MPI over one buffer, in 10^6 bytes a second.
    MpiBandwidth,
    /// The time of an exchange of edges with four neighbours by MPI, in microseconds.
    MpiHalo,
}

impl Quantity {
    /// Returns the MPI benchmark that measures it; none if it is measured with verbs.
    pub fn mpi(self) -> Option<&'static str> {
        match self {
            Quantity::WriteLatency
            | Quantity::ReadLatency
            | Quantity::SendLatency
            | Quantity::WriteBandwidth => None,
            Quantity::MpiLatency => Some("mpi.latency"),
            Quantity::MpiBandwidth => Some("mpi.bandwidth"),
            Quantity::MpiHalo => Some("mpi.halo"),
        }
    }
}

/// A measurement of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Setup {
    /// The name of its system.
    pub system: &'static str,
    /// The quantity.
    pub quantity: Quantity,
    /// Size of a message in bytes.
    pub bytes: u64,
    /// Pairs of processes that measure at once; of an exchange by MPI half of the processes.
    pub pairs: usize,
}

impl Setup {
    /// Returns its name in tables.
    pub fn name(self) -> String {
        let quantity = match self.quantity {
            Quantity::WriteLatency => "write latency (us)",
            Quantity::ReadLatency => "read latency (us)",
            Quantity::SendLatency => "send latency (us)",
            Quantity::WriteBandwidth => "write bandwidth (MB/s)",
            Quantity::MpiLatency => "MPI latency (us)",
            Quantity::MpiBandwidth => "MPI bandwidth (MB/s)",
            Quantity::MpiHalo => "MPI halo exchange (us)",
        };
        let Setup {
            system,
            bytes,
            pairs,
            ..
        } = self;
        let crew = match (self.quantity, pairs) {
            (Quantity::MpiHalo, _) => format!("{} processes", 2 * pairs),
            (_, 1) => "1 pair".to_owned(),
            _ => format!("{pairs} pairs"),
        };
        format!("{system} {quantity}, {bytes} B, {crew}")
    }

    /// Returns its figure on the model of its system.
    pub(crate) fn modelled(self, system: &System) -> f64 {
        let Setup { bytes, pairs, .. } = self;
        match self.quantity {
            Quantity::WriteLatency => write(system, bytes, pairs),
            Quantity::ReadLatency => read(system, bytes, pairs),
            Quantity::SendLatency => send(system),
            Quantity::WriteBandwidth => write_bandwidth(system, bytes, pairs),
            Quantity::MpiLatency => Measure::Latency.figure(system, bytes, 2),
            Quantity::MpiBandwidth => Measure::Bandwidth.figure(system, bytes, 2),
            // One process on each node.
            Quantity::MpiHalo => {
                let ranks = 2 * pairs;
                halo(system, ranks, ranks, bytes / WORD, Fidelity::Packet)
            }
        }
    }
}

/// Returns the largest payload that perftest sends inline, in bytes: latencies of writes and sends
/// over RC, on the adapters that it knows by their part numbers (`ctx_set_max_inline`,
/// `ib_dev_name`). It knows ConnectX of all generations, and no InfiniHost.
fn inline_of_perftest(quantity: Quantity, system: &System) -> u32 {
    let device = system.adapter.device.as_ref();
    let is_known = device.is_some_and(|device| device.name.starts_with("mlx"));
    match quantity {
        Quantity::WriteLatency if is_known => 220,
        Quantity::SendLatency if is_known => 236,
        _ => 0,
    }
}

/// Returns the figure of a measurement on the model of its system as it is made live. In perftest,
/// pairs run independently, and payload is inline as [`inline_of_perftest`] says. The MPI library
/// of the system stands for the installed one.
pub(crate) fn live(setup: Setup, system: &System) -> f64 {
    let suite = |benchmark| {
        let inline = inline_of_perftest(setup.quantity, system);
        let suite = Suite::new(system, benchmark)
            .size(setup.bytes)
            .inline(inline);
        match setup.quantity {
            Quantity::SendLatency => suite.transport("rc"),
            _ => suite.pairs(setup.pairs).free(),
        }
    };
    let suite = match setup.quantity {
        Quantity::WriteLatency => suite("multi-pair.write-latency"),
        Quantity::ReadLatency => suite("multi-pair.read-latency"),
        Quantity::SendLatency => suite("latency.send"),
        Quantity::WriteBandwidth => suite("multi-pair.write-bandwidth"),
        Quantity::MpiLatency | Quantity::MpiBandwidth | Quantity::MpiHalo => {
            return setup.modelled(system);
        }
    };
    suite.figure()
}

const THIRD: &str = "infinihost3-ddr";
const CONNECTX: &str = "connectx-ddr";

/// Returns the result for a claim about verbs from the figures of its measurements; `None` for
/// another claim.
pub(crate) fn of_setups(what: &str, figure: &mut dyn FnMut(Setup) -> f64) -> Option<Computed> {
    let mut of = |system, quantity, bytes, pairs| {
        figure(Setup {
            system,
            quantity,
            bytes,
            pairs,
        })
    };
    use Quantity::{ReadLatency, SendLatency, WriteBandwidth, WriteLatency};
    let figure = match what {
        "infinihost3_base_latency" => of(THIRD, WriteLatency, 1, 1),
        "infinihost3_base_bandwidth" => of(THIRD, WriteBandwidth, 65536, 1),
        "send_vs_write_connectx" => {
            of(CONNECTX, SendLatency, 1, 1) - of(CONNECTX, WriteLatency, 1, 1)
        }
        "send_vs_write_infinihost3" => of(THIRD, SendLatency, 1, 1) - of(THIRD, WriteLatency, 1, 1),
        "write_latency_128B_8pairs" => of(CONNECTX, WriteLatency, 128, 8),
        "write_latency_256B_8pairs" => of(CONNECTX, WriteLatency, 256, 8),
        "write_latency_256B_8pairs_coalescing" => {
            of("connectx-ddr-coalescing", WriteLatency, 256, 8)
        }
        "write_latency_flat_connectx" => {
            let (worst, size) = BELOW_256
                .iter()
                .map(|&bytes| {
                    let [eight, one] = [8, 1].map(|pairs| of(CONNECTX, WriteLatency, bytes, pairs));
                    (eight / one, bytes)
                })
                .fold(
                    (0.0, 0),
                    |worst, next| if next.0 > worst.0 { next } else { worst },
                );
            return Some(Computed::Shape {
                holds: worst <= 1.25,
                seen: format!("largest ratio {worst:.3}, at {size} B"),
                figures: vec![worst],
            });
        }
        "write_latency_gain_8pairs" => {
            mean_ratio(BELOW_256.map(|bytes| {
                of(THIRD, WriteLatency, bytes, 8) / of(CONNECTX, WriteLatency, bytes, 8)
            }))
        }
        "read_latency_infinihost3" => of(THIRD, ReadLatency, 1, 1),
        "read_latency_connectx" => of(CONNECTX, ReadLatency, 1, 1),
        "read_latency_two_pairs_connectx" => {
            let [one, two, four, eight] =
                [1, 2, 4, 8].map(|pairs| of(CONNECTX, ReadLatency, 1, pairs));
            return Some(Computed::Shape {
                holds: two / one <= 1.1 && two < four && four < eight,
                seen: format!("{one:.2}, {two:.2}, {four:.2}, {eight:.2} us with 1, 2, 4, 8 pairs"),
                figures: vec![one, two, four, eight],
            });
        }
        "read_latency_gain_8pairs" => {
            mean_ratio([1, 4, 16, 64, 256, 512].map(|bytes| {
                of(THIRD, ReadLatency, bytes, 8) / of(CONNECTX, ReadLatency, bytes, 8)
            }))
        }
        "write_bandwidth_drop_infinihost3" => mean_ratio([64, 256, 1024].map(|bytes| {
            of(THIRD, WriteBandwidth, bytes, 1) / of(THIRD, WriteBandwidth, bytes, 8)
        })),
        "write_bandwidth_flat_connectx" => {
            let mut worst = f64::MAX;
            for bytes in [64, 256, 1024, 4096, 16384, 65536] {
                let one = of(CONNECTX, WriteBandwidth, bytes, 1);
                for pairs in [2, 4, 8] {
                    worst = worst.min(of(CONNECTX, WriteBandwidth, bytes, pairs) / one);
                }
            }
            let large = [1, 8].map(|pairs| of(CONNECTX, WriteBandwidth, 262_144, pairs));
            let share = large[0] / large[1];
            return Some(Computed::Shape {
                holds: worst >= 0.95 && share >= 0.95,
                seen: format!(
                    "smallest ratio {worst:.3}; one pair reaches {share:.3} of the maximum"
                ),
                figures: vec![worst, share],
            });
        }
        "write_bandwidth_gain_256B_8pairs" => {
            of(CONNECTX, WriteBandwidth, 256, 8) / of(THIRD, WriteBandwidth, 256, 8)
        }
        _ => return None,
    };
    Some(Computed::Figure(figure))
}

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let modelled = |setup: Setup| setup.modelled(&bench.system(setup.system));
    if let Some(computed) = of_setups(what, &mut { modelled }) {
        return Some(computed);
    }
    let third = bench.system(THIRD);
    let connectx = bench.system(CONNECTX);
    let figure = match what {
        "outstanding_reads_firmware" => connectx.adapter.send.reads.0 as f64,
        "halo_gain_small_tiles" => halo_time(&third, 32, 2) / halo_time(&connectx, 32, 2),
        "halo_gain_scaling" => {
            // The bound holds for all ratios; the figure shown is the one nearest to a limit.
            let ratios = [4, 8, 16, 32]
                .map(|ranks| halo_time(&third, ranks, 2) / halo_time(&connectx, ranks, 2));
            let room = |ratio: &f64| (ratio / 2.0).min(5.0 / ratio);
            ratios
                .into_iter()
                .min_by(|a, b| room(a).total_cmp(&room(b)))
                .unwrap_or(f64::NAN)
        }
        "lammps_gain_16" => {
            let [slow, fast] = loop_times(bench, [&third, &connectx], 16);
            (1.0 - fast / slow) * 100.0
        }
        "lammps_equal_8" => {
            let differences = [2, 4, 8].map(|ranks| {
                let [slow, fast] = loop_times(bench, [&third, &connectx], ranks);
                (1.0 - fast / slow).abs() * 100.0
            });
            return Some(Computed::Shape {
                holds: differences.iter().all(|&d| d < 3.0),
                seen: format!("{differences:.2?} % with 2, 4, 8 processes"),
                figures: differences.to_vec(),
            });
        }
        _ => return None,
    };
    Some(Computed::Figure(figure))
}

/// Returns the microseconds of an exchange on four nodes.
pub(crate) fn halo_time(system: &System, ranks: usize, tile: u64) -> f64 {
    halo(system, ranks, 4, tile, Fidelity::Packet)
}

/// Returns the milliseconds of a step of the rhodopsin benchmark on four nodes.
pub(crate) fn loop_times(bench: &Bench<'_>, systems: [&System; 2], ranks: usize) -> [f64; 2] {
    let applications = bench.applications();
    systems.map(|system| lammps(system, &applications, ranks, 4))
}

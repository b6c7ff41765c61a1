//! Computes the published figures of the paper `connectx_multicore` (`papers/`): InfiniHost III and
//! ConnectX, DDR, on hosts of the Bensley platform.

use super::{Bench, Computed, mean_ratio};
use crate::application::{halo, lammps};
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

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let third = bench.system("infinihost3-ddr");
    let connectx = bench.system("connectx-ddr");
    let figure = match what {
        "infinihost3_base_latency" => write(&third, 1, 1),
        "infinihost3_base_bandwidth" => write_bandwidth(&third, 65536, 1),
        "send_vs_write_connectx" => send(&connectx) - write(&connectx, 1, 1),
        "send_vs_write_infinihost3" => send(&third) - write(&third, 1, 1),
        "write_latency_128B_8pairs" => write(&connectx, 128, 8),
        "write_latency_256B_8pairs" => write(&connectx, 256, 8),
        "write_latency_256B_8pairs_coalescing" => {
            write(&bench.system("connectx-ddr-coalescing"), 256, 8)
        }
        "write_latency_flat_connectx" => {
            let (worst, size) = BELOW_256
                .iter()
                .map(|&bytes| {
                    (
                        write(&connectx, bytes, 8) / write(&connectx, bytes, 1),
                        bytes,
                    )
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
            mean_ratio(BELOW_256.map(|bytes| write(&third, bytes, 8) / write(&connectx, bytes, 8)))
        }
        "read_latency_infinihost3" => read(&third, 1, 1),
        "read_latency_connectx" => read(&connectx, 1, 1),
        "read_latency_two_pairs_connectx" => {
            let [one, two, four, eight] = [1, 2, 4, 8].map(|pairs| read(&connectx, 1, pairs));
            return Some(Computed::Shape {
                holds: two / one <= 1.1 && two < four && four < eight,
                seen: format!("{one:.2}, {two:.2}, {four:.2}, {eight:.2} us with 1, 2, 4, 8 pairs"),
                figures: vec![one, two, four, eight],
            });
        }
        "read_latency_gain_8pairs" => mean_ratio(
            [1, 4, 16, 64, 256, 512]
                .map(|bytes| read(&third, bytes, 8) / read(&connectx, bytes, 8)),
        ),
        "outstanding_reads_firmware" => connectx.adapter.send.reads.0 as f64,
        "write_bandwidth_drop_infinihost3" => mean_ratio(
            [64, 256, 1024]
                .map(|bytes| write_bandwidth(&third, bytes, 1) / write_bandwidth(&third, bytes, 8)),
        ),
        "write_bandwidth_flat_connectx" => {
            let mut worst = f64::MAX;
            for bytes in [64, 256, 1024, 4096, 16384, 65536] {
                let one = write_bandwidth(&connectx, bytes, 1);
                for pairs in [2, 4, 8] {
                    worst = worst.min(write_bandwidth(&connectx, bytes, pairs) / one);
                }
            }
            let large = [1, 8].map(|pairs| write_bandwidth(&connectx, 262_144, pairs));
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
            write_bandwidth(&connectx, 256, 8) / write_bandwidth(&third, 256, 8)
        }
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

//! Computes the published figures of the paper `qdr_evaluation`. Its SDR and DDR figures were
//! taken on older hardware: the InfiniHost III and the ConnectX on PCI Express 1.

use super::{Bench, Computed};
use crate::bench::{Bandwidth, Direction, Operation, bandwidth, ipoib_bandwidth, ipoib_latency};
use crate::suite::Suite;
use verbena_model::adapter::{Kind, Placement, Transport};
use verbena_model::profile::System;

/// Factor from 10^6 bytes a second to gigabits a second.
const GIGABIT: f64 = 8e-3;
/// Largest inline message of the tools that use inline data.
pub(crate) const INLINE: u32 = 220;
const SRQ_PAIRS: usize = 16;

/// Runs the SRQ test: sends in both directions on many queue pairs.
pub(crate) fn srq(system: &System, bytes: u64) -> f64 {
    let operation = Operation::new(Kind::Send, bytes, Placement::Reference);
    let bench = Bandwidth::of(operation).connections(SRQ_PAIRS).both_ways();
    bandwidth(system, bench).received * GIGABIT
}

/// Returns the rates of a one-way datagram stream at the sender and at the receiver.
fn datagrams(system: &System) -> (f64, f64) {
    let operation = Operation::new(Kind::Send, 2048, Placement::Reference);
    let bench = Bandwidth {
        transport: Transport::Datagram,
        messages: 400,
        ..Bandwidth::of(operation)
    };
    let rates = bandwidth(system, bench);
    (rates.sent * GIGABIT, rates.received * GIGABIT)
}

/// Returns the latency of a message benchmark in microseconds; messages up to `inline` bytes are
/// inline.
pub(crate) fn latency(system: &System, benchmark: &'static str, inline: u32, bytes: u64) -> f64 {
    let suite = Suite::new(system, benchmark);
    suite.transport("rc").size(bytes).inline(inline).figure()
}

/// Returns the latency of one byte, the smallest.
fn smallest(system: &System, benchmark: &'static str, inline: u32) -> f64 {
    latency(system, benchmark, inline, 1)
}

/// Returns the rate of a ping-pong, 10^6 bytes a second.
pub(crate) fn ping_pong_rate(system: &System, bytes: u64) -> f64 {
    let suite = Suite::new(system, "latency.send");
    bytes as f64 / suite.transport("rc").size(bytes).inline(0).figure()
}

/// Returns the message size with half the peak rate, by bisection.
fn half_power(system: &System) -> f64 {
    let peak = ping_pong_rate(system, 4 << 20);
    let (mut low, mut high) = (64.0f64, 262_144.0f64);
    for _ in 0..20 {
        let middle = (low * high).sqrt();
        match ping_pong_rate(system, middle as u64) < peak / 2.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    (low * high).sqrt()
}

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let qdr = bench.system("connectx-qdr");
    let copper = bench.system("connectx-qdr-back-to-back");
    let fibre = bench.system("connectx-qdr-fibre");
    let ddr = bench.system("connectx-ddr-legacy");
    let sdr = bench.system("infinihost3-sdr-legacy");
    let figure = match what {
        "bibandwidth_switched" => srq(&qdr, 1 << 20),
        "bibandwidth_back_to_back_copper" => srq(&copper, 1 << 20),
        "bibandwidth_back_to_back_fibre" => srq(&fibre, 1 << 20),
        "bandwidth_ddr" => srq(&ddr, 1 << 20),
        "bandwidth_sdr" => srq(&sdr, 1 << 20),
        // The paper lists these together, so all use one operation.
        "latency_qdr_switched" => smallest(&qdr, "latency.write", INLINE),
        "latency_ddr_switched" => smallest(&ddr, "latency.write", INLINE),
        "latency_sdr_switched" => smallest(&sdr, "latency.write", INLINE),
        "latency_back_to_back_copper" => smallest(&copper, "latency.write", INLINE),
        "latency_back_to_back_fibre" => smallest(&fibre, "latency.write", INLINE),
        // The protocol comparison's tool posts by reference.
        "verbs_latency_optical" => smallest(&fibre, "latency.write", 0),
        "ipoib_latency_optical" => ipoib_latency(&fibre, &bench.stack(), 1),
        "ipoib_bibandwidth" => {
            let stack = bench.stack();
            ipoib_bandwidth(&qdr, &stack, stack.mtu.0, Direction::Both) * GIGABIT
        }
        "n_half" => half_power(&qdr),
        "bandwidth_constant_above_1MB" => {
            let mega = 1u64 << 20;
            let large = [mega, 2 * mega, 4 * mega].map(|bytes| srq(&qdr, bytes));
            let spread = large.iter().cloned().fold(0.0, f64::max)
                / large.iter().cloned().fold(f64::MAX, f64::min)
                - 1.0;
            let small = srq(&qdr, 64) / large[2];
            // A step: one byte more than a whole number of full packets costs another packet.
            let steps = [&qdr, &ddr, &sdr].map(|system| {
                ping_pong_rate(system, 4 * 2048) / ping_pong_rate(system, 4 * 2048 + 1)
            });
            return Some(Computed::Shape {
                holds: spread <= 0.02 && small < 0.25 && steps.iter().all(|&step| step > 1.0),
                seen: format!(
                    "spread {:.2} % above 1 MiB; 64 B reaches {:.1} % of it; \
                     steps of {steps:.3?} past a packet",
                    spread * 100.0,
                    small * 100.0
                ),
                figures: [&large[..], &[small], &steps].concat(),
            });
        }
        "ud_send" => datagrams(&qdr).0,
        "ud_receive" => datagrams(&qdr).1,
        "reliable" => Suite::new(&qdr, "bandwidth.send").size(65536).figure() * GIGABIT,
        _ => return None,
    };
    Some(Computed::Figure(figure))
}

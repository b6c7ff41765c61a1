//! The curves behind the figures of qdr_evaluation: rates and latencies by message size at three
//! signal rates, with two kinds of cable, with and without a switch.

use super::Position::{At, OnAxis};
use super::sketch::{LATENCY, SIZE, Sketch, evenly};
use super::{Axis, Scale};
use crate::claims::Bench;
use crate::claims::qdr_evaluation::{INLINE, latency, ping_pong_rate, srq};
use std::sync::Arc;
use verbena_model::profile::System;

const SMALL: [u64; 8] = [1, 8, 32, 128, 256, 512, 1024, 4096];
const STREAMED: [u64; 9] = [
    64,
    256,
    1024,
    4096,
    16_384,
    65_536,
    262_144,
    1 << 20,
    4 << 20,
];
const HALF: [u64; 10] = [
    256,
    1024,
    2048,
    4096,
    8192,
    16_384,
    65_536,
    262_144,
    1 << 20,
    4 << 20,
];
const GIGABITS: Axis = Axis {
    name: "bandwidth",
    unit: "Gbit/s",
    scale: Scale::Log,
};

pub(super) fn figures<'a>(bench: &'a Bench<'a>) -> Vec<Sketch<'a>> {
    let system = |name: &str| Arc::new(bench.system(name));
    let qdr = system("connectx-qdr");
    let copper = system("connectx-qdr-back-to-back");
    let fibre = system("connectx-qdr-fibre");
    let ddr = system("connectx-ddr-legacy");
    let sdr = system("infinihost3-sdr-legacy");
    // As the claims read the paper: QDR by inline writes, DDR by sends by reference, SDR by inline
    // sends.
    let of = |system: &Arc<System>, benchmark: &'static str, inline: u32| {
        let system = system.clone();
        move |bytes| latency(&system, benchmark, inline, bytes)
    };
    let rate = |system: &Arc<System>| {
        let system = system.clone();
        move |bytes| srq(&system, bytes)
    };
    let ping_pong = |system: &Arc<System>| {
        let system = system.clone();
        move |bytes| ping_pong_rate(&system, bytes)
    };
    let large = At((1 << 20) as f64);
    vec![
        Sketch::new(
            "latency-by-signal-rate",
            "Signal rates",
            "Latency over a switch, copper",
            [SIZE, LATENCY],
        )
        .curve("QDR", &SMALL, of(&qdr, "latency.write", INLINE))
        .curve("DDR", &SMALL, of(&ddr, "latency.write", INLINE))
        .curve("SDR", &SMALL, of(&sdr, "latency.write", INLINE))
        .claim("latency_qdr_switched", "QDR", At(1.0))
        .claim("latency_ddr_switched", "DDR", At(1.0))
        .claim("latency_sdr_switched", "SDR", At(1.0)),
        Sketch::new(
            "bandwidth-by-signal-rate",
            "Signal rates",
            "Sends both ways over a switch, copper",
            [SIZE, GIGABITS],
        )
        .curve("QDR", &STREAMED, rate(&qdr))
        .curve("DDR", &STREAMED, rate(&ddr))
        .curve("SDR", &STREAMED, rate(&sdr))
        .claim("bibandwidth_switched", "QDR", large)
        .claim("bandwidth_ddr", "DDR", large)
        .claim("bandwidth_sdr", "SDR", large),
        Sketch::new(
            "latency-by-cable",
            "Cables",
            "Write latency, back to back",
            [SIZE, LATENCY],
        )
        .curve("copper", &SMALL, of(&copper, "latency.write", INLINE))
        .curve("fibre", &SMALL, of(&fibre, "latency.write", INLINE))
        .curve(
            "fibre, by reference",
            &SMALL,
            of(&fibre, "latency.write", 0),
        )
        .claim("latency_back_to_back_copper", "copper", At(1.0))
        .claim("latency_back_to_back_fibre", "fibre", At(1.0))
        .claim("verbs_latency_optical", "fibre, by reference", At(1.0)),
        Sketch::new(
            "bandwidth-by-cable",
            "Cables",
            "Sends both ways, back to back",
            [SIZE, GIGABITS],
        )
        .curve("copper", &STREAMED, rate(&copper))
        .curve("fibre", &STREAMED, rate(&fibre))
        .claim("bibandwidth_back_to_back_copper", "copper", large)
        .claim("bibandwidth_back_to_back_fibre", "fibre", large),
        Sketch::new(
            "half-power",
            "Procedure",
            "Rate of a ping-pong; the published size reaches half of the peak",
            [SIZE, evenly("rate", "MB/s")],
        )
        .curve("QDR", &HALF, ping_pong(&qdr))
        .claim("n_half", "QDR", OnAxis),
    ]
}

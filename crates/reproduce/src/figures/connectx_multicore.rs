//! Figures 2 and 3 of connectx_multicore.

use super::Position::{At, Over};
use super::sketch::{BANDWIDTH, LATENCY, SIZE, Sketch, doubling, evenly, ratio};
use crate::claims::Bench;
use crate::claims::connectx_multicore::{halo_time, loop_times, read, write, write_bandwidth};
use std::sync::Arc;
use verbena_model::profile::System;

const PAIRS: [(&str, usize); 4] = [
    ("1 pair", 1),
    ("2 pairs", 2),
    ("4 pairs", 4),
    ("8 pairs", 8),
];
/// As in the paper's figures of latency, up to the size where the adapters' differences end.
const SMALL: [u64; 10] = [1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096];
const STREAMED: [u64; 9] = [4, 16, 64, 256, 1024, 4096, 16_384, 65_536, 262_144];
const TILES: [u64; 6] = [2, 8, 32, 128, 512, 1024];
const RANKS: [u64; 4] = [4, 8, 16, 32];

/// Draws a curve for each number of pairs.
fn by_pairs<'a>(
    sketch: Sketch<'a>,
    system: &Arc<System>,
    sizes: &[u64],
    measure: fn(&System, u64, usize) -> f64,
) -> Sketch<'a> {
    PAIRS.iter().fold(sketch, |sketch, &(label, pairs)| {
        let system = system.clone();
        sketch.curve(label, sizes, move |bytes| measure(&system, bytes, pairs))
    })
}

/// Draws the ratios of two adapters' curves.
fn gain<'a>(sketch: Sketch<'a>, sizes: &[u64], of: &'static str, by: &'static str) -> Sketch<'a> {
    PAIRS.iter().fold(sketch, |sketch, &(label, _)| {
        sketch.quotient(label, sizes, (of, label), (by, label))
    })
}

pub(super) fn figures<'a>(bench: &'a Bench<'a>) -> Vec<Sketch<'a>> {
    let third = Arc::new(bench.system("infinihost3-ddr"));
    let connectx = Arc::new(bench.system("connectx-ddr"));
    let coalescing = bench.system("connectx-ddr-coalescing");
    let mut figures = Vec::new();
    let sketch = |what, place, title, y| Sketch::new(what, place, title, [SIZE, y]);

    let drawn = sketch(
        "write-latency-infinihost3",
        "Figure 2(a)",
        "RDMA write latency, InfiniHost III",
        LATENCY,
    );
    figures.push(by_pairs(drawn, &third, &SMALL, write).claim(
        "infinihost3_base_latency",
        "1 pair",
        At(1.0),
    ));
    let drawn = sketch(
        "write-latency-connectx",
        "Figure 2(b)",
        "RDMA write latency, ConnectX",
        LATENCY,
    );
    figures.push(
        by_pairs(drawn, &connectx, &SMALL, write)
            .curve(
                "8 pairs, 128 B payload and coalescing",
                &SMALL,
                move |bytes| write(&coalescing, bytes, 8),
            )
            .claim("write_latency_128B_8pairs", "8 pairs", At(128.0))
            .claim("write_latency_256B_8pairs", "8 pairs", At(256.0))
            .claim(
                "write_latency_256B_8pairs_coalescing",
                "8 pairs, 128 B payload and coalescing",
                At(256.0),
            ),
    );
    let drawn = sketch(
        "write-latency-gain",
        "Figure 2(c)",
        "RDMA write latency, InfiniHost III over ConnectX",
        ratio("gain"),
    );
    figures.push(
        gain(
            drawn,
            &SMALL,
            "write-latency-infinihost3",
            "write-latency-connectx",
        )
        .claim("write_latency_gain_8pairs", "8 pairs", Over(1.0, 128.0)),
    );

    let drawn = sketch(
        "read-latency-infinihost3",
        "Figure 2(d)",
        "RDMA read latency, InfiniHost III",
        LATENCY,
    );
    figures.push(by_pairs(drawn, &third, &SMALL, read).claim(
        "read_latency_infinihost3",
        "1 pair",
        At(1.0),
    ));
    let drawn = sketch(
        "read-latency-connectx",
        "Figure 2(e)",
        "RDMA read latency, ConnectX",
        LATENCY,
    );
    figures.push(by_pairs(drawn, &connectx, &SMALL, read).claim(
        "read_latency_connectx",
        "1 pair",
        At(1.0),
    ));
    let drawn = sketch(
        "read-latency-gain",
        "Figure 2(f)",
        "RDMA read latency, InfiniHost III over ConnectX",
        ratio("gain"),
    );
    figures.push(
        gain(
            drawn,
            &SMALL,
            "read-latency-infinihost3",
            "read-latency-connectx",
        )
        .claim("read_latency_gain_8pairs", "8 pairs", Over(1.0, 512.0)),
    );

    let drawn = sketch(
        "write-bandwidth-infinihost3",
        "Figure 2(g)",
        "Aggregate RDMA write bandwidth, InfiniHost III",
        BANDWIDTH,
    );
    figures.push(by_pairs(drawn, &third, &STREAMED, write_bandwidth).claim(
        "infinihost3_base_bandwidth",
        "1 pair",
        At(65_536.0),
    ));
    let drawn = sketch(
        "write-bandwidth-connectx",
        "Figure 2(h)",
        "Aggregate RDMA write bandwidth, ConnectX",
        BANDWIDTH,
    );
    figures.push(by_pairs(drawn, &connectx, &STREAMED, write_bandwidth));
    let drawn = sketch(
        "write-bandwidth-drop",
        "3.3, Figures 2(g) and 2(h)",
        "Aggregate RDMA write bandwidth, 1 pair over 8 pairs",
        ratio("drop"),
    );
    figures.push(
        drawn
            .quotient(
                "InfiniHost III",
                &STREAMED,
                ("write-bandwidth-infinihost3", "1 pair"),
                ("write-bandwidth-infinihost3", "8 pairs"),
            )
            .quotient(
                "ConnectX",
                &STREAMED,
                ("write-bandwidth-connectx", "1 pair"),
                ("write-bandwidth-connectx", "8 pairs"),
            )
            .claim(
                "write_bandwidth_drop_infinihost3",
                "InfiniHost III",
                Over(64.0, 1024.0),
            ),
    );
    let drawn = sketch(
        "write-bandwidth-gain",
        "Figure 2(i)",
        "Aggregate RDMA write bandwidth, ConnectX over InfiniHost III",
        ratio("gain"),
    );
    figures.push(
        gain(
            drawn,
            &STREAMED,
            "write-bandwidth-connectx",
            "write-bandwidth-infinihost3",
        )
        .claim("write_bandwidth_gain_256B_8pairs", "8 pairs", At(256.0)),
    );
    figures.extend(applications(bench, third, connectx));
    figures
}

/// Draws Figure 3. The paper draws times relative to InfiniHost III; its text and the claims give
/// the gain, which is drawn here.
fn applications<'a>(
    bench: &'a Bench<'a>,
    third: Arc<System>,
    connectx: Arc<System>,
) -> Vec<Sketch<'a>> {
    let systems = [third, connectx];
    let halo = |ranks: usize, tile: u64, systems: &[Arc<System>; 2]| {
        let [slow, fast] = systems
            .each_ref()
            .map(|system| halo_time(system, ranks, tile));
        slow / fast
    };
    let (by_tile, by_ranks, by_atoms) = (systems.clone(), systems.clone(), systems);
    vec![
        Sketch::new(
            "halo-tiles",
            "Figure 3(a)",
            "Halo on 32 processes, InfiniHost III's time over ConnectX's",
            [doubling("tile"), ratio("gain")],
        )
        .curve("gain", &TILES, move |tile| halo(32, tile, &by_tile))
        .claim("halo_gain_small_tiles", "gain", At(2.0)),
        Sketch::new(
            "halo-processes",
            "Figure 3(b)",
            "Halo with tiles of 2, InfiniHost III's time over ConnectX's",
            [doubling("processes"), ratio("gain")],
        )
        .curve("gain", &RANKS, move |ranks| {
            halo(ranks as usize, 2, &by_ranks)
        })
        .claim("halo_gain_scaling", "gain", Over(4.0, 32.0)),
        Sketch::new(
            "lammps",
            "Figure 3(c)",
            "LAMMPS' rhodopsin benchmark, ConnectX's loop time below InfiniHost III's",
            [doubling("processes"), evenly("less time", "%")],
        )
        .curve("less time", &[2, 4, 8, 16], move |ranks| {
            let [slow, fast] = loop_times(
                bench,
                by_atoms.each_ref().map(|system| &**system),
                ranks as usize,
            );
            (1.0 - fast / slow) * 100.0
        })
        .claim("lammps_gain_16", "less time", At(16.0)),
    ]
}

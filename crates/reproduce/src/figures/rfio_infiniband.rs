//! Figures 1 to 4 and 6 of rfio_infiniband, and its message passing by size.

use super::Position::{At, OnAxis, Over};
use super::sketch::{BANDWIDTH, LATENCY, SIZE, Sketch, doubling, evenly};
use crate::application::{hpl, lattice_per_cpu};
use crate::bench::{Contents, Direction, Ranks, Reading, file_service, mpi_bandwidth, mpi_latency};
use crate::claims::Bench;
use crate::claims::rfio_infiniband::NEWER_MPI;
use std::sync::Arc;
use verbena_model::profile::System;

const SMALL: [u64; 8] = [1, 8, 64, 256, 1024, 4096, 16_384, 65_536];
const STREAMED: [u64; 9] = [
    64,
    1024,
    4096,
    8192,
    16_384,
    32_768,
    65_536,
    262_144,
    1 << 20,
];
const READERS: [u64; 8] = [1, 2, 3, 4, 6, 12, 18, 24];
const FILES: [u64; 5] = [1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24];
/// Numbers of CPUs with an HPL recording.
const LINPACK: [u64; 6] = [1, 2, 4, 8, 16, 26];

pub(super) fn figures<'a>(bench: &'a Bench<'a>) -> Vec<Sketch<'a>> {
    let xeon = Arc::new(bench.system("infinihost-xeon"));
    let opteron = Arc::new(bench.system("infinihost-opteron"));
    let newer = Arc::new(bench.system_with("infinihost-opteron", NEWER_MPI));
    let latency = |system: &Arc<System>, ranks: Ranks| {
        let system = system.clone();
        move |bytes| mpi_latency(&system, ranks, bytes)
    };
    let bandwidth = |system: &Arc<System>, ranks: Ranks| {
        let system = system.clone();
        move |bytes| mpi_bandwidth(&system, ranks, bytes, Direction::One)
    };
    let (apart, together) = (Ranks::Apart, Ranks::Together);
    let place = "Bandwidth and Latency";
    let mut figures = vec![
        Sketch::new("mpi-latency", place, "MPI ping-pong", [SIZE, LATENCY])
            .curve("Xeon, two nodes", &SMALL, latency(&xeon, apart))
            .curve("Opteron, two nodes", &SMALL, latency(&opteron, apart))
            .curve("Xeon, one node", &SMALL, latency(&xeon, together))
            .curve(
                "Opteron, one node, MVAPICH 0.9.4",
                &SMALL,
                latency(&newer, together),
            )
            .claim("mpi_latency_xeon", "Xeon, two nodes", At(1.0))
            .claim("mpi_latency_opteron", "Opteron, two nodes", At(1.0))
            .claim("smp_latency_xeon", "Xeon, one node", At(1.0))
            .claim(
                "smp_latency_opteron",
                "Opteron, one node, MVAPICH 0.9.4",
                At(1.0),
            ),
        Sketch::new("mpi-bandwidth", place, "MPI bandwidth", [SIZE, BANDWIDTH])
            .curve("Xeon, two nodes", &STREAMED, bandwidth(&xeon, apart))
            .curve("Opteron, two nodes", &STREAMED, bandwidth(&opteron, apart))
            .curve("Xeon, one node", &STREAMED, bandwidth(&xeon, together))
            .curve(
                "Opteron, one node",
                &STREAMED,
                bandwidth(&opteron, together),
            )
            .claim("mpi_bandwidth_xeon", "Xeon, two nodes", At(262_144.0))
            .claim("mpi_bandwidth_opteron", "Opteron, two nodes", At(262_144.0))
            .part(
                "smp_bandwidth_xeon",
                "at_16k",
                "Xeon, one node",
                At(16_384.0),
            )
            .part(
                "smp_bandwidth_xeon",
                "large",
                "Xeon, one node",
                At((1 << 20) as f64),
            )
            .part(
                "smp_bandwidth_opteron",
                "at_8k",
                "Opteron, one node",
                At(8192.0),
            )
            .part(
                "smp_bandwidth_opteron",
                "large",
                "Opteron, one node",
                At((1 << 20) as f64),
            ),
    ];
    figures.extend(applications(bench, &xeon));
    figures.extend(transfers(bench, &xeon, &opteron));
    figures.extend(readers(bench, opteron));
    figures
}

fn applications<'a>(bench: &'a Bench<'a>, xeon: &Arc<System>) -> Vec<Sketch<'a>> {
    let cluster = xeon.clone();
    let linpack = move |cpus: u64| hpl(&cluster, &bench.applications(), cpus as usize, 2);
    let lattice = |per_node: usize| {
        let system = xeon.clone();
        move |cpus| lattice_per_cpu(&system, &bench.applications(), cpus as usize, per_node)
    };
    vec![
        Sketch::new(
            "hpl",
            "MPI over InfiniBand, Figure 1",
            "HPL on dual-Xeon nodes",
            [evenly("CPUs", ""), evenly("speed", "Gflops")],
        )
        .curve("HPL", &LINPACK, linpack)
        .claim("hpl", "HPL", At(26.0)),
        Sketch::new(
            "lattice",
            "Figure 2",
            "Lattice QCD on dual-Xeon nodes",
            [doubling("CPUs"), evenly("speed of a CPU", "Mflop/s")],
        )
        .curve("one CPU a node", &[1, 2, 4, 8], lattice(1))
        .curve("two CPUs a node", &[2, 4, 8, 16], lattice(2)),
    ]
}

/// Figures 3 and 4: one transfer between two systems of the same type.
fn transfers<'a>(
    bench: &'a Bench<'a>,
    xeon: &Arc<System>,
    opteron: &Arc<System>,
) -> Vec<Sketch<'a>> {
    let transfer = |system: &Arc<System>, contents: Contents| {
        let system = system.clone();
        move |bytes: u64| {
            let service = bench.service();
            let blocks = bytes.div_ceil(service.block.0);
            file_service(
                &system,
                &service,
                Reading {
                    readers: 1,
                    blocks,
                    contents,
                },
            )
        }
    };
    let rate = |system: &Arc<System>, contents: Contents| {
        let transfer = transfer(system, contents);
        move |bytes| transfer(bytes).aggregate
    };
    let load = |system: &Arc<System>, contents: Contents| {
        let transfer = transfer(system, contents);
        move |bytes| transfer(bytes).processors * 100.0
    };
    let size = super::Axis {
        name: "file size",
        ..SIZE
    };
    let by_contents = |what, title, y: super::Axis| {
        Sketch::new(what, "Figures 3 and 4", title, [size, y]).note(
            "The model has no connection set-up, to which the paper ascribes what small transfers \
         lose. Writing (Figure 5) is the same in the model with the ends exchanged.",
        )
    };
    let (file, unfilled) = (Contents::File, Contents::Unfilled);
    vec![
        by_contents(
            "transfer",
            "One transfer between two of a kind, cached file or unfilled buffers",
            evenly("rate", "MB/s"),
        )
        .curve("Opteron, unfilled", &FILES, rate(opteron, unfilled))
        .curve("Opteron, file", &FILES, rate(opteron, file))
        .curve("Xeon, unfilled", &FILES, rate(xeon, unfilled))
        .curve("Xeon, file", &FILES, rate(xeon, file)),
        by_contents(
            "transfer-load",
            "The server's processors during one transfer",
            evenly("processors", "%"),
        )
        .curve("Opteron, unfilled", &FILES, load(opteron, unfilled))
        .curve("Opteron, file", &FILES, load(opteron, file))
        .curve("Xeon, unfilled", &FILES, load(xeon, unfilled))
        .curve("Xeon, file", &FILES, load(xeon, file)),
    ]
}

fn readers<'a>(bench: &'a Bench<'a>, opteron: Arc<System>) -> Vec<Sketch<'a>> {
    let served = Arc::new(move |readers: u64| {
        file_service(&opteron, &bench.service(), Reading::by(readers as usize))
    });
    let (all, each, load) = (served.clone(), served.clone(), served);
    let readers = evenly("readers", "");
    vec![
        Sketch::new(
            "readers",
            "Aggregate throughput, Figure 6",
            "Readers of one cached file",
            [readers, evenly("rate", "MB/s")],
        )
        .curve("all together", &READERS, move |readers| {
            all(readers).aggregate
        })
        .curve("each", &READERS, move |readers| {
            each(readers).aggregate / readers as f64
        })
        .claim("rfio_single_reader", "all together", At(1.0))
        .claim("rfio_aggregate", "all together", Over(3.0, 24.0))
        .claim("rfio_saturation", "all together", OnAxis),
        Sketch::new(
            "server-load",
            "Aggregate throughput",
            "The server's processors",
            [readers, evenly("processors", "%")],
        )
        .curve("server", &READERS, move |readers| {
            load(readers).processors * 100.0
        })
        .claim("rfio_server_cpu", "server", At(24.0)),
    ]
}

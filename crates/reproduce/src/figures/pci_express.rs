//! The curves behind the abstract of pci_express: latency and bandwidth by message size on PCI
//! Express and PCI-X.

use super::Position::At;
use super::sketch::{BANDWIDTH, LATENCY, SIZE, Sketch, ratio};
use crate::bench::{Direction, Ranks, mpi_bandwidth, mpi_latency};
use crate::claims::Bench;
use crate::claims::pci_express::{LARGE, send, sends};
use std::sync::Arc;
use verbena_model::profile::System;

const SMALL: [u64; 8] = [1, 8, 32, 128, 256, 512, 1024, 4096];
const STREAMED: [u64; 8] = [16, 64, 256, 1024, 4096, 16_384, 65_536, LARGE];
/// Message passing reaches its peak where the rendezvous no longer matters.
const PASSED: [u64; 7] = [64, 1024, 4096, 16_384, 65_536, LARGE, 4 * LARGE];
const PEAK: f64 = LARGE as f64;

pub(super) fn figures<'a>(bench: &'a Bench<'a>) -> Vec<Sketch<'a>> {
    let system = |name: &str| Arc::new(bench.system(name));
    let [pcie, pcie_two] = ["infinihost3-mem-sdr", "infinihost3-mem-sdr-2port"].map(system);
    let [pcix, pcix_two] = ["infinihost-pcix", "infinihost-pcix-2port"].map(system);
    let sent = |system: &Arc<System>| {
        let system = system.clone();
        move |bytes| send(&system, bytes)
    };
    let streamed = |system: &Arc<System>, direction: Direction| {
        let system = system.clone();
        move |bytes| sends(&system, direction, bytes)
    };
    let passed = |direction: Direction| {
        let system = pcie_two.clone();
        move |bytes| mpi_bandwidth(&system, Ranks::Apart, bytes, direction)
    };
    let bandwidth = |what, title, direction| {
        Sketch::new(what, "Abstract", title, [SIZE, BANDWIDTH])
            .curve(
                "PCI Express, one port",
                &STREAMED,
                streamed(&pcie, direction),
            )
            .curve(
                "PCI Express, two ports",
                &STREAMED,
                streamed(&pcie_two, direction),
            )
            .curve("PCI-X, one port", &STREAMED, streamed(&pcix, direction))
            .curve(
                "PCI-X, two ports",
                &STREAMED,
                streamed(&pcix_two, direction),
            )
    };
    let gain = |what, of, title| {
        Sketch::new(what, "Abstract", title, [SIZE, ratio("gain")])
            .quotient(
                "one port",
                &STREAMED,
                (of, "PCI Express, one port"),
                (of, "PCI-X, one port"),
            )
            .quotient(
                "two ports",
                &STREAMED,
                (of, "PCI Express, two ports"),
                (of, "PCI-X, two ports"),
            )
    };
    let single = pcie.clone();
    vec![
        Sketch::new("latency", "Abstract", "Latency of sends", [SIZE, LATENCY])
            .curve("PCI Express", &SMALL, sent(&pcie))
            .curve("PCI-X", &SMALL, sent(&pcix))
            .curve("PCI Express, MPI", &SMALL, move |bytes| {
                mpi_latency(&single, Ranks::Apart, bytes)
            })
            .claim("latency_pcie", "PCI Express", At(1.0))
            .claim("latency_pcix", "PCI-X", At(1.0))
            .claim("mpi_latency", "PCI Express, MPI", At(1.0)),
        bandwidth("bandwidth", "Sends one way", Direction::One)
            .claim("bandwidth_one_port", "PCI Express, one port", At(PEAK))
            .claim("bandwidth_two_ports", "PCI Express, two ports", At(PEAK)),
        gain(
            "bandwidth-gain",
            "bandwidth",
            "Sends one way, PCI Express over PCI-X",
        )
        .claim("bandwidth_one_port_over_pcix", "one port", At(PEAK))
        .claim("bandwidth_two_ports_over_pcix", "two ports", At(PEAK)),
        bandwidth("bibandwidth", "Sends both ways", Direction::Both)
            .claim("bibandwidth_one_port", "PCI Express, one port", At(PEAK))
            .claim("bibandwidth_two_ports", "PCI Express, two ports", At(PEAK)),
        gain(
            "bibandwidth-gain",
            "bibandwidth",
            "Sends both ways, PCI Express over PCI-X",
        )
        .claim("bibandwidth_one_port_over_pcix", "one port", At(PEAK))
        .claim("bibandwidth_two_ports_over_pcix", "two ports", At(PEAK)),
        Sketch::new(
            "mpi-bandwidth",
            "Abstract",
            "MPI over both ports, PCI Express",
            [SIZE, BANDWIDTH],
        )
        .curve("one way", &PASSED, passed(Direction::One))
        .curve("both ways", &PASSED, passed(Direction::Both))
        .claim("mpi_bandwidth", "one way", At(4.0 * PEAK))
        .claim("mpi_bibandwidth", "both ways", At(4.0 * PEAK)),
    ]
}

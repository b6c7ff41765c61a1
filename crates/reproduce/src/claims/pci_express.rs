//! Computes the published figures of the paper `pci_express`: InfiniHost III Ex against InfiniHost
//! on PCI-X, 4X SDR.

use super::{Bench, Computed};
use crate::bench::{Bandwidth, Direction, Operation, Ranks, bandwidth, mpi_bandwidth, mpi_latency};
use crate::suite::Suite;
use verbena_model::adapter::{Kind, Placement};
use verbena_model::profile::System;

/// Size of large messages, at the peak of the curves.
pub(crate) const LARGE: u64 = 262_144;

/// Returns the latency of a send by reference, in microseconds.
pub(crate) fn send(system: &System, bytes: u64) -> f64 {
    let suite = Suite::new(system, "latency.send");
    suite.transport("rc").size(bytes).inline(0).figure()
}

/// Returns the bandwidth of sends on one queue pair per port. One port in one direction is the
/// suite's benchmark.
pub(crate) fn sends(system: &System, direction: Direction, bytes: u64) -> f64 {
    if system.ports == 1 && direction == Direction::One {
        return Suite::new(system, "bandwidth.send").size(bytes).figure();
    }
    let operation = Operation::new(Kind::Send, bytes, Placement::Reference);
    let bench = Bandwidth {
        direction,
        ..Bandwidth::of(operation).connections(system.ports as usize)
    };
    bandwidth(system, bench).received
}

fn peak(system: &System, direction: Direction) -> f64 {
    sends(system, direction, LARGE)
}

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let pcie = bench.system("infinihost3-mem-sdr");
    let pcie_two = bench.system("infinihost3-mem-sdr-2port");
    let pcix = bench.system("infinihost-pcix");
    let pcix_two = bench.system("infinihost-pcix-2port");
    let (one, both) = (Direction::One, Direction::Both);
    let figure = match what {
        "latency_pcie" => send(&pcie, 1),
        "latency_pcix" => send(&pcix, 1),
        "bandwidth_one_port" => peak(&pcie, one),
        "bibandwidth_one_port" => peak(&pcie, both),
        "bandwidth_one_port_over_pcix" => peak(&pcie, one) / peak(&pcix, one),
        "bibandwidth_one_port_over_pcix" => peak(&pcie, both) / peak(&pcix, both),
        "bandwidth_two_ports" => peak(&pcie_two, one),
        "bibandwidth_two_ports" => peak(&pcie_two, both),
        "bandwidth_two_ports_over_pcix" => peak(&pcie_two, one) / peak(&pcix_two, one),
        "bibandwidth_two_ports_over_pcix" => peak(&pcie_two, both) / peak(&pcix_two, both),
        "mpi_latency" => mpi_latency(&pcie, Ranks::Apart, 1),
        "mpi_bandwidth" => mpi_bandwidth(&pcie_two, Ranks::Apart, 4 * LARGE, one),
        "mpi_bibandwidth" => mpi_bandwidth(&pcie_two, Ranks::Apart, 4 * LARGE, both),
        _ => return None,
    };
    Some(Computed::Figure(figure))
}

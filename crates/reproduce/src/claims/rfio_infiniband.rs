//! Computes the published figures of the paper `rfio_infiniband`: InfiniHost on PCI-X in dual Xeon
//! and in Opteron systems.

use super::{Bench, Computed};
use crate::application::{hpl, lattice_per_cpu};
use crate::bench::{
    Direction, Ranks, Reading, ethernet_latency, file_service, mpi_bandwidth, mpi_latency,
};
use std::collections::BTreeMap;
use verbena_model::profile::System;

/// The later MPI library, for which the paper has first figures.
pub(crate) const NEWER_MPI: &str = "mvapich-0.9.4";

/// Returns the total rate of `readers` readers.
fn aggregate(bench: &Bench<'_>, readers: usize) -> f64 {
    let opteron = bench.system("infinihost-opteron");
    file_service(&opteron, &bench.service(), Reading::by(readers)).aggregate
}

pub(super) fn measure(bench: &Bench<'_>, what: &str) -> Option<Computed> {
    let xeon = bench.system("infinihost-xeon");
    let opteron = bench.system("infinihost-opteron");
    let one = Direction::One;
    let inside = |system: &System, name: &str, peak: u64| {
        Computed::Figures(BTreeMap::from([
            (
                name.to_owned(),
                mpi_bandwidth(system, Ranks::Together, peak, one),
            ),
            (
                "large".to_owned(),
                mpi_bandwidth(system, Ranks::Together, 1 << 20, one),
            ),
        ]))
    };
    let figure = match what {
        "mpi_bandwidth_xeon" => mpi_bandwidth(&xeon, Ranks::Apart, 262_144, one),
        "mpi_latency_xeon" => mpi_latency(&xeon, Ranks::Apart, 1),
        "mpi_bandwidth_opteron" => mpi_bandwidth(&opteron, Ranks::Apart, 262_144, one),
        "mpi_latency_opteron" => mpi_latency(&opteron, Ranks::Apart, 1),
        "smp_bandwidth_xeon" => return Some(inside(&xeon, "at_16k", 16_384)),
        "smp_latency_xeon" => mpi_latency(&xeon, Ranks::Together, 1),
        "smp_bandwidth_opteron" => return Some(inside(&opteron, "at_8k", 8192)),
        "smp_latency_opteron" => {
            let newer = bench.system_with("infinihost-opteron", NEWER_MPI);
            mpi_latency(&newer, Ranks::Together, 1)
        }
        "hpl" => hpl(&xeon, &bench.applications(), 26, 2),
        "lattice_qcd" => {
            let applications = bench.applications();
            let ranks = 8;
            let [one, two] =
                [1, 2].map(|per_node| lattice_per_cpu(&xeon, &applications, ranks, per_node));
            return Some(Computed::Shape {
                holds: one > 1.15 * two,
                seen: format!("{one:.0} against {two:.0} Mflop/s a CPU on {ranks} CPUs"),
                figures: vec![one, two],
            });
        }
        "rfio_single_reader" => aggregate(bench, 1),
        "rfio_aggregate" => {
            // Stable from 3 to 24 readers: the figure is the mean over these runs.
            let all = [3, 6, 12, 24].map(|readers| aggregate(bench, readers));
            all.iter().sum::<f64>() / all.len() as f64
        }
        "rfio_saturation" => {
            // Relative to the highest rate with any number of readers.
            let most = [3, 6, 12, 24]
                .map(|readers| aggregate(bench, readers))
                .into_iter()
                .fold(0.0, f64::max);
            (1..=24)
                .find(|&readers| aggregate(bench, readers) >= 0.95 * most)
                .map_or(f64::NAN, |readers| readers as f64)
        }
        "rfio_server_cpu" => {
            let service = file_service(&opteron, &bench.service(), Reading::by(24));
            service.processors * 100.0
        }
        "link_rates" => {
            let rates = [("x1", "1x-sdr"), ("x4", "4x-sdr"), ("x12", "12x-sdr")]
                .map(|(name, link)| (name.to_owned(), bench.link(link).rate.0 / 1e6));
            return Some(Computed::Figures(BTreeMap::from(rates)));
        }
        "ethernet_latency" => ethernet_latency(&bench.ethernet(), &bench.stack()),
        _ => return None,
    };
    Some(Computed::Figure(figure))
}

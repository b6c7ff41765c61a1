//! A lattice QCD code, parallel in two dimensions. rfio_infiniband, Figure 2.
//!
//! The paper's code is not named and none was found in a package, so it is one of Verbena's own (`app.lattice-qcd`), recorded: ten iterations of
//! conjugate gradients for the Wilson Dirac operator. Computing takes what the operator's published floating-point operations take at a
//! published share of the peak, and asks the node's memory, which the CPUs of a node share, for the published bytes a site.

use super::recorded::{computing, replayed_as, trace};
use crate::recorded::Replay;
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Applications, Rate, System};

/// Sites of the lattice that was recorded.
const SITES: u64 = 16 * 16 * 16 * 32;
/// How often the operator goes over all of them: twice an iteration, and twice before the first.
const UPDATES: u64 = 2 * (10 + 1);

/// Mflop/s of each CPU with `ranks` ranks, `per_node` in a row on a node. It was recorded on 1, 2, 4, 8 and 16 ranks.
pub fn lattice_per_cpu(
    system: &System,
    applications: &Applications,
    ranks: usize,
    per_node: usize,
) -> f64 {
    let trace = trace("lattice-qcd", ranks);
    let flops = (SITES * UPDATES * applications.qcd_flops.0) as f64;
    let speed = system.host.cpu.peak.0 * applications.qcd_share.0;
    let intensity = applications.qcd_flops.0 as f64 / applications.qcd_bytes.0 as f64;
    let replay = Replay {
        system,
        fidelity: Fidelity::Packet,
        nodes: (0..ranks).map(|rank| rank / per_node).collect(),
        compute_scale: flops / speed / computing(trace).seconds(),
        memory_traffic: Some(Rate(speed / intensity)),
    };
    flops / ranks as f64 / replayed_as(trace, &replay).seconds() / 1e6
}

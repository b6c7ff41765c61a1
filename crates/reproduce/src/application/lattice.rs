//! A lattice QCD code, parallel in two dimensions. rfio_infiniband, Figure 2.
//!
//! The paper does not name its code and no package contains it, so Verbena has its own
//! (`app.lattice-qcd`), recorded: ten iterations of conjugate gradients for the Wilson Dirac
//! operator. Computing time is the operator's published number of floating-point operations at a
//! published share of the peak rate. It uses the published memory traffic in bytes per site, and
//! the CPUs of a node share the memory bandwidth.

use super::recorded::{computing, replayed_as, trace};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Applications, Rate, System};
use verbena_replay::recorded::Replay;

const SITES: u64 = 16 * 16 * 16 * 32;
/// Number of passes of the operator over all sites: two per iteration, and two before the first.
const UPDATES: u64 = 2 * (10 + 1);

/// Returns Mflop/s per CPU with `ranks` ranks, `per_node` consecutive ranks on a node. Recordings
/// exist for 1, 2, 4, 8 and 16 ranks.
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

//! NAS parallel benchmarks IS, MG, LU and CG, class A: recordings of their timed sections. memfree
//! 5.
//!
//! Computing time is the operation count at an assumed share of the processor's peak.

use super::recorded::{computing, replayed, trace};
use verbena_model::profile::{Applications, System};

/// A NAS kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Integer sort: 2^23 keys.
    Is,
    /// Multigrid: 256^3.
    Mg,
    /// LU: 64^3, pipelined planes.
    Lu,
    /// Conjugate gradient: 14,000 rows.
    Cg,
}

impl Kernel {
    /// All four.
    pub const ALL: [Kernel; 4] = [Kernel::Is, Kernel::Mg, Kernel::Lu, Kernel::Cg];

    fn operations(self) -> f64 {
        match self {
            Kernel::Is => 78e6,
            Kernel::Mg => 3.9e9 / 4.0,
            Kernel::Lu => 119.3e9 / 250.0,
            Kernel::Cg => 1.5e9 / 15.0,
        }
    }

    /// Returns the name of the trace and its number of iterations.
    fn recorded(self) -> (&'static str, u32) {
        match self {
            Kernel::Is => ("nas-is", 10),
            Kernel::Mg => ("nas-mg", 4),
            // Of 250 identical iterations.
            Kernel::Lu => ("nas-lu", 10),
            Kernel::Cg => ("nas-cg", 15),
        }
    }
}

/// Returns the time of an iteration in milliseconds. Recordings exist for 2, 4 and 8 ranks.
///
/// Each number of ranks has its own factor for computing time, because the operation count does not
/// depend on the number of ranks.
pub fn nas(
    system: &System,
    applications: &Applications,
    kernel: Kernel,
    ranks: usize,
    nodes: usize,
) -> f64 {
    let speed = system.host.cpu.peak.0 * applications.nas_share.0;
    let (name, iterations) = kernel.recorded();
    let trace = trace(name, ranks);
    let alone = kernel.operations() * f64::from(iterations) / speed;
    let scale = alone / computing(trace).seconds();
    replayed(trace, system, nodes, scale).seconds() * 1e3 / f64::from(iterations)
}

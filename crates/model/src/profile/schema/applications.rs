//! Applications.

use crate::kernel::Time;
use crate::profile::quantity::{Bytes, Count, Ratio};

section! {
    /// Computation of applications between messages.
    Applications {
        /// Description.
        about: String,
        /// LAMMPS' rhodopsin benchmark: time of one step of its 32,000 atoms on one core. Recorded
        /// computation times are scaled by it.
        rhodopsin_step: Time,
        /// Share of the peak rate that matrix multiplication reaches on one core.
        gemm: Ratio,
        /// Floating-point operations per lattice QCD site update.
        qcd_flops: Count,
        /// Bytes to and from memory per lattice QCD site update.
        qcd_bytes: Bytes,
        /// Share of the peak rate that the update reaches when memory is no bottleneck.
        qcd_share: Ratio,
        /// Share of the peak rate that NAS kernels reach.
        nas_share: Ratio,
    }
}

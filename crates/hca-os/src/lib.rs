//! The operating system's interfaces, each behind a safe type. System calls and raw copies of this
//! crate live here.

mod ancillary;
pub mod apart;
pub mod barrier;
pub mod clock;
pub mod copy;
pub mod dialogue;
pub mod dmabuf;
pub mod doorbell;
pub mod filter;
mod inet;
pub mod interfaces;
pub mod mapping;
pub mod memfd;
pub mod mm;
pub mod monitor;
pub mod multicast;
pub mod own_memory;
pub mod pinning;
pub mod populate;
pub mod process_vm;
pub mod punctual;
pub mod readiness;
pub mod remap;
pub mod robust;
pub mod socket;
pub mod start;
pub mod tcp;
pub mod threads;
pub mod udp;
#[cfg(test)]
pub mod unallocated;
pub mod userfault;
pub mod vma;

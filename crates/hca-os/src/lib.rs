//! The operating system's interfaces, each behind a safe type: system calls, raw copies, and locks,
//! error numbers and reasons of refusals built on them. Independent of the adapter's objects.
//!
//! | subject | modules |
//! |---|---|
//! | errors | [`errno`], [`refusal`] |
//! | threads | [`start`], [`threads`], [`thread_number`], [`punctual`], [`robust`] |
//! | synchronization | [`sync`], [`barrier`], [`lock`] |
//! | memory of this process | [`mm`], [`mapping`], [`memfd`], [`remap`], [`apart`], [`vma`] |
//! | pages | [`populate`], [`pinning`], [`userfault`], [`dmabuf`] |
//! | copies | [`copy`], [`own_memory`], [`process_vm`] |
//! | descriptors | [`doorbell`], [`readiness`], [`socket`] |
//! | network | [`udp`], [`tcp`], [`dialogue`], [`multicast`], [`filter`] |
//! | interfaces of the host | [`interfaces`], [`monitor`] |
//! | other | [`clock`], [`singleton`], [`slots`] |

mod ancillary;
pub mod apart;
pub mod barrier;
mod biased_lock;
pub mod clock;
pub mod copy;
pub mod dialogue;
pub mod dmabuf;
pub mod doorbell;
pub mod errno;
pub mod filter;
mod inet;
pub mod interfaces;
pub mod lock;
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
pub mod refusal;
pub mod remap;
pub mod robust;
pub mod singleton;
pub mod slots;
pub mod socket;
pub mod start;
pub mod sync;
pub mod tcp;
pub mod thread_number;
pub mod threads;
pub mod udp;
pub mod userfault;
pub mod vma;

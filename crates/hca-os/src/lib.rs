//! The operating system's interfaces, each behind a safe type: system calls, raw copies, and locks,
//! error numbers and reasons of refusals built on them. Independent of the adapter's objects.
//!
//! | subject | modules |
//! |---|---|
//! | errors | [`errno`], [`refusal`] |
//! | threads | [`start`], [`threads`], [`thread_number`], [`thread_scheduling`], [`robust`] |
//! | synchronization | [`sync`], [`barrier`], [`lock`] |
//! | memory of this process | [`mm`], [`mapping`], [`memfd`], [`remap`], [`page_box`], [`vma`] |
//! | pages | [`populate`], [`pinning`], [`userfault`], [`dmabuf`] |
//! | copies | [`copy`], [`own_memory`], [`process_vm`] |
//! | descriptors | [`doorbell`], [`readiness`], [`socket`] |
//! | network | [`udp`], [`tcp`], [`udp_request`], [`multicast`], [`filter`] |
//! | interfaces of the host | [`interfaces`], [`monitor`] |
//! | other | [`clock`], [`held`], [`singleton`], [`slots`] |

mod ancillary;
pub mod barrier;
mod biased_lock;
pub mod clock;
pub mod copy;
pub mod counter_clock;
pub mod dmabuf;
pub mod doorbell;
pub mod errno;
pub mod filter;
pub mod held;
mod inet;
pub mod interfaces;
pub mod lock;
pub mod mapping;
pub mod memfd;
pub mod mm;
pub mod monitor;
pub mod multicast;
pub mod own_memory;
pub mod page_box;
pub mod pinning;
pub mod populate;
pub mod process_state;
pub mod process_vm;
pub mod readiness;
pub mod refusal;
pub mod remap;
pub mod robust;
pub mod shared_words;
pub mod singleton;
pub mod slots;
pub mod socket;
pub mod start;
pub mod sync;
pub mod tcp;
pub mod thread_number;
pub mod thread_scheduling;
pub mod threads;
pub mod udp;
pub mod udp_request;
pub mod userfault;
pub mod vma;

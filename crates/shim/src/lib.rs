//! The path shim: answers for the device node and the sysfs files that verbs programs look for.
//!
//! UCX drops a verbs device unless `/dev/infiniband/<dev_name>` is a readable and writable
//! character device; UCX, NCCL, libfabric and Open MPI read files below `/sys/class/infiniband`.
//! A software adapter has neither, and a versioned library cannot answer for them (a caller asks
//! for `stat@GLIBC_2.33`), so this unversioned object is preloaded.
//!
//! **Contract.** Only the paths in [`place`] are answered; every other call goes to the next object
//! in line with its arguments untouched, after comparing a few bytes. A call behaves as the same
//! call on a real device would: same return value, same `errno`, and `errno` unchanged on success.
//! No allocation; no lock and no state that `fork` could tear, but for the streams of
//! listed directories; usable before any constructor has run.
//!
//! **Exported functions**, one family a file: [`status`] (`stat` and kin, with the `__xstat` names
//! that programs built before glibc 2.33 use), [`permission`] (`access` and kin), [`opening`]
//! (`open`, `fopen` and kin), [`listing`] (`opendir` and kin), [`channel`] (`write`, `close` and
//! `fstat` of the connection manager's descriptors), [`splicing`] (`vmsplice`, noted and passed
//! on).

mod answer;
pub mod channel;
mod errno;
mod library;
pub mod listing;
mod next;
pub mod opening;
pub mod permission;
pub mod place;
pub mod splicing;
pub mod status;
mod sysfs;

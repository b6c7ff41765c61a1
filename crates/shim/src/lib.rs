//! The path shim: answers for the device node and the sysfs files that verbs programs look for.
//!
//! UCX drops a verbs device unless `/dev/infiniband/<dev_name>` is a readable and writable
//! character device; UCX, NCCL, libfabric and Open MPI read files below `/sys/class/infiniband`.
//! A software adapter has neither, and a versioned library cannot answer for them (a caller asks
//! for `stat@GLIBC_2.33`), so this unversioned object is preloaded.
//!
//! **How.** A path of ours is replaced by one of real files ([`tree`]) or by `/dev/null`, and the
//! call goes on; so descriptors, links and the working directory are the kernel's. The files are
//! made and kept up to date by the library that plays the device.
//!
//! **Contract.** Only the paths in [`place`] are answered; every other call goes to the next object
//! in line with its arguments untouched, after comparing a few bytes. A call behaves as the same
//! call on a real device would: same return value, same `errno`, and `errno` unchanged on success.
//! No allocation; no lock and no state that `fork` could tear; usable before any constructor has
//! run.
//!
//! **Exported functions**, one family a file: [`paths`] (`stat`, `access`, `readlink`, `chdir` and
//! their like), [`opening`] (`open`, `fopen` and their variants), [`walking`] (`opendir`,
//! `scandir`, `glob`, `nftw`, `realpath`, `getcwd`), [`channel`] (`write`, `close` and `fstat` of
//! the connection manager's descriptors), [`copies`] (`dup` and its like, noted and passed on),
//! [`reading`] (which reads of events are too short), [`splicing`] (`vmsplice`, noted and passed
//! on). In C: `blocking.c` (`read`, `recvmsg` and `fcntl`, in which a thread may be cancelled),
//! `system.c` (`syscall`), `redirect.c` (`dlopen`, and the names of libibverbs).
//!
//! **Build.** `cargo build` makes a static library; `link.sh` links it with the files in C and the
//! list of exported names.

pub mod channel;
pub mod copies;
mod errno;
mod forward;
mod kernel;
pub mod kinds;
mod library;
mod next;
pub mod opening;
pub mod paths;
pub mod place;
pub mod reading;
pub mod splicing;
pub mod tree;
pub mod walking;

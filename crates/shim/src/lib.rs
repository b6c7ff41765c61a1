//! The path shim: provides the device node and the sysfs files that verbs programs look for.
//!
//! UCX drops a verbs device unless `/dev/infiniband/<dev_name>` is a readable and writable
//! character device; UCX, NCCL, libfabric and Open MPI read files below `/sys/class/infiniband`. A
//! software adapter has neither, and a versioned library cannot interpose (a caller uses
//! `stat@GLIBC_2.33`), so this unversioned object is preloaded.
//!
//! **Mechanism.** A path of Verbena's is replaced by one of real files ([`tree`]) or by
//! `/dev/null`, and the call continues; so descriptors, links and the working directory are the
//! kernel's. Verbena's library creates and updates the files.
//!
//! **Contract.** Only the paths in [`place`] are redirected; every other call goes to the next
//! object with its arguments unchanged, after a comparison of a few bytes. A call behaves like the
//! same call on a real device: same return value, same `errno`, and `errno` unchanged on success.
//! No allocation; no lock and no state that `fork` could leave inconsistent; usable before any
//! constructor has run.
//!
//! **Exported functions**, one family per file: [`paths`] (`stat`, `access`, `readlink`, `chdir`
//! and similar), [`opening`] (`open`, `fopen` and their variants), [`directories`] (`opendir`,
//! `scandir`, `glob`, `nftw`, `realpath`, `getcwd`), [`channel`] (`write`, `close` and `fstat` of
//! the connection manager's descriptors), [`copies`] (`dup` and similar, recorded and passed on),
//! [`reading`] (detects too short reads of events), [`splicing`] (`vmsplice`, recorded and passed
//! on). In C: `blocking.c` (`read`, `recvmsg` and `fcntl`, in which a thread may be cancelled),
//! `system.c` (`syscall`), `redirect.c` (`dlopen`, and the names of libibverbs).
//!
//! **Build.** `cargo build` makes a static library; `link.sh` links it with the C files and the
//! list of exported names.

pub mod channel;
pub mod copies;
pub mod directories;
mod errno;
mod forward;
mod kernel;
pub mod kinds;
mod library;
mod management;
mod names;
mod next;
pub mod opening;
pub mod paths;
pub mod place;
pub mod reading;
pub mod splicing;
mod symbol;
pub mod tree;

//! fork(2): ibv_fork_init(3), ibv_is_fork_initialized(3).
//!
//! Without `ibv_fork_init` a child gets its own copy of registered memory, as newer kernels do for
//! pages pinned by an adapter; so nothing needs to be initialised, which is the answer
//! (IBV_FORK_UNNEEDED). The copy takes time and memory. After `ibv_fork_init`, or with
//! RDMAV_FORK_SAFE or IBV_FORK_SAFE in the environment, the child does not get registered memory
//! (MADV_DONTFORK), as the manual page describes; a child that calls exec at once does not need it.

use libc::{c_int, c_void};
use verbena_abi::{IBV_FORK_ENABLED, IBV_FORK_UNNEEDED, ibv_fork_status};
use verbena_hca_memory::fork;

/// Excludes registered memory from children from now on. Always succeeds.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    fork::leave_registered_out();
    0
}

/// Returns whether registered memory is excluded from children (IBV_FORK_ENABLED), or copied
/// (IBV_FORK_UNNEEDED).
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    match fork::is_registered_left_out() {
        true => IBV_FORK_ENABLED,
        false => IBV_FORK_UNNEEDED,
    }
}

/// Does nothing: registration excludes memory from children.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

//! fork(2): ibv_fork_init(3), ibv_is_fork_initialized(3).
//!
//! Without `ibv_fork_init` a forked child gets its own copy of registered memory, which is what newer kernels do for
//! pages that an adapter has pinned; so nothing needs to be initialised, and that is the answer (IBV_FORK_UNNEEDED). The
//! copy takes time and memory. After `ibv_fork_init`, or with RDMAV_FORK_SAFE or IBV_FORK_SAFE in the environment,
//! registered memory is left out of the child instead (MADV_DONTFORK), as the manual page describes; a child that calls
//! exec at once does not miss it.

use libc::{c_int, c_void};
use verbena_abi::{IBV_FORK_ENABLED, IBV_FORK_UNNEEDED, ibv_fork_status};
use verbena_hca::memory::fork;

/// Leaves registered memory out of children from now on. Succeeds at any time.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    fork::leave_registered_out();
    0
}

/// Whether registered memory is left out of children (IBV_FORK_ENABLED), or copied for them (IBV_FORK_UNNEEDED).
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    match fork::is_registered_left_out() {
        true => IBV_FORK_ENABLED,
        false => IBV_FORK_UNNEEDED,
    }
}

/// Nothing to keep out of a child: registering does.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Nothing to bring back.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

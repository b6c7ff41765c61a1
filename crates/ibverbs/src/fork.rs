//! fork(2): ibv_fork_init(3), ibv_is_fork_initialized(3).
//!
//! A hardware adapter writes to physical pages, so a copy-on-write page would part the parent from
//! its adapter unless the library keeps registered pages out of the child. The software adapter
//! keeps registered memory whole across `fork` by itself, so there is nothing to switch on: the
//! kernel-side support that rdma-core calls "unneeded" is always there.

use libc::{c_int, c_void};
use verbena_abi::{IBV_FORK_UNNEEDED, ibv_fork_status};

/// Succeeds: fork is always safe here.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_fork_init() -> c_int {
    0
}

/// Says that nothing needs to be initialised.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_is_fork_initialized() -> ibv_fork_status {
    IBV_FORK_UNNEEDED
}

/// Nothing to keep out of a child.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// Nothing to bring back.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

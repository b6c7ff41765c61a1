//! What hardware providers import at the private node.
//!
//! Programs link libmlx5, libefa and others directly (perftest, UCX, libfabric), so these load
//! beside us, register themselves in their constructors, and must find every name. No device of
//! theirs ever comes: we offer none. A command therefore answers EOPNOTSUPP, a registration does
//! nothing, and nobody is hurt.
//!
//! The commands take many arguments. None is looked at, and on the ABIs that we build for the caller
//! cleans up, so each is declared without any. `__verbs_log` is variadic: `variadic.c` defines it.

use std::ptr;

use libc::{c_char, c_int, c_uint, c_void};
use verbena_hca::errno::Errno;

use crate::outcome;
use crate::unsupported::not_offered;

/// Set by programs that want destroy calls to succeed after a device went away. Ours does not.
#[unsafe(no_mangle)]
pub static mut verbs_allow_disassociate_destroy: bool = false;

macro_rules! commands {
    ($($name:ident)*) => {
        $(
            /// A command to a kernel device, of which there is none.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> c_int {
                outcome::errno_value(stringify!($name), Err(not_offered()))
            }
        )*
    };
}

commands! {
    execute_ioctl
    ibv_cmd_advise_mr
    ibv_cmd_alloc_dm
    ibv_cmd_alloc_mw
    ibv_cmd_alloc_pd
    ibv_cmd_attach_mcast
    ibv_cmd_close_xrcd
    ibv_cmd_create_ah
    ibv_cmd_create_counters
    ibv_cmd_create_cq
    ibv_cmd_create_cq_ex
    ibv_cmd_create_cq_ex2
    ibv_cmd_create_flow
    ibv_cmd_create_flow_action_esp
    ibv_cmd_create_qp
    ibv_cmd_create_qp_ex
    ibv_cmd_create_qp_ex2
    ibv_cmd_create_rwq_ind_table
    ibv_cmd_create_srq
    ibv_cmd_create_srq_ex
    ibv_cmd_create_wq
    ibv_cmd_dealloc_mw
    ibv_cmd_dealloc_pd
    ibv_cmd_dereg_mr
    ibv_cmd_destroy_ah
    ibv_cmd_destroy_counters
    ibv_cmd_destroy_cq
    ibv_cmd_destroy_flow
    ibv_cmd_destroy_flow_action
    ibv_cmd_destroy_qp
    ibv_cmd_destroy_rwq_ind_table
    ibv_cmd_destroy_srq
    ibv_cmd_destroy_wq
    ibv_cmd_detach_mcast
    ibv_cmd_free_dm
    ibv_cmd_get_context
    ibv_cmd_modify_cq
    ibv_cmd_modify_flow_action_esp
    ibv_cmd_modify_qp
    ibv_cmd_modify_qp_ex
    ibv_cmd_modify_srq
    ibv_cmd_modify_wq
    ibv_cmd_open_qp
    ibv_cmd_open_xrcd
    ibv_cmd_poll_cq
    ibv_cmd_post_recv
    ibv_cmd_post_send
    ibv_cmd_post_srq_recv
    ibv_cmd_query_context
    ibv_cmd_query_device_any
    ibv_cmd_query_mr
    ibv_cmd_query_port
    ibv_cmd_query_qp
    ibv_cmd_query_srq
    ibv_cmd_read_counters
    ibv_cmd_reg_dm_mr
    ibv_cmd_reg_dmabuf_mr
    ibv_cmd_reg_mr
    ibv_cmd_req_notify_cq
    ibv_cmd_rereg_mr
    ibv_cmd_resize_cq
}

macro_rules! ignored {
    ($($name:ident)*) => {
        $(
            /// Concerns provider objects only, of which there are none.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() {}
        )*
    };
}

ignored! {
    ibv_register_driver
    verbs_init_cq
    verbs_register_driver_34
    verbs_set_ops
    verbs_uninit_context
}

macro_rules! no_contexts {
    ($($name:ident)*) => {
        $(
            /// Would make a provider's context.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> *mut c_void {
                outcome::pointer(stringify!($name), Err(not_offered()))
            }
        )*
    };
}

no_contexts! {
    _verbs_init_and_alloc_context
    verbs_open_device
}

/// The number of attributes in a chain of command buffers: there are none.
#[unsafe(no_mangle)]
pub extern "C" fn __ioctl_final_num_attrs(_attributes: c_uint, _link: *mut c_void) -> c_uint {
    0
}

/// Reads a sysfs file of a provider's device, of which there is none.
///
/// # Safety
/// `buffer` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_ibdev_sysfs_file(buffer: *mut c_char, size: usize) -> c_int {
    if !buffer.is_null() && size > 0 {
        // SAFETY: at least one byte, by the caller's promise.
        unsafe { ptr::write(buffer, 0) };
    }
    outcome::number("ibv_read_ibdev_sysfs_file", Err(Errno::ENOENT))
}

//! The private symbols that hardware providers and a few of rdma-core's own programs import.
//!
//! Programs link libmlx5, libefa and others directly (perftest, UCX, libfabric), so these are
//! loaded beside this library, register themselves in their constructors, and must find every name.
//! They never get a device, as this library offers them none. So a command returns EOPNOTSUPP, and
//! a registration does nothing.
//!
//! rdma-core renames the private node when the interface changes: 34 is of v34 to v56, 57 of v57
//! and v58, 59 of v59 to v63, 64 of v64, 65 of v65. The linker binds a symbol called `NAME@NODE` to
//! that node, so one function can be at several; `@@` marks the node that linking against the
//! library uses. Every name is at every newer node, which is more than some had; node 34 also has
//! the names added while it was the newest (`ibv_cmd_create_cq_ex2` in v52).
//!
//! The commands have many arguments. They are ignored, and on the supported ABIs the caller cleans
//! up, so none is declared. `__verbs_log` is variadic: `variadic.c` defines it.

use std::ptr;

use libc::{c_char, c_int, c_uint, c_void};
use verbena_abi::ibv_context;
use verbena_hca_os::errno::Errno;

use crate::outcome;
use crate::query::gid_type;
use crate::strings::wr_opcode;
use crate::unsupported::not_offered;

/// Defines a function at each of the named nodes, with one body.
/// One node is the default: musl's linker finds no name that has none.
macro_rules! at_nodes {
    (@each { $($node:literal)* } $name:ident $arguments:tt $result:tt $body:block) => {
        $(at_nodes! { @one $node $name $arguments $result $body })*
    };
    (
        @one $node:literal $name:ident
        ($($argument:ident: $type:ty),*) [$($result:ty)?] $body:block
    ) => {
        const _: () = {
            #[unsafe(export_name = concat!(stringify!($name), $node))]
            unsafe extern "C" fn at_node($($argument: $type),*) $(-> $result)? $body
        };
    };
    (all $($function:tt)*) => {
        at_nodes! { { "@@IBVERBS_PRIVATE_34" "@IBVERBS_PRIVATE_57" "@IBVERBS_PRIVATE_59"
            "@IBVERBS_PRIVATE_64" "@IBVERBS_PRIVATE_65" } $($function)* }
    };
    (newer $($function:tt)*) => {
        at_nodes! { { "@@IBVERBS_PRIVATE_57" "@IBVERBS_PRIVATE_59" "@IBVERBS_PRIVATE_64"
            "@IBVERBS_PRIVATE_65" } $($function)* }
    };
    ($nodes:tt $name:ident $arguments:tt $(-> $result:ty)? $body:block) => {
        at_nodes! { @each $nodes $name $arguments [$($result)?] $body }
    };
}

macro_rules! disassociate {
    ($($node:literal)*) => {$(
        const _: () = {
            /// Programs set it to let destroy calls succeed after a device was removed, which does
            /// not happen here.
            #[unsafe(export_name = concat!("verbs_allow_disassociate_destroy", $node))]
            static mut AT_NODE: bool = false;
        };
    )*};
}

disassociate! {
    "@@IBVERBS_PRIVATE_34" "@IBVERBS_PRIVATE_57" "@IBVERBS_PRIVATE_59" "@IBVERBS_PRIVATE_64"
    "@IBVERBS_PRIVATE_65"
}

// Commands for a kernel device, of which there is none.
macro_rules! commands {
    ($nodes:ident $($name:ident)*) => {
        $(at_nodes! { $nodes $name() -> c_int {
            outcome::errno_value(stringify!($name), Err(not_offered()))
        } })*
    };
}

commands! { all
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

// Calls about a provider's objects, of which there are none.
macro_rules! ignored {
    ($($name:ident)*) => {
        $(at_nodes! { all $name() {} })*
    };
}

ignored! {
    verbs_init_cq
    verbs_set_ops
    verbs_uninit_context
}

macro_rules! registrations {
    ($($name:ident)*) => {
        $(
            /// Registers a provider: does nothing, as no device was found for it. The name contains
            /// the node.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() {}
        )*
    };
}

registrations! {
    ibv_register_driver
    verbs_register_driver_34
    verbs_register_driver_57
    verbs_register_driver_59
    verbs_register_driver_64
    verbs_register_driver_65
}

// Calls that would create a provider's object.
macro_rules! no_objects {
    ($nodes:ident $($name:ident)*) => {
        $(at_nodes! { $nodes $name() -> *mut c_void {
            outcome::pointer(stringify!($name), Err(not_offered()))
        } })*
    };
}

no_objects! { all
    _verbs_init_and_alloc_context
    verbs_open_device
}

// The number of attributes in a chain of command buffers: there are none.
at_nodes! { all __ioctl_final_num_attrs(_attributes: c_uint, _link: *mut c_void) -> c_uint { 0 } }

// Reads a sysfs file of a provider's device: there is none. `buffer` must be null or have `size`
// bytes.
at_nodes! { all ibv_read_ibdev_sysfs_file(buffer: *mut c_char, size: usize) -> c_int {
    if !buffer.is_null() && size > 0 {
        // SAFETY: not null, so it has at least one byte, as the caller promises.
        unsafe { ptr::write(buffer, 0) };
    }
    outcome::number("ibv_read_ibdev_sysfs_file", Err(Errno::ENOENT))
} }

// Returns the type of a GID, in the numbering of sysfs.
at_nodes! { all
    ibv_query_gid_type(context: *mut ibv_context, port: u8, index: u32, kind: *mut u32) -> c_int {
        // SAFETY: the caller promises the same as `gid_type` requires.
        unsafe { gid_type(context, port, index, kind) }
    }
}

// Names that came after node 34.
commands! { newer
    ibv_cmd_alloc_dmah
    ibv_cmd_create_comp_cntr
    ibv_cmd_destroy_comp_cntr
    ibv_cmd_export_dmabuf_fd
    ibv_cmd_free_dmah
    ibv_cmd_inc_comp_cntr
    ibv_cmd_inc_err_comp_cntr
    ibv_cmd_qp_attach_comp_cntr
    ibv_cmd_query_comp_cntr_caps
    ibv_cmd_query_port_speed
    ibv_cmd_read_comp_cntr
    ibv_cmd_read_err_comp_cntr
    ibv_cmd_reg_mr_ex
    ibv_cmd_set_comp_cntr
    ibv_cmd_set_err_comp_cntr
}

// The heaps for providers' dma-bufs. None can be created, so destruction does nothing.
no_objects! { newer
    ibv_dmabuf_heap_alloc
    ibv_dmabuf_heap_cc_shared_init
}
at_nodes! { newer ibv_dmabuf_heap_destroy() {} }
at_nodes! { newer ibv_dmabuf_heap_free() {} }

at_nodes! { all ibv_wr_opcode_str(opcode: c_uint) -> *const c_char { wr_opcode(opcode) } }

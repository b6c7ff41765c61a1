//! Features that the software adapter lacks, each slot in its own return convention: flow steering,
//! IPsec flow actions, counters, work queues outside a queue pair, receive-side scaling, rate
//! limits. Sorted by name. The device advertises no capability for any of these.

use libc::c_int;
use verbena_abi::*;
use verbena_hca_os::errno::Errno;
use verbena_hca_os::refused;

use crate::outcome;

/// Returns the error for a missing feature.
#[cold]
pub fn not_offered() -> Errno {
    refused!(
        EOPNOTSUPP,
        "the software adapter does not support this and advertises no capability for it; \
         docs/verbs.md lists its verbs"
    )
}

macro_rules! objects {
    ($($name:ident($($type:ty),*) -> $object:ty;)*) => {$(
        /// Not supported: returns NULL with EOPNOTSUPP.
        ///
        /// # Safety
        /// The arguments are ignored.
        pub unsafe extern "C" fn $name($(_: $type),*) -> *mut $object {
            outcome::pointer(concat!("ibv_", stringify!($name)), Err(not_offered()))
        }
    )*};
}

objects! {
    create_counters(*mut ibv_context, *mut ibv_counters_init_attr) -> ibv_counters;
    create_flow(*mut ibv_qp, *mut ibv_flow_attr) -> ibv_flow;
    create_flow_action_esp(*mut ibv_context, *mut ibv_flow_action_esp_attr) -> ibv_flow_action;
    create_rwq_ind_table(*mut ibv_context, *mut ibv_rwq_ind_table_init_attr) -> ibv_rwq_ind_table;
    create_wq(*mut ibv_context, *mut ibv_wq_init_attr) -> ibv_wq;
}

macro_rules! actions {
    ($($name:ident($($type:ty),*);)*) => {$(
        /// Not supported: returns EOPNOTSUPP.
        ///
        /// # Safety
        /// The arguments are ignored.
        pub unsafe extern "C" fn $name($(_: $type),*) -> c_int {
            outcome::errno_value(concat!("ibv_", stringify!($name)), Err(not_offered()))
        }
    )*};
}

actions! {
    attach_counters_point_flow(*mut ibv_counters, *mut ibv_counter_attach_attr, *mut ibv_flow);
    destroy_counters(*mut ibv_counters);
    destroy_flow(*mut ibv_flow);
    destroy_flow_action(*mut ibv_flow_action);
    destroy_rwq_ind_table(*mut ibv_rwq_ind_table);
    destroy_wq(*mut ibv_wq);
    modify_flow_action_esp(*mut ibv_flow_action, *mut ibv_flow_action_esp_attr);
    modify_qp_rate_limit(*mut ibv_qp, *mut ibv_qp_rate_limit_attr);
    modify_wq(*mut ibv_wq, *mut ibv_wq_attr);
    read_counters(*mut ibv_counters, *mut u64, u32, u32);
}

//! Verbs later than v44 that the software adapter does not support: DMA handles and export of
//! device memory (there is no bus), hardware completion counters. Each fails with EOPNOTSUPP in its
//! own convention. The supported ones are with their objects.
//!
//! Source: rdma-core's man pages ibv_alloc_dmah(3), ibv_dm_export_dmabuf_fd(3),
//! ibv_create_comp_cntr(3), ibv_qp_attach_comp_cntr(3), ibv_query_comp_cntr_caps(3). Arguments are
//! ignored, so none is declared.

use libc::{c_int, c_void};

use crate::outcome;
use crate::unsupported::not_offered;

macro_rules! objects {
    ($($name:ident -> $object:ty)*) => {
        $(
            /// Not supported: NULL with EOPNOTSUPP.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> *mut $object {
                outcome::pointer(stringify!($name), Err(not_offered()))
            }
        )*
    };
}

objects! {
    ibv_alloc_dmah -> c_void
    ibv_create_comp_cntr -> c_void
}

macro_rules! actions {
    ($($name:ident)*) => {
        $(
            /// Not supported: EOPNOTSUPP.
            #[unsafe(no_mangle)]
            pub extern "C" fn $name() -> c_int {
                outcome::errno_value(stringify!($name), Err(not_offered()))
            }
        )*
    };
}

actions! {
    _ibv_query_comp_cntr_caps
    ibv_dealloc_dmah
    ibv_destroy_comp_cntr
    ibv_inc_comp_cntr
    ibv_inc_err_comp_cntr
    ibv_qp_attach_comp_cntr
    ibv_read_comp_cntr
    ibv_read_err_comp_cntr
    ibv_set_comp_cntr
    ibv_set_err_comp_cntr
}

/// Not supported: -1 with EOPNOTSUPP.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_dm_export_dmabuf_fd() -> c_int {
    outcome::number("ibv_dm_export_dmabuf_fd", Err(not_offered()))
}

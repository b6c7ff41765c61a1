//! Shared receive queues.

use core::ffi::{c_int, c_uint, c_void};

use crate::{ibv_context, ibv_cq, ibv_pd, ibv_xrcd, pthread_cond_t, pthread_mutex_t};

constants! {
    srq_attr_masks: c_int {
        IBV_SRQ_MAX_WR = 1 << 0,
        IBV_SRQ_LIMIT = 1 << 1,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}

pub type ibv_srq_type = c_uint;

constants! {
    srq_types: ibv_srq_type {
        IBV_SRQT_BASIC = 0,
        IBV_SRQT_XRC = 1,
        IBV_SRQT_TM = 2,
    }
}

constants! {
    srq_init_attr_masks: u32 {
        IBV_SRQ_INIT_ATTR_TYPE = 1 << 0,
        IBV_SRQ_INIT_ATTR_PD = 1 << 1,
        IBV_SRQ_INIT_ATTR_XRCD = 1 << 2,
        IBV_SRQ_INIT_ATTR_CQ = 1 << 3,
        IBV_SRQ_INIT_ATTR_TM = 1 << 4,
        IBV_SRQ_INIT_ATTR_RESERVED = 1 << 5,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_tm_cap {
    pub max_num_tags: u32,
    pub max_ops: u32,
}

/// Begins with the members of `ibv_srq_init_attr`; C code casts between the two.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_srq_init_attr_ex {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
    pub comp_mask: u32,
    pub srq_type: ibv_srq_type,
    pub pd: *mut ibv_pd,
    pub xrcd: *mut ibv_xrcd,
    pub cq: *mut ibv_cq,
    pub tm_cap: ibv_tm_cap,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

zero_default!(
    ibv_srq_attr,
    ibv_srq_init_attr,
    ibv_srq_init_attr_ex,
    ibv_srq
);

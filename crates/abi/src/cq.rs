//! Completion queues, plain and extended, and completion channels.

use core::ffi::{c_int, c_uint, c_void};

use crate::{
    ibv_context, ibv_pd, ibv_wc_opcode, ibv_wc_status, ibv_wc_tm_info, pthread_cond_t,
    pthread_mutex_t,
};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_comp_channel {
    pub context: *mut ibv_context,
    pub fd: c_int,
    pub refcnt: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}

/// Begins with the members of `ibv_cq`; C code casts between the two.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_cq_ex {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
    pub comp_mask: u32,
    pub status: ibv_wc_status,
    pub wr_id: u64,
    pub start_poll:
        Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex)>,
    pub read_opcode: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> ibv_wc_opcode>,
    pub read_vendor_err: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_byte_len: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    /// Network byte order, or the invalidated key in host byte order.
    pub read_imm_data: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_qp_num: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_src_qp: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> c_uint>,
    pub read_slid: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_sl: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u8>,
    pub read_dlid_path_bits: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u8>,
    pub read_completion_ts: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u64>,
    pub read_cvlan: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u16>,
    pub read_flow_tag: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u32>,
    pub read_tm_info:
        Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex, tm_info: *mut ibv_wc_tm_info)>,
    pub read_completion_wallclock_ns: Option<unsafe extern "C" fn(cq: *mut ibv_cq_ex) -> u64>,
}

constants! {
    cq_attr_masks: u32 {
        IBV_CQ_ATTR_MODERATE = 1 << 0,
        IBV_CQ_ATTR_RESERVED = 1 << 1,
        IBV_CQ_INIT_ATTR_MASK_FLAGS = 1 << 0,
        IBV_CQ_INIT_ATTR_MASK_PD = 1 << 1,
        IBV_CREATE_CQ_ATTR_SINGLE_THREADED = 1 << 0,
        IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN = 1 << 1,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_moderate_cq {
    pub cq_count: u16,
    /// Microseconds.
    pub cq_period: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_modify_cq_attr {
    pub attr_mask: u32,
    pub moderate: ibv_moderate_cq,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    /// Bits of `IBV_WC_EX_WITH_*`.
    pub wc_flags: u64,
    pub comp_mask: u32,
    /// Bits of `IBV_CREATE_CQ_ATTR_*`.
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}

zero_default!(
    ibv_comp_channel,
    ibv_cq,
    ibv_cq_ex,
    ibv_poll_cq_attr,
    ibv_moderate_cq
);
zero_default!(ibv_modify_cq_attr, ibv_cq_init_attr_ex);

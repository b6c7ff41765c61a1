//! Work queues outside a queue pair, indirection tables and receive-side scaling.

use core::ffi::{c_int, c_uint, c_void};

use crate::{ibv_context, ibv_cq, ibv_pd, ibv_recv_wr, pthread_cond_t, pthread_mutex_t};

pub type ibv_wq_type = c_uint;

constants! {
    wq_types: ibv_wq_type {
        IBV_WQT_RQ = 0,
    }
}

constants! {
    wq_masks: u32 {
        IBV_WQ_INIT_ATTR_FLAGS = 1 << 0,
        IBV_WQ_INIT_ATTR_RESERVED = 1 << 1,
        IBV_WQ_FLAGS_CVLAN_STRIPPING = 1 << 0,
        IBV_WQ_FLAGS_SCATTER_FCS = 1 << 1,
        IBV_WQ_FLAGS_DELAY_DROP = 1 << 2,
        IBV_WQ_FLAGS_PCI_WRITE_END_PADDING = 1 << 3,
        IBV_WQ_FLAGS_RESERVED = 1 << 4,
        IBV_WQ_ATTR_STATE = 1 << 0,
        IBV_WQ_ATTR_CURR_STATE = 1 << 1,
        IBV_WQ_ATTR_FLAGS = 1 << 2,
        IBV_WQ_ATTR_RESERVED = 1 << 3,
        IBV_CREATE_IND_TABLE_RESERVED = 1 << 0,
    }
}

pub type ibv_wq_state = c_uint;

constants! {
    wq_states: ibv_wq_state {
        IBV_WQS_RESET = 0,
        IBV_WQS_RDY = 1,
        IBV_WQS_ERR = 2,
        IBV_WQS_UNKNOWN = 3,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wq_init_attr {
    pub wq_context: *mut c_void,
    pub wq_type: ibv_wq_type,
    pub max_wr: u32,
    pub max_sge: u32,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub comp_mask: u32,
    pub create_flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wq_attr {
    pub attr_mask: u32,
    pub wq_state: ibv_wq_state,
    pub curr_wq_state: ibv_wq_state,
    pub flags: u32,
    pub flags_mask: u32,
}

pub type ibv_wq_post_recv = unsafe extern "C" fn(
    wq: *mut ibv_wq,
    recv_wr: *mut ibv_recv_wr,
    bad_recv_wr: *mut *mut ibv_recv_wr,
) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wq {
    pub context: *mut ibv_context,
    pub wq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub cq: *mut ibv_cq,
    pub wq_num: u32,
    pub handle: u32,
    pub state: ibv_wq_state,
    pub wq_type: ibv_wq_type,
    pub post_recv: Option<ibv_wq_post_recv>,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_rwq_ind_table {
    pub context: *mut ibv_context,
    pub ind_tbl_handle: c_int,
    pub ind_tbl_num: c_int,
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_rwq_ind_table_init_attr {
    pub log_ind_tbl_size: u32,
    pub ind_tbl: *mut *mut ibv_wq,
    pub comp_mask: u32,
}

constants! {
    rx_hash: u64 {
        IBV_RX_HASH_FUNC_TOEPLITZ = 1 << 0,
        IBV_RX_HASH_SRC_IPV4 = 1 << 0,
        IBV_RX_HASH_DST_IPV4 = 1 << 1,
        IBV_RX_HASH_SRC_IPV6 = 1 << 2,
        IBV_RX_HASH_DST_IPV6 = 1 << 3,
        IBV_RX_HASH_SRC_PORT_TCP = 1 << 4,
        IBV_RX_HASH_DST_PORT_TCP = 1 << 5,
        IBV_RX_HASH_SRC_PORT_UDP = 1 << 6,
        IBV_RX_HASH_DST_PORT_UDP = 1 << 7,
        IBV_RX_HASH_IPSEC_SPI = 1 << 8,
        IBV_RX_HASH_INNER = 1 << 31,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_rx_hash_conf {
    pub rx_hash_function: u8,
    pub rx_hash_key_len: u8,
    pub rx_hash_key: *mut u8,
    pub rx_hash_fields_mask: u64,
}

zero_default!(
    ibv_wq_init_attr,
    ibv_wq_attr,
    ibv_rwq_ind_table_init_attr,
    ibv_rx_hash_conf
);

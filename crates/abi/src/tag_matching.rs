//! Hardware tag matching: list operations on a shared receive queue, and its wire headers.

use core::ffi::{c_int, c_uint};

use crate::ibv_sge;

pub type ibv_ops_wr_opcode = c_uint;

constants! {
    ops_wr_opcodes: ibv_ops_wr_opcode {
        IBV_WR_TAG_ADD = 0,
        IBV_WR_TAG_DEL = 1,
        IBV_WR_TAG_SYNC = 2,
    }
}

constants! {
    ops_flags: c_int {
        IBV_OPS_SIGNALED = 1 << 0,
        IBV_OPS_TM_SYNC = 1 << 1,
    }
}

/// Anonymous in C: `wr.tm.add`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_ops_wr_tm_add {
    pub recv_wr_id: u64,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    pub tag: u64,
    pub mask: u64,
}

/// Anonymous in C: `wr.tm`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_ops_wr_tm {
    pub unexpected_cnt: u32,
    pub handle: u32,
    pub add: ibv_ops_wr_tm_add,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_ops_wr {
    pub wr_id: u64,
    pub next: *mut ibv_ops_wr,
    pub opcode: ibv_ops_wr_opcode,
    pub flags: c_int,
    pub tm: ibv_ops_wr_tm,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_wc_tm_info {
    pub tag: u64,
    /// `priv` in C.
    pub priv_: u32,
}

constants! {
    tmh_ops: u8 {
        IBV_TMH_NO_TAG = 0,
        IBV_TMH_RNDV = 1,
        IBV_TMH_FIN = 2,
        IBV_TMH_EAGER = 3,
    }
}

/// `app_ctx` and `tag` are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_tmh {
    pub opcode: u8,
    pub reserved: [u8; 3],
    pub app_ctx: u32,
    pub tag: u64,
}

/// All fields are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_rvh {
    pub va: u64,
    pub rkey: u32,
    pub len: u32,
}

zero_default!(ibv_ops_wr, ibv_wc_tm_info, ibv_tmh, ibv_rvh);

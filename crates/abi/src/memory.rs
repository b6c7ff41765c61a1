//! Memory: access rights, regions, windows, device memory, advice.

use core::ffi::{c_int, c_uint, c_void};

use crate::{ibv_context, ibv_pd};

constants! {
    access_flags: c_uint {
        IBV_ACCESS_LOCAL_WRITE = 1 << 0,
        IBV_ACCESS_REMOTE_WRITE = 1 << 1,
        IBV_ACCESS_REMOTE_READ = 1 << 2,
        IBV_ACCESS_REMOTE_ATOMIC = 1 << 3,
        IBV_ACCESS_MW_BIND = 1 << 4,
        IBV_ACCESS_ZERO_BASED = 1 << 5,
        IBV_ACCESS_ON_DEMAND = 1 << 6,
        IBV_ACCESS_HUGETLB = 1 << 7,
        IBV_ACCESS_RELAXED_ORDERING = 1 << 20,
        // A device may ignore unknown flags in this range.
        IBV_ACCESS_OPTIONAL_FIRST = 1 << 20,
        IBV_ACCESS_OPTIONAL_RANGE = 0x3ff0_0000,
    }
}

constants! {
    newer than v44: c_uint {
        IBV_ACCESS_FLUSH_GLOBAL = 1 << 8,
        IBV_ACCESS_FLUSH_PERSISTENT = 1 << 9,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

constants! {
    rereg_mr_flags: c_int {
        IBV_REREG_MR_CHANGE_TRANSLATION = 1 << 0,
        IBV_REREG_MR_CHANGE_PD = 1 << 1,
        IBV_REREG_MR_CHANGE_ACCESS = 1 << 2,
        IBV_REREG_MR_FLAGS_SUPPORTED = 7,
    }
}

constants! {
    // Returned by `ibv_rereg_mr(3)`.
    rereg_mr_err_codes: c_int {
        IBV_REREG_MR_ERR_INPUT = -1,
        IBV_REREG_MR_ERR_DONT_FORK_NEW = -2,
        IBV_REREG_MR_ERR_DO_FORK_OLD = -3,
        IBV_REREG_MR_ERR_CMD = -4,
        IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW = -5,
    }
}

pub type ibv_advise_mr_advice = c_uint;

constants! {
    advise_mr_advices: ibv_advise_mr_advice {
        IBV_ADVISE_MR_ADVICE_PREFETCH = 0,
        IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE = 1,
        IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT = 2,
    }
}

constants! {
    advise_mr_flags: u32 {
        IBV_ADVISE_MR_FLAG_FLUSH = 1 << 0,
    }
}

pub type ibv_mw_type = c_uint;

constants! {
    mw_types: ibv_mw_type {
        IBV_MW_TYPE_1 = 1,
        IBV_MW_TYPE_2 = 2,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    /// `type` in C.
    pub type_: ibv_mw_type,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    pub mw_access_flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: c_uint,
    pub bind_info: ibv_mw_bind_info,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_alloc_dm_attr {
    pub length: usize,
    pub log_align_req: u32,
    pub comp_mask: u32,
}

constants! {
    dm_masks: u32 {
        IBV_DM_MASK_HANDLE = 1 << 0,
    }
}

pub type ibv_memcpy_to_dm =
    unsafe extern "C" fn(dm: *mut ibv_dm, offset: u64, host: *const c_void, len: usize) -> c_int;
pub type ibv_memcpy_from_dm =
    unsafe extern "C" fn(host: *mut c_void, dm: *mut ibv_dm, offset: u64, len: usize) -> c_int;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_dm {
    pub context: *mut ibv_context,
    pub memcpy_to_dm: Option<ibv_memcpy_to_dm>,
    pub memcpy_from_dm: Option<ibv_memcpy_from_dm>,
    pub comp_mask: u32,
    pub handle: u32,
}

zero_default!(
    ibv_mr,
    ibv_mw,
    ibv_mw_bind_info,
    ibv_mw_bind,
    ibv_alloc_dm_attr,
    ibv_dm
);

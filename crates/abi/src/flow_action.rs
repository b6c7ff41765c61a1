//! IPsec flow actions. Verbena supports none; the types complete the table of operations.

use core::ffi::{c_uint, c_void};

use crate::ibv_context;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_action {
    pub context: *mut ibv_context,
}

constants! {
    flow_action_esp_constants: u32 {
        IBV_FLOW_ACTION_ESP_MASK_ESN = 1 << 0,
        IBV_FLOW_ACTION_ESP_KEYMAT_AES_GCM = 0,
        IBV_FLOW_ACTION_IV_ALGO_SEQ = 0,
        IBV_FLOW_ACTION_ESP_REPLAY_NONE = 0,
        IBV_FLOW_ACTION_ESP_REPLAY_BMP = 1,
        IBV_FLOW_ACTION_ESP_FLAGS_INLINE_CRYPTO = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_FULL_OFFLOAD = 1 << 0,
        IBV_FLOW_ACTION_ESP_FLAGS_TUNNEL = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_TRANSPORT = 1 << 1,
        IBV_FLOW_ACTION_ESP_FLAGS_DECRYPT = 0,
        IBV_FLOW_ACTION_ESP_FLAGS_ENCRYPT = 1 << 2,
        IBV_FLOW_ACTION_ESP_FLAGS_ESN_NEW_WINDOW = 1 << 3,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_action_esp {
    pub spi: u32,
    pub seq: u32,
    pub tfc_pad: u32,
    pub flags: u32,
    pub hard_limit_pkts: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_action_esp_encap {
    pub val_ptr: *mut c_void,
    pub next_ptr: *mut ibv_flow_action_esp_encap,
    pub len: u16,
    /// `type` in C.
    pub type_: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_action_esp_attr {
    pub esp_attr: *mut ibv_flow_action_esp,
    pub keymat_proto: c_uint,
    pub keymat_len: u16,
    pub keymat_ptr: *mut c_void,
    pub replay_proto: c_uint,
    pub replay_len: u16,
    pub replay_ptr: *mut c_void,
    pub esp_encap: *mut ibv_flow_action_esp_encap,
    pub comp_mask: u32,
    pub esn: u32,
}

zero_default!(
    ibv_flow_action_esp,
    ibv_flow_action_esp_encap,
    ibv_flow_action_esp_attr
);

//! Counters attached to flows, and device time.

use core::ffi::c_uint;

use crate::{ibv_context, timespec};

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_counters_init_attr {
    pub comp_mask: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_counters {
    pub context: *mut ibv_context,
}

pub type ibv_counter_description = c_uint;

constants! {
    counter_descriptions: ibv_counter_description {
        IBV_COUNTER_PACKETS = 0,
        IBV_COUNTER_BYTES = 1,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_counter_attach_attr {
    pub counter_desc: ibv_counter_description,
    pub index: u32,
    pub comp_mask: u32,
}

constants! {
    read_flags: u32 {
        IBV_READ_COUNTERS_ATTR_PREFER_CACHED = 1 << 0,
        IBV_VALUES_MASK_RAW_CLOCK = 1 << 0,
        IBV_VALUES_MASK_RESERVED = 1 << 1,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_values_ex {
    pub comp_mask: u32,
    pub raw_clock: timespec,
}

zero_default!(
    ibv_counters_init_attr,
    ibv_counter_attach_attr,
    ibv_values_ex
);

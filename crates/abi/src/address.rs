//! Addresses: GIDs, the global route, address-handle attributes, the 40-byte GRH.

use core::ffi::c_uint;
use core::fmt;

use crate::{ibv_context, ibv_pd};

pub type ibv_gid_type = c_uint;

constants! {
    gid_types: ibv_gid_type {
        IBV_GID_TYPE_IB = 0,
        IBV_GID_TYPE_ROCE_V1 = 1,
        IBV_GID_TYPE_ROCE_V2 = 2,
    }
}

/// The two halves of a GID, each in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ibv_gid_global {
    pub subnet_prefix: u64,
    pub interface_id: u64,
}

/// A global identifier: 16 bytes in network order.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_gid {
    pub raw: [u8; 16],
    pub global: ibv_gid_global,
}

impl ibv_gid {
    /// Returns the GID with these 16 bytes, in network order.
    pub const fn from_bytes(raw: [u8; 16]) -> Self {
        Self { raw }
    }

    /// Returns the 16 bytes, in network order.
    pub const fn bytes(&self) -> [u8; 16] {
        // SAFETY: both members are plain bytes of the same size; any value is valid as either.
        unsafe { self.raw }
    }
}

impl PartialEq for ibv_gid {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for ibv_gid {}

impl fmt::Debug for ibv_gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.bytes().as_chunks::<2>().0.iter().enumerate() {
            let separator = if i == 0 { "" } else { ":" };
            write!(f, "{separator}{:02x}{:02x}", pair[0], pair[1])?;
        }
        Ok(())
    }
}

/// One entry of the GID table, as `ibv_query_gid_ex(3)` returns it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_gid_entry {
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// The global route header in the first 40 bytes of a UD receive buffer. All multi-byte fields are
/// in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_grh {
    pub version_tclass_flow: u32,
    pub paylen: u16,
    pub next_hdr: u8,
    pub hop_limit: u8,
    pub sgid: ibv_gid,
    pub dgid: ibv_gid,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_ah {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}

zero_default!(
    ibv_gid,
    ibv_gid_entry,
    ibv_global_route,
    ibv_grh,
    ibv_ah_attr
);

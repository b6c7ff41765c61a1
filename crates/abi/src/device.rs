//! `struct ibv_device`, and the layout of rdma-core's private object around it.

use core::ffi::{c_char, c_int, c_void};

use crate::ibv_context;

pub type ibv_node_type = c_int;

constants! {
    node_types: ibv_node_type {
        IBV_NODE_UNKNOWN = -1,
        IBV_NODE_CA = 1,
        IBV_NODE_SWITCH = 2,
        IBV_NODE_ROUTER = 3,
        IBV_NODE_RNIC = 4,
        IBV_NODE_USNIC = 5,
        IBV_NODE_USNIC_UDP = 6,
        IBV_NODE_UNSPECIFIED = 7,
    }
}

pub type ibv_transport_type = c_int;

constants! {
    transport_types: ibv_transport_type {
        IBV_TRANSPORT_UNKNOWN = -1,
        IBV_TRANSPORT_IB = 0,
        IBV_TRANSPORT_IWARP = 1,
        IBV_TRANSPORT_USNIC = 2,
        IBV_TRANSPORT_USNIC_UDP = 3,
        IBV_TRANSPORT_UNSPECIFIED = 4,
    }
}

pub type ibv_fork_status = core::ffi::c_uint;

constants! {
    fork_statuses: ibv_fork_status {
        IBV_FORK_DISABLED = 0,
        IBV_FORK_ENABLED = 1,
        IBV_FORK_UNNEEDED = 2,
    }
}

constants! {
    sysfs_sizes: usize {
        IBV_SYSFS_NAME_MAX = 64,
        IBV_SYSFS_PATH_MAX = 256,
    }
}

/// Obsolete in C ("never used"); only its size matters.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct _ibv_device_ops {
    pub _dummy1: Option<unsafe extern "C" fn(*mut ibv_device, c_int) -> *mut ibv_context>,
    pub _dummy2: Option<unsafe extern "C" fn(*mut ibv_context)>,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_device {
    pub _ops: _ibv_device_ops,
    pub node_type: ibv_node_type,
    pub transport_type: ibv_transport_type,
    /// Name of the InfiniBand device, e.g. `verbena0`.
    pub name: [c_char; IBV_SYSFS_NAME_MAX],
    /// Name of the character device under `/dev/infiniband`, e.g. `uverbs0`.
    pub dev_name: [c_char; IBV_SYSFS_NAME_MAX],
    pub dev_path: [c_char; IBV_SYSFS_PATH_MAX],
    pub ibdev_path: [c_char; IBV_SYSFS_PATH_MAX],
}

/// A node of a doubly linked list, as in rdma-core's private headers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct list_node {
    pub next: *mut list_node,
    pub prev: *mut list_node,
}

/// The private object of which every `ibv_device` is the first member. Other providers in the
/// process compare `ops` to recognize their devices, so it must be readable.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct verbs_device {
    pub device: ibv_device,
    pub ops: *const c_void,
    pub refcount: c_int,
    pub entry: list_node,
    pub sysfs: *mut c_void,
    pub core_support: u64,
}

zero_default!(_ibv_device_ops, ibv_device, verbs_device);

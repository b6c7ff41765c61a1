//! Flow steering: the rule at the head of a list of specifications, and the specifications.

use core::ffi::c_uint;

use crate::{ibv_context, ibv_counters, ibv_flow_action};

constants! {
    flow_flags: u32 {
        IBV_FLOW_ATTR_FLAGS_DONT_TRAP = 1 << 1,
        IBV_FLOW_ATTR_FLAGS_EGRESS = 1 << 2,
    }
}

pub type ibv_flow_attr_type = c_uint;

constants! {
    flow_attr_types: ibv_flow_attr_type {
        IBV_FLOW_ATTR_NORMAL = 0,
        IBV_FLOW_ATTR_ALL_DEFAULT = 1,
        IBV_FLOW_ATTR_MC_DEFAULT = 2,
        IBV_FLOW_ATTR_SNIFFER = 3,
    }
}

pub type ibv_flow_spec_type = c_uint;

constants! {
    flow_spec_types: ibv_flow_spec_type {
        IBV_FLOW_SPEC_ETH = 0x20,
        IBV_FLOW_SPEC_IPV4 = 0x30,
        IBV_FLOW_SPEC_IPV6 = 0x31,
        IBV_FLOW_SPEC_IPV4_EXT = 0x32,
        IBV_FLOW_SPEC_ESP = 0x34,
        IBV_FLOW_SPEC_TCP = 0x40,
        IBV_FLOW_SPEC_UDP = 0x41,
        IBV_FLOW_SPEC_VXLAN_TUNNEL = 0x50,
        IBV_FLOW_SPEC_GRE = 0x51,
        IBV_FLOW_SPEC_MPLS = 0x60,
        IBV_FLOW_SPEC_INNER = 0x100,
        IBV_FLOW_SPEC_ACTION_TAG = 0x1000,
        IBV_FLOW_SPEC_ACTION_DROP = 0x1001,
        IBV_FLOW_SPEC_ACTION_HANDLE = 0x1002,
        IBV_FLOW_SPEC_ACTION_COUNT = 0x1003,
    }
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_attr {
    pub comp_mask: u32,
    /// `type` in C.
    pub type_: ibv_flow_attr_type,
    pub size: u16,
    pub priority: u16,
    pub num_of_specs: u8,
    pub port: u8,
    pub flags: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow {
    pub comp_mask: u32,
    pub context: *mut ibv_context,
    pub handle: u32,
}

/// A specification: type and size, then value and mask of the filter's type.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_spec_filter<F> {
    /// `type` in C.
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub val: F,
    pub mask: F,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_eth_filter {
    pub dst_mac: [u8; 6],
    pub src_mac: [u8; 6],
    pub ether_type: u16,
    pub vlan_tag: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_ipv4_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_ipv4_ext_filter {
    pub src_ip: u32,
    pub dst_ip: u32,
    pub proto: u8,
    pub tos: u8,
    pub ttl: u8,
    pub flags: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_ipv6_filter {
    pub src_ip: [u8; 16],
    pub dst_ip: [u8; 16],
    pub flow_label: u32,
    pub next_hdr: u8,
    pub traffic_class: u8,
    pub hop_limit: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_esp_filter {
    pub spi: u32,
    pub seq: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_tcp_udp_filter {
    pub dst_port: u16,
    pub src_port: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_gre_filter {
    pub c_ks_res0_ver: u16,
    pub protocol: u16,
    pub key: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_mpls_filter {
    pub label: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_tunnel_filter {
    pub tunnel_id: u32,
}

pub type ibv_flow_spec_eth = ibv_flow_spec_filter<ibv_flow_eth_filter>;
pub type ibv_flow_spec_ipv4 = ibv_flow_spec_filter<ibv_flow_ipv4_filter>;
pub type ibv_flow_spec_ipv4_ext = ibv_flow_spec_filter<ibv_flow_ipv4_ext_filter>;
pub type ibv_flow_spec_ipv6 = ibv_flow_spec_filter<ibv_flow_ipv6_filter>;
pub type ibv_flow_spec_esp = ibv_flow_spec_filter<ibv_flow_esp_filter>;
pub type ibv_flow_spec_tcp_udp = ibv_flow_spec_filter<ibv_flow_tcp_udp_filter>;
pub type ibv_flow_spec_gre = ibv_flow_spec_filter<ibv_flow_gre_filter>;
pub type ibv_flow_spec_mpls = ibv_flow_spec_filter<ibv_flow_mpls_filter>;
pub type ibv_flow_spec_tunnel = ibv_flow_spec_filter<ibv_flow_tunnel_filter>;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_spec_action_tag {
    /// `type` in C.
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub tag_id: u32,
}

/// Also the common header of all specifications.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_spec_action_drop {
    /// `type` in C.
    pub type_: ibv_flow_spec_type,
    pub size: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_spec_action_handle {
    /// `type` in C.
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub action: *const ibv_flow_action,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_flow_spec_counter_action {
    /// `type` in C.
    pub type_: ibv_flow_spec_type,
    pub size: u16,
    pub counters: *mut ibv_counters,
}

/// Any specification; `hdr` has its type.
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_flow_spec {
    pub hdr: ibv_flow_spec_action_drop,
    pub eth: ibv_flow_spec_eth,
    pub ipv4: ibv_flow_spec_ipv4,
    pub tcp_udp: ibv_flow_spec_tcp_udp,
    pub ipv4_ext: ibv_flow_spec_ipv4_ext,
    pub ipv6: ibv_flow_spec_ipv6,
    pub esp: ibv_flow_spec_esp,
    pub tunnel: ibv_flow_spec_tunnel,
    pub gre: ibv_flow_spec_gre,
    pub mpls: ibv_flow_spec_mpls,
    pub flow_tag: ibv_flow_spec_action_tag,
    pub drop: ibv_flow_spec_action_drop,
    pub handle: ibv_flow_spec_action_handle,
    pub flow_count: ibv_flow_spec_counter_action,
}

zero_default!(ibv_flow_attr, ibv_flow_spec);

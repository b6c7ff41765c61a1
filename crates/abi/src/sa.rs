//! Records of subnet administration, from `infiniband/sa.h`.

use core::ffi::c_int;

use crate::ibv_gid;

/// `dlid`, `slid`, `flow_label` and `pkey` are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_sa_path_rec {
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: c_int,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: c_int,
    pub numb_path: u8,
    pub pkey: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_sa_mcmember_rec {
    pub mgid: ibv_gid,
    pub port_gid: ibv_gid,
    pub qkey: u32,
    pub mlid: u16,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub traffic_class: u8,
    pub pkey: u16,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub sl: u8,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub scope: u8,
    pub join_state: u8,
    pub proxy_join: c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_sa_service_rec {
    pub id: u64,
    pub gid: ibv_gid,
    pub pkey: u16,
    pub lease: u32,
    pub key: [u8; 16],
    pub name: [u8; 64],
    pub data8: [u8; 16],
    pub data16: [u16; 8],
    pub data32: [u32; 4],
    pub data64: [u64; 2],
}

constants! {
    path_record_bits: u32 {
        IBV_PATH_RECORD_REVERSIBLE = 0x80,
        IBV_PATH_FLAG_GMP = 1 << 0,
        IBV_PATH_FLAG_PRIMARY = 1 << 1,
        IBV_PATH_FLAG_ALTERNATE = 1 << 2,
        IBV_PATH_FLAG_OUTBOUND = 1 << 3,
        IBV_PATH_FLAG_INBOUND = 1 << 4,
        IBV_PATH_FLAG_INBOUND_REVERSE = 1 << 5,
        IBV_PATH_FLAG_BIDIRECTIONAL = 0x28,
    }
}

/// All multi-byte fields are in network byte order.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_path_record {
    pub service_id: u64,
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: u16,
    pub slid: u16,
    pub flowlabel_hoplimit: u32,
    pub tclass: u8,
    pub reversible_numpath: u8,
    pub pkey: u16,
    pub qosclass_sl: u16,
    pub mtu: u8,
    pub rate: u8,
    pub packetlifetime: u8,
    pub preference: u8,
    pub reserved: [u8; 6],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_path_data {
    pub flags: u32,
    pub reserved: u32,
    pub path: ibv_path_record,
}

zero_default!(
    ibv_sa_path_rec,
    ibv_sa_mcmember_rec,
    ibv_sa_service_rec,
    ibv_path_record
);
zero_default!(ibv_path_data);

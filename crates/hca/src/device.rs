//! What the software adapter is: its devices, their names, identifiers and limits
//! (ibv_query_device(3), ibv_query_port(3)).
//!
//! Ports are numbered from 1 over all devices of a host, which is how [`crate::link`] and the queue
//! pairs know them. A program counts the ports of each device from 1: [`Device::port`] and
//! [`Device::of_port`] lead from one to the other.

use crate::cq;
use crate::errno::Result;
use crate::link;
use crate::memory::key::{MAX_REGIONS, MAX_WINDOWS};
use crate::receive::{MAX_SGE, MAX_SRQ_WR};
use crate::refused;
use verbena_abi::*;

/// What the devices' names begin with; the index follows.
pub const NAME: &str = "verbena";
/// Vendor, as an organisation's 24 bits would be: with the local bit, so that it is nobody's. Programs take 0 for a
/// device that failed to answer.
pub const VENDOR: u32 = 0x02_5642;
/// The first port. How many there are: [`link::ports`].
pub const FIRST_PORT: u8 = 1;
/// Entries of the GID table. Of an InfiniBand port only the first holds a GID.
pub const GIDS: usize = 8;
/// Entries of the partition key table.
pub const PKEYS: usize = 1;
/// The default partition, full membership.
pub const PKEY: u16 = 0xffff;
/// Local identifier of the first InfiniBand port, which is the subnet manager's: there is one
/// subnet a host.
pub const LID: u16 = 1;
/// Most queue pairs, as on adapters of today. See [`crate::quota`] for what processes share.
pub const MAX_QP: u32 = 1 << 17;
/// Most completion queues.
pub const MAX_CQ: u32 = 1 << 17;
/// Most shared receive queues.
pub const MAX_SRQ: u32 = 1 << 16;
/// Most protection domains.
pub const MAX_PD: u32 = 1 << 16;
/// Most address handles.
pub const MAX_AH: u32 = 1 << 20;
/// Most work requests in a send or receive queue.
pub const MAX_QP_WR: u32 = 1 << 15;
/// Most inline data.
pub const MAX_INLINE: u32 = 1024;
/// Longest message, as the architecture has it.
pub const MAX_MESSAGE: u32 = 1 << 31;
/// Most reads and atomics in flight a queue pair.
pub const MAX_RD_ATOMIC: u8 = 128;
/// Bytes of the largest path MTU, and of the longest datagram of an InfiniBand port.
pub const MTU_BYTES: u32 = 4096;

/// One of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(u8);

impl Device {
    /// The first.
    pub const FIRST: Device = Device(0);

    /// All of them, by index.
    pub fn all() -> impl ExactSizeIterator<Item = Device> {
        (0..link::devices()).map(Device)
    }

    /// The device of an index, of as many as a host can have.
    pub fn at(index: u8) -> Option<Device> {
        (index < link::MOST_DEVICES).then_some(Device(index))
    }

    /// The device that has one of the host's ports, and the number that the port has there.
    pub fn of_port(port: u8) -> (Device, u8) {
        let before = port.max(FIRST_PORT) - FIRST_PORT;
        let each = Device::ports();
        (Device(before / each), before % each + 1)
    }

    /// Its index, from 0.
    pub fn index(self) -> u8 {
        self.0
    }

    /// Its name.
    pub fn name(self) -> String {
        format!("{NAME}{}", self.0)
    }

    /// How many ports each device has.
    pub fn ports() -> u8 {
        link::ports() / link::devices()
    }

    /// The numbers by which the host knows its ports.
    pub fn host_ports(self) -> std::ops::RangeInclusive<u8> {
        let before = self.0 * Device::ports();
        before + FIRST_PORT..=before + Device::ports()
    }

    /// The host's number of the device's port `number`, which the program calls `name`.
    ///
    /// # Errors
    /// EINVAL for a port that the device does not have.
    pub fn port(self, name: &str, number: impl Into<u32>) -> Result<u8> {
        let number = number.into();
        let ports = Device::ports();
        if !(1..=u32::from(ports)).contains(&number) {
            return Err(refused!(
                EINVAL,
                "{name} is {number}, and the device has {ports} (phys_port_cnt), counted from 1"
            ));
        }
        // Not more than there are ports in all.
        Ok(self.0 * ports + number as u8)
    }

    /// Identifier of the node and its first port: the same for all processes of a host. Of an
    /// Ethernet interface it is made of its hardware address, else in the range for local use.
    pub fn guid(self) -> u64 {
        let first = *self.host_ports().start();
        if let Some(guid) = link::interface(first).and_then(|interface| interface.guid) {
            return guid;
        }
        host_guid().wrapping_add(self.0.into()) & 0x00ff_ffff_ffff_ffff | LOCAL
    }

    /// Its attributes.
    pub fn attributes(self) -> ibv_device_attr {
        let guid = self.guid().to_be();
        let mut attributes = ibv_device_attr {
            node_guid: guid,
            sys_image_guid: guid,
            phys_port_cnt: Device::ports(),
            ..limits()
        };
        for (place, byte) in attributes
            .fw_ver
            .iter_mut()
            .zip(env!("CARGO_PKG_VERSION").bytes())
        {
            *place = byte as core::ffi::c_char;
        }
        attributes
    }
}

/// The bit of an EUI-64 that nobody's assigned number has.
const LOCAL: u64 = 0x0200_0000_0000_0000;

/// A number that is this host's, of 64 bits.
fn host_guid() -> u64 {
    let id = std::fs::read_to_string("/etc/machine-id")
        .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"))
        .unwrap_or_default();
    // FNV-1a (Fowler, Noll, Vo): any spread will do, and it never changes.
    id.trim()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
}

/// A port in words: by its number and, where there are several devices, that of its device.
pub fn port_name(port: u8) -> String {
    let (device, number) = Device::of_port(port);
    match link::devices() {
        1 => format!("port {number}"),
        _ => format!("port {number} of {}", device.name()),
    }
}

/// An InfiniBand port's local identifier; 0 over Ethernet.
pub fn lid(port: u8) -> u16 {
    match link::is_ethernet() {
        true => 0,
        false => LID + u16::from(port - FIRST_PORT),
    }
}

/// A port's first GID: of InfiniBand the only one, the default subnet prefix and the port's GUID.
pub fn gid(port: u8) -> ibv_gid {
    if let Some(first) = link::interface(port).and_then(|interface| interface.entry(0)) {
        return first.gid;
    }
    // Of InfiniBand each device has one port.
    let (device, _) = Device::of_port(port);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&0xfe80_0000_0000_0000_u64.to_be_bytes());
    bytes[8..].copy_from_slice(&device.guid().to_be_bytes());
    ibv_gid::from_bytes(bytes)
}

/// The GID at an index of a port's table, if there is one.
pub fn gid_at(port: u8, index: usize) -> Option<ibv_gid> {
    match link::interface(port) {
        Some(interface) => interface.entry(index).map(|entry| entry.gid),
        None => (link::has_port(port.into()) && index == 0).then(|| gid(port)),
    }
}

/// Where a GID stands in a port's table, if it is one of the port's.
pub fn index_of(port: u8, gid: ibv_gid) -> Option<usize> {
    (0..GIDS).find(|index| gid_at(port, *index) == Some(gid))
}

/// Where a port's own GID stands from which a destination is reached.
pub fn index_towards(port: u8, destination: ibv_gid) -> usize {
    let index = |interface: &link::Interface| interface.index_towards(destination);
    link::interface(port).and_then(index).unwrap_or(0)
}

/// A port's largest path MTU now, by its code.
pub fn active_mtu(port: u8) -> ibv_mtu {
    link::interface(port).map_or(IBV_MTU_4096, |interface| interface.mtu.code().into())
}

/// Bytes of that: of a full packet, and of the longest datagram.
pub fn mtu_bytes(port: u8) -> u32 {
    link::interface(port).map_or(MTU_BYTES, |interface| interface.mtu.bytes())
}

/// What is the same of all devices.
fn limits() -> ibv_device_attr {
    ibv_device_attr {
        max_mr_size: u64::MAX,
        page_size_cap: 0xffff_ffff_ffff_f000,
        vendor_id: VENDOR,
        hw_ver: 1,
        max_qp: MAX_QP as i32,
        max_qp_wr: MAX_QP_WR as i32,
        device_cap_flags: IBV_DEVICE_MEM_WINDOW
            | IBV_DEVICE_MEM_WINDOW_TYPE_2B
            | IBV_DEVICE_MEM_MGT_EXTENSIONS
            | IBV_DEVICE_RC_RNR_NAK_GEN
            | IBV_DEVICE_SRQ_RESIZE
            | IBV_DEVICE_XRC
            | IBV_DEVICE_SYS_IMAGE_GUID
            | IBV_DEVICE_CURR_QP_STATE_MOD
            | IBV_DEVICE_N_NOTIFY_CQ,
        max_sge: MAX_SGE as i32,
        max_sge_rd: MAX_SGE as i32,
        max_cq: MAX_CQ as i32,
        max_cqe: cq::MAX_ENTRIES as i32,
        max_mr: MAX_REGIONS as i32,
        max_pd: MAX_PD as i32,
        max_qp_rd_atom: i32::from(MAX_RD_ATOMIC),
        max_res_rd_atom: 1 << 20,
        max_qp_init_rd_atom: i32::from(MAX_RD_ATOMIC),
        atomic_cap: IBV_ATOMIC_GLOB,
        max_mw: MAX_WINDOWS as i32,
        max_mcast_grp: 8192,
        max_mcast_qp_attach: 1024,
        max_total_mcast_qp_attach: 1 << 20,
        max_ah: MAX_AH as i32,
        max_srq: MAX_SRQ as i32,
        max_srq_wr: MAX_SRQ_WR as i32,
        max_srq_sge: MAX_SGE as i32,
        max_pkeys: PKEYS as u16,
        ..ibv_device_attr::default()
    }
}

/// A rate that four lanes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// That of a lane, in a port's `active_speed`.
    pub lane: u8,
    /// In units of 100 Mb/s.
    pub speed: u64,
    /// As sysfs has it.
    pub name: &'static str,
}

/// Within the host. There is no wire, but there are programs that reckon with its rate: UCX copies messages into buffers of
/// its own where that seems no slower than the wire. Told of EDR it copied up to 256 KiB, at 4 GB/s where the adapter moves
/// 15 (Open MPI's bandwidth with 64 KiB). Between two processes large writes run at 20 to 45 GB/s: HDR is the next below
/// that all of these programs know.
const WITHIN_HOST: Rate = Rate {
    lane: 64,
    speed: 2000,
    name: "200 Gb/sec (4X HDR)",
};

/// Over Ethernet, whatever the interface may carry: what a virtual one says of its speed is made up as well.
const ETHERNET: Rate = Rate {
    lane: 32,
    speed: 1000,
    name: "100 Gb/sec (4X EDR)",
};

/// What a port says of its rate.
pub fn rate(port: u8) -> Rate {
    match link::interface(port) {
        Some(_) => ETHERNET,
        None => WITHIN_HOST,
    }
}

/// A port's attributes: active, and of four lanes of the rate that it says it has.
pub fn port_attributes(port: u8) -> ibv_port_attr {
    match link::interface(port) {
        Some(interface) => ethernet_port(interface),
        None => infiniband_port(port),
    }
}

/// States of a port, logical and physical (LinkUp, Disabled).
const ACTIVE: (ibv_port_state, u8) = (IBV_PORT_ACTIVE, 5);
const DOWN: (ibv_port_state, u8) = (IBV_PORT_DOWN, 3);

/// A port without LIDs, whose packets need a global route header.
fn ethernet_port(interface: &link::Interface) -> ibv_port_attr {
    let (state, phys_state) = match interface.is_running {
        true => ACTIVE,
        false => DOWN,
    };
    ibv_port_attr {
        state,
        phys_state,
        active_mtu: interface.mtu.code().into(),
        lid: 0,
        sm_lid: 0,
        active_speed: ETHERNET.lane,
        link_layer: IBV_LINK_LAYER_ETHERNET,
        flags: GRH_REQUIRED,
        ..infiniband_port(FIRST_PORT)
    }
}

/// IBV_QPF_GRH_REQUIRED.
const GRH_REQUIRED: u8 = 1;

fn infiniband_port(port: u8) -> ibv_port_attr {
    let (state, phys_state) = match link::is_down(port) {
        false => ACTIVE,
        true => DOWN,
    };
    ibv_port_attr {
        state,
        max_mtu: IBV_MTU_4096,
        active_mtu: IBV_MTU_4096,
        gid_tbl_len: GIDS as i32,
        port_cap_flags: 0,
        max_msg_sz: MAX_MESSAGE,
        pkey_tbl_len: PKEYS as u16,
        lid: lid(port),
        sm_lid: LID,
        max_vl_num: 1,
        active_width: 2,
        active_speed: WITHIN_HOST.lane,
        phys_state,
        link_layer: IBV_LINK_LAYER_INFINIBAND,
        ..ibv_port_attr::default()
    }
}

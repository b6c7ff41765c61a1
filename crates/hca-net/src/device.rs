//! The devices of the software adapter: names, identifiers and limits (ibv_query_device(3),
//! ibv_query_port(3)).
//!
//! Ports are numbered from 1 over all devices of a host; [`crate::link`] and the queue pairs use
//! these numbers. A program counts the ports of each device from 1. [`Device::port`] and
//! [`Device::of_port`] convert between the two.

use crate::identity::{self, NAME, VENDOR};
use crate::link::{self, FIRST_PORT, GIDS};
use crate::reported_port;
use std::sync::OnceLock;
use verbena_abi::*;
use verbena_fabric_protocol::rate::Rate;
use verbena_fabric_protocol::{P_KEYS, PortState};
pub use verbena_hca_memory::limits::MAX_INLINE;
use verbena_hca_memory::limits::{
    MAX_AH, MAX_CQ, MAX_CQE, MAX_MR, MAX_MR_SIZE, MAX_MW, MAX_PD, MAX_QP, MAX_QP_WR, MAX_RD_ATOMIC,
    MAX_SGE, MAX_SRQ, MAX_SRQ_WR,
};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

/// The default partition, full membership: the only one but on a fabric.
pub const PKEY: u16 = 0xffff;
/// LID of the first InfiniBand port, which is also the subnet manager's: without a fabric, a host
/// is one subnet.
pub const LID: u16 = 1;
/// Longest message in bytes, as in the architecture.
pub const MAX_MESSAGE: u32 = 1 << 31;
/// Bytes of the largest path MTU, and of the longest datagram of an InfiniBand port.
pub const MTU_BYTES: u32 = 4096;

/// One of the devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device(u8);

impl Device {
    /// The first device.
    pub const FIRST: Device = Device(0);

    /// Returns all devices, by index.
    pub fn all() -> impl ExactSizeIterator<Item = Device> {
        (0..link::devices()).map(Device)
    }

    /// Returns the device of an index below the limit of a host.
    pub fn at(index: u8) -> Option<Device> {
        (index < link::MOST_DEVICES).then_some(Device(index))
    }

    /// Returns the device of one of the host's ports, and the port's number there.
    #[inline]
    pub fn of_port(port: u8) -> (Device, u8) {
        let before = port.max(FIRST_PORT) - FIRST_PORT;
        let each = Device::ports();
        (Device(before / each), before % each + 1)
    }

    /// Returns its index, from 0.
    pub fn index(self) -> u8 {
        self.0
    }

    /// Returns its name. On a fabric, whose process shows the device in sysfs, it is always that of
    /// the software adapter.
    pub fn name(self) -> String {
        format!("{}{}", name_prefix(), self.0)
    }

    /// Returns the numbers of its vendor and its part on the bus, as sysfs shows them.
    pub fn on_bus(self) -> [u32; 2] {
        match identity::emulated() {
            Some(identity) => [identity.bus_vendor, identity.part],
            None => [VENDOR, 0],
        }
    }

    /// Returns the number of ports of each device.
    #[inline]
    pub fn ports() -> u8 {
        link::ports() / link::devices()
    }

    /// Returns the host's numbers of its ports.
    #[inline]
    pub fn host_ports(self) -> std::ops::RangeInclusive<u8> {
        let before = self.0 * Device::ports();
        before + FIRST_PORT..=before + Device::ports()
    }

    /// Returns the host's number of the device's port `number`, which the program calls `name`.
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
        // At most the number of all ports.
        Ok(self.0 * ports + number as u8)
    }

    /// Returns the identifier of the node and its first port: the same for all processes of a host.
    /// With an Ethernet interface it derives from the hardware address, otherwise it is in the
    /// range for local use.
    pub fn guid(self) -> u64 {
        if let Some(fabric) = link::fabric() {
            return fabric.state().guid;
        }
        let first = *self.host_ports().start();
        if let Some(guid) = link::interface(first).and_then(|interface| interface.guid) {
            return guid;
        }
        host_guid().wrapping_add(self.0.into()) & 0x00ff_ffff_ffff_ffff | LOCAL
    }

    /// Returns its attributes.
    pub fn attributes(self) -> ibv_device_attr {
        let system = link::fabric().map(|fabric| fabric.state().system_guid);
        let mut attributes = ibv_device_attr {
            node_guid: self.guid().to_be(),
            sys_image_guid: system.unwrap_or_else(|| self.guid()).to_be(),
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

/// Returns the names of the devices without their index.
pub fn name_prefix() -> &'static str {
    match identity::emulated() {
        Some(identity) if link::fabric().is_none() => &identity.name,
        _ => NAME,
    }
}

/// The bit of an EUI-64 that marks it as locally administered.
const LOCAL: u64 = 0x0200_0000_0000_0000;

/// Returns a 64-bit number derived from the host's identity. Each datagram with a global route
/// asks for it.
fn host_guid() -> u64 {
    static GUID: OnceLock<u64> = OnceLock::new();
    *GUID.get_or_init(read_host_guid)
}

fn read_host_guid() -> u64 {
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

/// Returns a port's description: its number and, where there are several devices, its device.
pub fn port_name(port: u8) -> String {
    let (device, number) = Device::of_port(port);
    match link::devices() {
        1 => format!("port {number}"),
        _ => format!("port {number} of {}", device.name()),
    }
}

/// Returns the number of entries of a port's table of partition keys.
pub fn pkeys() -> usize {
    link::fabric().map_or(1, |_| P_KEYS)
}

/// Returns a partition key of a port; 0 for an unused entry.
#[inline]
pub fn pkey(port: u8, index: u16) -> u16 {
    match link::fabric() {
        None => PKEY,
        Some(fabric) => {
            let keys = fabric.port(port).map(|port| &port.p_keys);
            keys.and_then(|keys| keys.get(usize::from(index)).copied())
                .unwrap_or(0)
        }
    }
}

/// Returns an InfiniBand port's LID; 0 with Ethernet.
#[inline]
pub fn lid(port: u8) -> u16 {
    if let Some(port) = link::fabric().and_then(|fabric| fabric.port(port)) {
        return port.lid;
    }
    match link::is_ethernet() {
        true => 0,
        false => LID + u16::from(port - FIRST_PORT),
    }
}

/// Returns a port's first GID: with InfiniBand the only one, made of the default subnet prefix and
/// the port's GUID.
#[inline]
pub fn gid(port: u8) -> ibv_gid {
    if let Some(first) = link::interface(port).and_then(|interface| interface.entry(0)) {
        return first.gid;
    }
    if let Some(first) = gid_of_fabric(port, 0) {
        return first;
    }
    // With InfiniBand each device has one port.
    let (device, _) = Device::of_port(port);
    joined(0xfe80_0000_0000_0000, device.guid())
}

/// Returns the GID at an index of a port of a fabric, unless that entry is unused.
fn gid_of_fabric(port: u8, index: usize) -> Option<ibv_gid> {
    let port = link::fabric()?.port(port)?;
    let guid = port.guids.get(index).copied().filter(|guid| *guid != 0)?;
    Some(joined(port.prefix, guid))
}

fn joined(prefix: u64, guid: u64) -> ibv_gid {
    ibv_gid::from_bytes((u128::from(prefix) << 64 | u128::from(guid)).to_be_bytes())
}

/// Returns the GID at an index of a port's table, if there is one.
#[inline]
pub fn gid_at(port: u8, index: usize) -> Option<ibv_gid> {
    match link::interface(port) {
        Some(interface) => interface.entry(index).map(|entry| entry.gid),
        None if index > 0 => gid_of_fabric(port, index),
        None => link::has_port(port.into()).then(|| gid(port)),
    }
}

/// Returns the index of a GID in a port's table, if it is there.
pub fn index_of(port: u8, gid: ibv_gid) -> Option<usize> {
    (0..GIDS).find(|index| gid_at(port, *index) == Some(gid))
}

/// Returns the index of a port's GID from which a destination is reached.
pub fn index_towards(port: u8, destination: ibv_gid) -> usize {
    let index = |interface: &link::Interface| interface.index_towards(destination);
    link::interface(port).and_then(index).unwrap_or(0)
}

/// Returns a port's largest path MTU now, by its code.
#[inline]
pub fn active_mtu(port: u8) -> ibv_mtu {
    match (link::interface(port), link::fabric()) {
        (Some(interface), _) => interface.mtu.code().into(),
        (None, Some(fabric)) => fabric
            .port(port)
            .map_or(IBV_MTU_4096, |port| port.mtu.into()),
        (None, None) => reported_port::mtu().into(),
    }
}

/// Returns that MTU in bytes, which limits a full packet and a datagram.
#[inline]
pub fn mtu_bytes(port: u8) -> u32 {
    match link::interface(port) {
        Some(interface) => interface.mtu.bytes(),
        None => 128 << active_mtu(port).clamp(1, 5),
    }
}

/// Returns the InfiniBand port that a destination names by its LID or, if no port has that, by its
/// GID. With one port it is that port for every destination.
pub fn port_towards(destination: &ibv_ah_attr) -> Option<u8> {
    let ports = FIRST_PORT..=link::ports();
    if link::fabric().is_none() && *ports.end() == FIRST_PORT {
        return Some(FIRST_PORT);
    }
    let by_lid = ports.clone().find(|port| lid(*port) == destination.dlid);
    by_lid.or_else(|| {
        let is_it = |port: &u8| gid(*port) == destination.grh.dgid;
        ports
            .into_iter()
            .find(is_it)
            .filter(|_| destination.is_global != 0)
    })
}

/// Returns the attributes that all devices share.
fn limits() -> ibv_device_attr {
    let [vendor_id, vendor_part_id, hw_ver] = match identity::emulated() {
        Some(identity) => [identity.vendor, identity.part, identity.revision],
        None => [VENDOR, 0, 1],
    };
    ibv_device_attr {
        max_mr_size: MAX_MR_SIZE.get(),
        page_size_cap: 0xffff_ffff_ffff_f000,
        vendor_id,
        vendor_part_id,
        hw_ver,
        max_qp: MAX_QP.as_attribute(),
        max_qp_wr: MAX_QP_WR.as_attribute(),
        device_cap_flags: IBV_DEVICE_MEM_WINDOW
            | IBV_DEVICE_MEM_WINDOW_TYPE_2B
            | IBV_DEVICE_MEM_MGT_EXTENSIONS
            | IBV_DEVICE_RC_RNR_NAK_GEN
            | IBV_DEVICE_SRQ_RESIZE
            | IBV_DEVICE_XRC
            | IBV_DEVICE_SYS_IMAGE_GUID
            | IBV_DEVICE_CURR_QP_STATE_MOD
            | IBV_DEVICE_N_NOTIFY_CQ,
        max_sge: MAX_SGE.as_attribute(),
        max_sge_rd: MAX_SGE.as_attribute(),
        max_cq: MAX_CQ.as_attribute(),
        max_cqe: MAX_CQE.as_attribute(),
        max_mr: MAX_MR.as_attribute(),
        max_pd: MAX_PD.as_attribute(),
        max_qp_rd_atom: MAX_RD_ATOMIC.as_attribute(),
        max_res_rd_atom: 1 << 20,
        max_qp_init_rd_atom: MAX_RD_ATOMIC.as_attribute(),
        atomic_cap: IBV_ATOMIC_GLOB,
        max_mw: MAX_MW.as_attribute(),
        max_mcast_grp: 8192,
        max_mcast_qp_attach: 1024,
        max_total_mcast_qp_attach: 1 << 20,
        max_ah: MAX_AH.as_attribute(),
        max_srq: MAX_SRQ.as_attribute(),
        max_srq_wr: MAX_SRQ_WR.as_attribute(),
        max_srq_sge: MAX_SGE.as_attribute(),
        max_pkeys: pkeys() as u16,
        ..ibv_device_attr::default()
    }
}

/// The reported rate with Ethernet, EDR, for every interface: the speed of a virtual interface is
/// made up as well.
const ETHERNET: Rate = Rate {
    speed: 32,
    width: 2,
};

/// Returns the rate that a port reports.
pub fn rate(port: u8) -> Rate {
    let of_fabric = link::fabric().and_then(|fabric| fabric.port(port));
    match (link::interface(port), of_fabric) {
        (Some(_), _) => ETHERNET,
        (None, None) => reported_port::rate(),
        (None, Some(port)) => Rate {
            speed: port.speed,
            width: port.width,
        },
    }
}

/// Returns the code of a speed in the byte of ibv_query_port(3): of XDR that of NDR, as in Linux.
fn narrow_speed(speed: u16) -> u8 {
    const NDR: u8 = 128;
    u8::try_from(speed).unwrap_or(NDR)
}

/// Returns a port's attributes.
pub fn port_attributes(port: u8) -> ibv_port_attr {
    let of_fabric = link::fabric().and_then(|fabric| fabric.port(port));
    match (link::interface(port), of_fabric) {
        (Some(interface), _) => ethernet_port(interface),
        (None, Some(state)) => fabric_port(port, state),
        (None, None) => infiniband_port(port),
    }
}

/// Returns the attributes of a port of a fabric, as the subnet manager set them.
fn fabric_port(port: u8, state: &PortState) -> ibv_port_attr {
    let own = infiniband_port(port);
    let (logical, physical) = match u32::from(state.state) {
        // A rule or `verbena port` may have taken it down.
        IBV_PORT_ACTIVE => (own.state, own.phys_state),
        other => (other, state.physical),
    };
    ibv_port_attr {
        state: logical,
        phys_state: physical,
        max_mtu: state.mtu_cap.into(),
        active_mtu: state.mtu.into(),
        gid_tbl_len: state.guids.len() as i32,
        port_cap_flags: state.capabilities,
        port_cap_flags2: state.capabilities_2,
        bad_pkey_cntr: state.p_key_violations.into(),
        qkey_viol_cntr: state.q_key_violations.into(),
        lid: state.lid,
        sm_lid: state.sm_lid,
        lmc: state.lmc,
        max_vl_num: state.lanes,
        sm_sl: state.sm_sl,
        subnet_timeout: state.subnet_timeout,
        init_type_reply: state.init_type,
        active_width: state.width,
        active_speed: narrow_speed(state.speed),
        ..own
    }
}

/// Port states, logical and physical (LinkUp, Disabled).
const ACTIVE: (ibv_port_state, u8) = (IBV_PORT_ACTIVE, 5);
const DOWN: (ibv_port_state, u8) = (IBV_PORT_DOWN, 3);

/// Returns the attributes of a port without LIDs, whose packets need a global route header.
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
        active_width: ETHERNET.width,
        active_speed: narrow_speed(ETHERNET.speed),
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
        active_mtu: reported_port::mtu().into(),
        gid_tbl_len: GIDS as i32,
        port_cap_flags: 0,
        max_msg_sz: MAX_MESSAGE,
        pkey_tbl_len: pkeys() as u16,
        lid: lid(port),
        sm_lid: LID,
        max_vl_num: 1,
        active_width: reported_port::rate().width,
        active_speed: narrow_speed(reported_port::rate().speed),
        phys_state,
        link_layer: IBV_LINK_LAYER_INFINIBAND,
        ..ibv_port_attr::default()
    }
}

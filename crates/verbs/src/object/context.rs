//! Devices, open devices and their attributes: `ibv_get_device_list(3)`, `ibv_open_device(3)`,
//! `ibv_query_device(3)`, `ibv_query_port(3)`.

use crate::error::{Error, Result};
use crate::library::Library;
use crate::object::thread_safe;
use std::ffi::c_char;
use std::mem::offset_of;
use std::ptr::NonNull;
use std::sync::Arc;
use verbena_abi as abi;

/// The name of a device in a library. Opening it reads the device list again.
#[derive(Clone)]
pub struct Device {
    library: Arc<Library>,
    name: String,
}

impl Library {
    /// Returns the devices of this library, in its order.
    ///
    /// # Errors
    ///
    /// `ibv_get_device_list` fails.
    pub fn devices(self: &Arc<Self>) -> Result<Vec<Device>> {
        let mut devices = Vec::new();
        self.each_device(|_, name| {
            devices.push(Device {
                library: Arc::clone(self),
                name: name.to_owned(),
            });
            None::<()>
        })?;
        Ok(devices)
    }

    /// Returns the device of this name, or the first one if `name` is `None`.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`], or `ibv_get_device_list` fails.
    pub fn device(self: &Arc<Self>, name: Option<&str>) -> Result<Device> {
        let devices = self.devices()?;
        let found = match name {
            Some(name) => devices.iter().find(|device| device.name == name),
            None => devices.first(),
        };
        found.cloned().ok_or_else(|| Error::NoDevice {
            wanted: name.unwrap_or("at all").to_owned(),
            found: match devices.as_slice() {
                [] => "none".to_owned(),
                some => some.iter().map(Device::name).collect::<Vec<_>>().join(", "),
            },
        })
    }

    fn each_device<T>(
        &self,
        mut visit: impl FnMut(*mut abi::ibv_device, &str) -> Option<T>,
    ) -> Result<Option<T>> {
        let mut count = 0;
        // SAFETY: the out-pointer is valid.
        let list = unsafe { (self.functions.get_device_list)(&mut count) };
        if list.is_null() {
            return Err(Error::last("ibv_get_device_list", self.name()));
        }
        let mut found = None;
        for i in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` valid device pointers, alive until `free_device_list`.
            let (device, name) = unsafe {
                let device = *list.add(i);
                (device, text(&(*device).name))
            };
            found = visit(device, &name);
            if found.is_some() {
                break;
            }
        }
        // SAFETY: the list came from get_device_list and is not used after this.
        unsafe { (self.functions.free_device_list)(list) };
        Ok(found)
    }
}

fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> = characters
        .iter()
        .map(|&c| c as u8)
        .take_while(|&c| c != 0)
        .collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Device {
    /// Returns its name, e.g. `mlx5_0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Opens the device.
    ///
    /// # Errors
    ///
    /// [`Error::NoDevice`] if the device has disappeared, or the library cannot open it.
    pub fn open(&self) -> Result<Arc<Context>> {
        let functions = &self.library.functions;
        let opened = self.library.each_device(|device, name| {
            (name == self.name).then(|| {
                // SAFETY: the device belongs to the list, which is alive during the visit; an open
                // context outlives the list (ibv_get_device_list(3)).
                NonNull::new(unsafe { (functions.open_device)(device) })
                    .ok_or_else(|| Error::last("ibv_open_device", &self.name))
            })
        })?;
        match opened {
            Some(raw) => Ok(Arc::new(Context {
                raw: raw?,
                library: Arc::clone(&self.library),
                name: self.name.clone(),
            })),
            None => Err(Error::NoDevice {
                wanted: self.name.clone(),
                found: "the device was removed".into(),
            }),
        }
    }
}

/// An open device.
pub struct Context {
    pub(crate) raw: NonNull<abi::ibv_context>,
    pub(crate) library: Arc<Library>,
    name: String,
}
thread_safe!(Context);

/// Attributes of a device: the fields of `struct ibv_device_attr` in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceAttributes {
    /// Firmware version.
    pub firmware: String,
    /// Vendor ID.
    pub vendor: u32,
    /// Vendor part ID.
    pub part: u32,
    /// Maximum number of queue pairs.
    pub max_pairs: u32,
    /// Maximum depth of a work queue.
    pub max_depth: u32,
    /// Maximum number of scatter/gather elements.
    pub max_segments: u32,
    /// Maximum depth of a completion queue.
    pub max_completions: u32,
    /// Maximum number of regions.
    pub max_regions: u32,
    /// Maximum length of a region in bytes.
    pub max_region_bytes: u64,
    /// Maximum number of reads and atomics that a queue pair serves concurrently.
    pub max_reads: u32,
    /// Maximum number of reads and atomics that a queue pair has in flight.
    pub max_reads_initiated: u32,
    /// Maximum number of shared receive queues; 0 if not supported.
    pub max_shared_receives: u32,
    /// `enum ibv_atomic_cap`.
    pub atomic: u32,
    /// `enum ibv_device_cap_flags`.
    pub flags: u32,
    /// Number of ports.
    pub ports: u8,
}

impl DeviceAttributes {
    /// Returns whether the device supports atomics.
    pub fn has_atomics(&self) -> bool {
        self.atomic != abi::IBV_ATOMIC_NONE
    }

    /// Returns whether it supports memory windows of type 2.
    pub fn has_windows(&self) -> bool {
        self.flags & (abi::IBV_DEVICE_MEM_WINDOW_TYPE_2A | abi::IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0
    }

    /// Returns whether it supports XRC.
    pub fn has_xrc(&self) -> bool {
        self.flags & abi::IBV_DEVICE_XRC != 0
    }
}

/// Attributes of a port: the fields of `struct ibv_port_attr` in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortAttributes {
    /// Local identifier.
    pub lid: u16,
    /// Whether packets can flow.
    pub active: bool,
    /// Active MTU in bytes.
    pub mtu: u32,
    /// Active MTU as `enum ibv_mtu`.
    pub mtu_code: u32,
    /// Maximum message length in bytes.
    pub max_message: u32,
    /// Number of lanes.
    pub lanes: u32,
    /// Data rate of a lane after encoding, in Mbit/s; 0 if the code is unknown.
    pub lane_megabits: u32,
    /// Whether the link layer is Ethernet, so that every address needs a GID.
    pub ethernet: bool,
    /// Length of the GID table, which may have empty entries.
    pub gids: u32,
    /// Length of the P_Key table, which may have empty entries.
    pub partitions: u16,
    /// LID of the subnet manager.
    pub manager_lid: u16,
    /// Service level of packets to the subnet manager.
    pub manager_service_level: u8,
    /// Whether a subnet manager can ask programs of the port to register again
    /// (`IBV_PORT_CLIENT_REG_SUP`).
    pub has_reregistration: bool,
}

impl Context {
    /// Returns the device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its library.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// Returns the device attributes (`ibv_query_device(3)`).
    ///
    /// # Errors
    ///
    /// The call fails.
    pub fn attributes(&self) -> Result<DeviceAttributes> {
        let mut raw = abi::ibv_device_attr::default();
        // SAFETY: the context is open, the structure has the library's layout.
        let errno = unsafe { (self.library.functions.query_device)(self.raw.as_ptr(), &mut raw) };
        if errno != 0 {
            return Err(Error::call("ibv_query_device", &self.name, errno));
        }
        let count = |value: i32| u32::try_from(value).unwrap_or(0);
        Ok(DeviceAttributes {
            firmware: text(&raw.fw_ver),
            vendor: raw.vendor_id,
            part: raw.vendor_part_id,
            max_pairs: count(raw.max_qp),
            max_depth: count(raw.max_qp_wr),
            max_segments: count(raw.max_sge),
            max_completions: count(raw.max_cqe),
            max_regions: count(raw.max_mr),
            max_region_bytes: raw.max_mr_size,
            max_reads: count(raw.max_qp_rd_atom),
            max_reads_initiated: count(raw.max_qp_init_rd_atom),
            max_shared_receives: count(raw.max_srq),
            atomic: raw.atomic_cap,
            flags: raw.device_cap_flags,
            ports: raw.phys_port_cnt,
        })
    }

    /// Returns the port attributes (`ibv_query_port(3)`). The exported function, which older
    /// programs call, writes the fields up to the link layer and leaves the rest zero.
    ///
    /// # Errors
    ///
    /// The call fails, e.g. for an invalid port number.
    pub fn port(&self, port: u8) -> Result<PortAttributes> {
        let mut raw = abi::ibv_port_attr::default();
        // SAFETY: the context is open; the structure is at least as large as the one that the
        // function fills.
        let errno =
            unsafe { (self.library.functions.query_port)(self.raw.as_ptr(), port, &mut raw) };
        if errno != 0 {
            let object = format!("{} port {port}", self.name);
            return Err(Error::call("ibv_query_port", object, errno));
        }
        Ok(PortAttributes {
            lid: raw.lid,
            active: raw.state == abi::IBV_PORT_ACTIVE,
            mtu: 128 << raw.active_mtu.clamp(1, 5),
            mtu_code: raw.active_mtu,
            max_message: raw.max_msg_sz,
            lanes: lanes(raw.active_width),
            lane_megabits: lane_megabits(raw.active_speed),
            ethernet: raw.link_layer == abi::IBV_LINK_LAYER_ETHERNET,
            gids: u32::try_from(raw.gid_tbl_len).unwrap_or(0),
            partitions: raw.pkey_tbl_len,
            manager_lid: raw.sm_lid,
            manager_service_level: raw.sm_sl,
            has_reregistration: raw.port_cap_flags & abi::IBV_PORT_CLIENT_REG_SUP != 0,
        })
    }

    /// Returns the extended context, if the library has all of it.
    pub(crate) fn extended(&self) -> Option<&abi::verbs_context> {
        // SAFETY: the context is open and stays so while self is borrowed. If `abi_compat` has the
        // marker value, the context is the last member of an extended context, `sz` bytes long,
        // which grows at its beginning (verbs.h, verbs_get_ctx).
        unsafe {
            if (*self.raw.as_ptr()).abi_compat != abi::VERBS_ABI_IS_EXTENDED {
                return None;
            }
            let whole = self
                .raw
                .as_ptr()
                .cast::<u8>()
                .sub(offset_of!(abi::verbs_context, context))
                .cast::<abi::verbs_context>();
            // A reference needs the whole structure; libraries of the last decade have it.
            ((&raw const (*whole).sz).read() >= size_of::<abi::verbs_context>()).then(|| &*whole)
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: every object of the context keeps it alive, so none is left.
        unsafe { (self.library.functions.close_device)(self.raw.as_ptr()) };
    }
}

fn lanes(width: u8) -> u32 {
    match width {
        1 => 1,
        2 => 4,
        4 => 8,
        8 => 12,
        16 => 2,
        _ => 0,
    }
}

/// Returns the data rate of a lane in Mbit/s by `active_speed`, after encoding: SDR, DDR and QDR
/// lose a fifth to 8b/10b, FDR10 and later 2/66.
fn lane_megabits(speed: u8) -> u32 {
    match speed {
        1 => 2_000,
        2 => 4_000,
        4 => 8_000,
        8 => 10_000,
        16 => 13_636,
        32 => 25_000,
        64 => 50_000,
        128 => 100_000,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qdr_four_lanes_carry_32_gigabits() {
        assert_eq!(lanes(2) * lane_megabits(4), 32_000);
    }

    #[test]
    fn device_names_end_at_the_nul() {
        let mut name = [0 as c_char; 8];
        name[0] = b'm' as c_char;
        name[1] = b'l' as c_char;
        assert_eq!(text(&name), "ml");
    }
}

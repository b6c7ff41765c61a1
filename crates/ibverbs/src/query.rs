//! Questions to an open device: ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3),
//! ibv_query_gid_ex(3), ibv_query_gid_table(3), ibv_query_pkey(3), ibv_get_pkey_index(3),
//! ibv_query_rt_values_ex(3), ibv_query_port_speed(3).

use libc::{c_int, ssize_t};
use verbena_abi::*;
use verbena_hca::device::{self, Device, GIDS, PKEY, PKEYS, gid_at};
use verbena_hca::errno::{Errno, Result};
use verbena_hca::link;
use verbena_hca::refused;
use verbena_hca::sys::clock;

use crate::{attributes, context, door, outcome};

/// The host's number of a port of the device that `context` has open.
///
/// # Errors
/// EINVAL for a port that the device does not have.
///
/// # Safety
/// `context` is null or a pointer from us.
unsafe fn port_of(context: *mut ibv_context, port: impl Into<u32>) -> Result<u8> {
    // SAFETY: as promised to us.
    unsafe { context::device(context) }.and_then(|device| device.port("port", port))
}

/// The device's attributes.
///
/// # Safety
/// `context` is null or a pointer from us; `attributes` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attributes: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_device", unsafe {
        context::device(context).and_then(|device| door::output(attributes, device.attributes()))
    })
}

/// The slot behind ibv_query_device_ex: as much of the attributes as the program's header knows.
///
/// # Safety
/// `context` is null or a pointer from us; `input` is null or valid; `attributes` is null or has
/// `size` bytes.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_device_ex", unsafe {
        context::device(context).and_then(|device| {
            if input.as_ref().is_some_and(|input| input.comp_mask != 0) {
                return Err(refused!(
                    EINVAL,
                    "comp_mask of the input is not 0: set it to 0"
                ));
            }
            door::output_sized(attributes, size, &attributes::device_ex(device))
        })
    })
}

/// What the exported `ibv_query_port` fills: the structure as it was before `port_cap_flags2`.
/// Callers of today zero the rest themselves and then ask through the slot.
const COMPATIBLE_PORT_SIZE: usize = std::mem::offset_of!(ibv_port_attr, port_cap_flags2);

/// The port's attributes, as programs and `dlsym` users know them that do not ask through the slot.
///
/// # Safety
/// `context` is null or a pointer from us; `attributes` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: as promised to us.
    unsafe { query_port(context, port, attributes, COMPATIBLE_PORT_SIZE) }
}

/// The slot behind ibv_query_port: as much of the attributes as the program's header knows.
///
/// # Safety
/// `context` is null or a pointer from us; `attributes` is null or has `size` bytes.
pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_port", unsafe {
        port_of(context, port).and_then(|port| {
            context::of(context)?.object.context.process.look_at_ports();
            door::output_sized(attributes, size, &device::port_attributes(port))
        })
    })
}

/// The port's rate in units of 100 Mb/s.
///
/// # Safety
/// `context` is null or a pointer from us; `speed` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_port_speed", unsafe {
        port_of(context, port).and_then(|port| door::output(speed, device::rate(port).speed))
    })
}

/// An entry of the GID table. Returns -1 if there is none.
///
/// # Safety
/// `context` is null or a pointer from us; `gid` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::minus_one("ibv_query_gid", unsafe {
        port_of(context, port).and_then(|port| {
            let index = check_index(index, GIDS)?;
            // An entry of the table that holds none reads as zeros.
            door::output(gid, gid_at(port, index).unwrap_or_default())
        })
    })
}

/// ibv_query_gid_type, which only rdma-core's own programs call: the kind of a GID, in the
/// numbering of sysfs.
///
/// # Safety
/// `context` is null or a pointer from us; `kind` is null or valid for writes.
pub unsafe fn gid_type(context: *mut ibv_context, port: u8, index: u32, kind: *mut u32) -> c_int {
    /// InfiniBand and RoCE v1 share a number there.
    const SYSFS_IB_OR_ROCE_V1: u32 = 0;
    const SYSFS_ROCE_V2: u32 = 1;
    let number = match link::is_ethernet() {
        true => SYSFS_ROCE_V2,
        false => SYSFS_IB_OR_ROCE_V1,
    };
    // SAFETY: as promised to us.
    outcome::minus_one("ibv_query_gid_type", unsafe {
        port_of(context, port)
            .and_then(|_| check_index(index, GIDS))
            .and_then(|_| door::output(kind, number))
    })
}

/// An entry of the table of one of the host's ports.
fn gid_entry(port: u8, index: usize) -> Option<ibv_gid_entry> {
    gid_at(port, index).map(|gid| ibv_gid_entry {
        gid,
        gid_index: index as u32,
        port_num: u32::from(Device::of_port(port).1),
        gid_type: match link::is_ethernet() {
            true => IBV_GID_TYPE_ROCE_V2,
            false => IBV_GID_TYPE_IB,
        },
        ndev_ifindex: link::interface(port).map_or(0, |interface| interface.index),
    })
}

/// An entry of the GID table with what belongs to it.
///
/// # Safety
/// `context` is null or a pointer from us; `entry` is null or has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_gid_ex", unsafe {
        context::of(context)
            .and_then(|_| no_flags(flags))
            .and_then(|()| port_of(context, port))
            .and_then(|port| {
                let index = check_index(index, GIDS)?;
                // ibv_query_gid_ex(3): ENODATA where the table holds none.
                let found = gid_entry(port, index).ok_or(Errno(libc::ENODATA))?;
                door::output_sized(entry, size, &found)
            })
    })
}

/// All valid entries of the GID tables. Returns their number, or the negative error.
///
/// # Safety
/// `context` is null or a pointer from us; `entries` has room for `max` entries of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max: usize,
    flags: u32,
    size: usize,
) -> ssize_t {
    // SAFETY: as promised to us.
    outcome::count_or_negative("ibv_query_gid_table", unsafe {
        context::device(context)
            .and_then(|device| no_flags(flags).map(|()| device))
            .and_then(|device| {
                let of_port = |port| (0..GIDS).filter_map(move |index| gid_entry(port, index));
                let found: Vec<_> = device.host_ports().flat_map(of_port).collect();
                if max < found.len() {
                    return Err(refused!(
                        EINVAL,
                        "max_entries is {max}, and the tables hold {} GIDs: give room for gid_tbl_len of each port",
                        found.len()
                    ));
                }
                for (place, entry) in found.iter().enumerate() {
                    // The program's entries are `size` bytes apart, whatever we know of them.
                    door::output_sized(entries.wrapping_byte_add(place * size), size, entry)?;
                }
                Ok(found.len() as ssize_t)
            })
    })
}

/// An entry of the P_Key table, in network byte order. Returns -1 if there is none.
///
/// # Safety
/// `context` is null or a pointer from us; `pkey` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::minus_one("ibv_query_pkey", unsafe {
        port_of(context, port)
            .and_then(|_| check_index(index, PKEYS))
            .and_then(|_| door::output(pkey, PKEY.to_be()))
    })
}

/// Where a P_Key (in network byte order) stands in the table, or -1.
///
/// # Safety
/// `context` is null or a pointer from us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port: u8,
    pkey: u16,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::number("ibv_get_pkey_index", unsafe { port_of(context, port) }.and_then(|_| {
        if pkey == PKEY.to_be() {
            Ok(0)
        } else {
            Err(refused!(
                EINVAL,
                "pkey is {:#06x}, and the table holds {PKEY:#06x} alone (the argument is in network byte order)",
                u16::from_be(pkey)
            ))
        }
    }))
}

/// The slot behind ibv_query_rt_values_ex: the device's clock, the one that stamps completions.
///
/// # Safety
/// `context` is null or a pointer from us; `values` is null or valid.
pub unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: as promised to us.
    outcome::errno_value("ibv_query_rt_values_ex", unsafe {
        context::of(context).and_then(|_| {
            let values = door::in_out(values)?;
            // What was asked for and is not known stays unanswered, as the man page has it.
            let known = values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK;
            if known != 0 {
                // The raw clock's ticks are nanoseconds; the structure carries them as such.
                values.raw_clock = timespec {
                    tv_sec: 0,
                    tv_nsec: clock::now() as _,
                };
            }
            values.comp_mask = known;
            Ok(())
        })
    })
}

fn check_index(index: impl Into<i64>, length: usize) -> Result<usize> {
    let index = index.into();
    match usize::try_from(index) {
        Ok(index) if index < length => Ok(index),
        _ => Err(refused!(
            EINVAL,
            "index is {index}, and the table has {length} entries, counted from 0"
        )),
    }
}

fn no_flags(flags: u32) -> Result<()> {
    if flags == 0 {
        Ok(())
    } else {
        Err(refused!(
            EINVAL,
            "flags is {flags:#x}, and none is known: give 0"
        ))
    }
}

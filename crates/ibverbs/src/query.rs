//! Queries of an open device: ibv_query_device(3), ibv_query_port(3), ibv_query_gid(3),
//! ibv_query_gid_ex(3), ibv_query_gid_table(3), ibv_query_pkey(3), ibv_get_pkey_index(3),
//! ibv_query_rt_values_ex(3), ibv_query_port_speed(3).

use libc::{c_int, ssize_t};
use verbena_abi::*;
use verbena_hca_net::device::{self, Device, gid_at, pkey, pkeys};
use verbena_hca_net::link::{self, GIDS};
use verbena_hca_os::clock;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::{arguments, attributes, context, outcome};

/// Returns the host's number of a port of the device that `context` has opened.
///
/// # Errors
/// EINVAL for a port that the device does not have.
///
/// # Safety
/// `context` must be null or live.
unsafe fn port_of(context: *mut ibv_context, port: impl Into<u32>) -> Result<u8> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { context::device(context) }.and_then(|device| device.port("port", port))
}

/// Returns the device's attributes.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_device(
    context: *mut ibv_context,
    attributes: *mut ibv_device_attr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_device", unsafe {
        context::device(context)
            .and_then(|device| arguments::output(attributes, device.attributes()))
    })
}

/// Slot of ibv_query_device_ex: returns as much of the attributes as the program's header declares.
///
/// # Safety
/// `context` must be null or live; `input` must be null or valid; `attributes` must be null or have
/// `size` bytes.
pub unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_device_ex", unsafe {
        context::device(context).and_then(|device| {
            if input.as_ref().is_some_and(|input| input.comp_mask != 0) {
                return Err(refused!(
                    EINVAL,
                    "comp_mask of the input is not 0: set it to 0"
                ));
            }
            arguments::output_sized(attributes, size, &attributes::device_ex(device))
        })
    })
}

/// Bytes that the exported `ibv_query_port` fills: the structure as it was before
/// `port_cap_flags2`. Current callers zero the rest themselves and use the slot.
const COMPATIBLE_PORT_SIZE: usize = std::mem::offset_of!(ibv_port_attr, port_cap_flags2);

/// Returns the port's attributes, for programs and `dlsym` users that do not use the slot.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { query_port(context, port, attributes, COMPATIBLE_PORT_SIZE) }
}

/// Slot of ibv_query_port: returns as much of the attributes as the program's header declares.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or have `size` bytes.
pub unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_port", unsafe {
        port_of(context, port).and_then(|port| {
            context::of(context)?.object.context.process.look_at_ports();
            arguments::output_sized(attributes, size, &device::port_attributes(port))
        })
    })
}

/// Returns the port's rate in units of 100 Mb/s.
///
/// # Safety
/// `context` must be null or live; `speed` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_port_speed(
    context: *mut ibv_context,
    port: u32,
    speed: *mut u64,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_port_speed", unsafe {
        port_of(context, port).and_then(|port| arguments::output(speed, device::rate(port).units()))
    })
}

/// Returns an entry of the GID table, or -1 if there is none.
///
/// # Safety
/// `context` must be null or live; `gid` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_query_gid", unsafe {
        port_of(context, port).and_then(|port| {
            let index = check_index(index, GIDS)?;
            // An empty entry of the table reads as zeros.
            arguments::output(gid, gid_at(port, index).unwrap_or_default())
        })
    })
}

/// ibv_query_gid_type, which only rdma-core's own programs call: returns the type of a GID, in the
/// numbering of sysfs.
///
/// # Safety
/// `context` must be null or live; `kind` must be null or valid for writes.
pub unsafe fn gid_type(context: *mut ibv_context, port: u8, index: u32, kind: *mut u32) -> c_int {
    /// InfiniBand and RoCE v1 share a number there.
    const SYSFS_IB_OR_ROCE_V1: u32 = 0;
    const SYSFS_ROCE_V2: u32 = 1;
    let number = match link::is_ethernet() {
        true => SYSFS_ROCE_V2,
        false => SYSFS_IB_OR_ROCE_V1,
    };
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_query_gid_type", unsafe {
        port_of(context, port)
            .and_then(|_| check_index(index, GIDS))
            .and_then(|_| arguments::output(kind, number))
    })
}

/// Returns an entry of the table of one of the host's ports.
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

/// Returns an entry of the GID table with its properties.
///
/// # Safety
/// `context` must be null or live; `entry` must be null or have `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    size: usize,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_gid_ex", unsafe {
        context::of(context)
            .and_then(|_| no_flags(flags))
            .and_then(|()| port_of(context, port))
            .and_then(|port| {
                let index = check_index(index, GIDS)?;
                // ibv_query_gid_ex(3): ENODATA for an empty entry.
                let found = gid_entry(port, index).ok_or(Errno(libc::ENODATA))?;
                arguments::output_sized(entry, size, &found)
            })
    })
}

/// Returns all valid entries of the GID tables. Returns their number, or the negative error.
///
/// # Safety
/// `context` must be null or live; `entries` must have space for `max` entries of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _ibv_query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max: usize,
    flags: u32,
    size: usize,
) -> ssize_t {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::count_or_negative("ibv_query_gid_table", unsafe {
        context::device(context)
            .and_then(|device| no_flags(flags).map(|()| device))
            .and_then(|device| {
                let of_port = |port| (0..GIDS).filter_map(move |index| gid_entry(port, index));
                let found: Vec<_> = device.host_ports().flat_map(of_port).collect();
                if max < found.len() {
                    return Err(refused!(
                        EINVAL,
                        "max_entries is {max}, and the tables hold {} GIDs: provide gid_tbl_len \
                         entries for each port",
                        found.len()
                    ));
                }
                for (place, entry) in found.iter().enumerate() {
                    // The program's entries are `size` bytes apart, independent of the size known
                    // here.
                    arguments::output_sized(entries.wrapping_byte_add(place * size), size, entry)?;
                }
                Ok(found.len() as ssize_t)
            })
    })
}

/// Returns an entry of the P_Key table, in network byte order, or -1 if there is none.
///
/// # Safety
/// `context` must be null or live; `key` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_query_pkey(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::minus_one("ibv_query_pkey", unsafe {
        port_of(context, port).and_then(|port| {
            let index = check_index(index, pkeys())?;
            arguments::output(key, pkey(port, index as u16).to_be())
        })
    })
}

/// Returns the index of a P_Key (in network byte order) in the table, or -1.
///
/// # Safety
/// `context` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_pkey_index(
    context: *mut ibv_context,
    port: u8,
    key: u16,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::number(
        "ibv_get_pkey_index",
        unsafe { port_of(context, port) }.and_then(|port| {
            let wanted = u16::from_be(key);
            let entries = 0..pkeys() as u16;
            let found = entries.clone().find(|index| pkey(port, *index) == wanted);
            let all = || {
                let used = entries
                    .map(|index| pkey(port, index))
                    .filter(|key| *key != 0);
                let texts: Vec<String> = used.map(|key| format!("{key:#06x}")).collect();
                texts.join(", ")
            };
            found.map(c_int::from).ok_or_else(|| {
                refused!(
                    EINVAL,
                    "pkey is {wanted:#06x}, and the table holds only {} (the argument is in \
                     network byte order)",
                    all()
                )
            })
        }),
    )
}

/// Slot of ibv_query_rt_values_ex: returns the device's clock, which stamps completions.
///
/// # Safety
/// `context` must be null or live; `values` must be null or valid.
pub unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_query_rt_values_ex", unsafe {
        context::of(context).and_then(|_| {
            let values = arguments::in_out(values)?;
            // Unknown values are not filled in, as in the man page.
            let known = values.comp_mask & IBV_VALUES_MASK_RAW_CLOCK;
            if known != 0 {
                // The raw clock's ticks are nanoseconds.
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
            "flags is {flags:#x}, and none is supported: give 0"
        ))
    }
}

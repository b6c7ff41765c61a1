//! The device list: ibv_get_device_list(3), ibv_get_device_name(3), ibv_get_device_guid(3),
//! ibv_get_device_index(3).

use std::ptr;
use std::sync::OnceLock;

use libc::{c_char, c_int};
use verbena_abi::*;
use verbena_hca::emulation;
use verbena_hca_net::device::Device;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;

use crate::outcome;

/// Providers compare this pointer to recognize their devices. No provider has it; it is readable.
static NO_PROVIDER: [usize; 64] = [0; 64];

/// A device in rdma-core's layout, static for the whole process: a program may keep a pointer after
/// it has freed the list.
struct Shown(verbs_device);

// SAFETY: never changed after its creation, and its pointers refer to static data.
unsafe impl Send for Shown {}
// SAFETY: never changed after its creation, and its pointers refer to static data.
unsafe impl Sync for Shown {}

/// Returns all devices, in the program's view.
fn devices() -> &'static [Shown] {
    static DEVICES: OnceLock<Vec<Shown>> = OnceLock::new();
    DEVICES.get_or_init(|| {
        // It has printed the reason if it fails, and opening a device fails as well.
        let _ = emulation::begin();
        Device::all().map(Shown::of).collect()
    })
}

impl Shown {
    fn of(device: Device) -> Shown {
        let name = device.name();
        let shown = ibv_device {
            node_type: IBV_NODE_CA,
            transport_type: IBV_TRANSPORT_IB,
            name: text(&name),
            dev_name: text(&name),
            dev_path: text(&format!("/sys/class/infiniband_verbs/{name}")),
            ibdev_path: text(&format!("/sys/class/infiniband/{name}")),
            ..Default::default()
        };
        Shown(verbs_device {
            device: shown,
            ops: NO_PROVIDER.as_ptr().cast(),
            refcount: 1,
            ..Default::default()
        })
    }

    fn pointer(&self) -> *mut ibv_device {
        (&raw const self.0.device).cast_mut()
    }
}

/// Returns a device, in the program's view.
pub fn shown(device: Device) -> *mut ibv_device {
    devices()[usize::from(device.index())].pointer()
}

/// Returns the device of a pointer.
///
/// # Errors
/// EINVAL for a pointer that is not in the device list.
pub fn of(device: *const ibv_device) -> Result<Device> {
    let mut all = Device::all().zip(devices());
    let found = all.find(|(_, shown)| ptr::eq(device, shown.pointer()));
    found.map(|(device, _)| device).ok_or_else(|| {
        refused!(
            EINVAL,
            "{device:p} is not a device from ibv_get_device_list"
        )
    })
}

/// Converts a text to a zero-terminated array.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (target, byte) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *target = byte as c_char;
    }
    array
}

/// Returns all devices: a null-terminated array, and their number if the program requests it.
///
/// # Safety
/// `number` must be null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(number: *mut c_int) -> *mut *mut ibv_device {
    let all = devices();
    if !number.is_null() {
        // SAFETY: not null, so valid for writes, as the caller promises.
        unsafe { number.write(all.len() as c_int) };
    }
    let pointers = all.iter().map(Shown::pointer);
    let list: Box<[_]> = pointers.chain([ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

/// Frees a list.
///
/// # Safety
/// `list` must be null, or a list from [`ibv_get_device_list`] that was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if !list.is_null() {
        let length = devices().len() + 1;
        // SAFETY: the caller promises a list, which was made from such a box; the number of devices
        // is constant.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, length)) });
    }
}

/// Returns the device's name: its public field, as in rdma-core, so that structures made by the
/// program (test doubles, copies) work. NULL for NULL.
///
/// # Safety
/// `device` must be null or point to an `ibv_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return ptr::null();
    }
    // SAFETY: not null, so it points to a structure, as the caller promises.
    unsafe { (&raw const (*device).name).cast() }
}

/// Returns the device's GUID in network byte order, or 0.
///
/// # Safety
/// `device` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    of(device).map_or(0, |device| device.guid().to_be())
}

/// Returns -1, as the device has no kernel index. Not reported as a refusal: librdmacm queries each
/// device, and "no index" is a valid result of ibv_get_device_index(3).
///
/// # Safety
/// `device` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_index(_device: *mut ibv_device) -> c_int {
    outcome::absent(Errno(libc::EOPNOTSUPP));
    -1
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_device_list_ends_with_null_and_devices_outlive_it() {
        let mut number = 0;
        // SAFETY: the list is freed once, and the device is static.
        unsafe {
            let list = ibv_get_device_list(&mut number);
            assert_eq!(number, 1);
            let device = *list;
            assert!((*list.add(1)).is_null());
            ibv_free_device_list(list);
            let name = CStr::from_ptr(ibv_get_device_name(device));
            assert_eq!(name.to_str().unwrap(), Device::FIRST.name());
            let guid = Device::FIRST.guid();
            assert_eq!(ibv_get_device_guid(device), guid.to_be());
        }
    }

    #[test]
    fn strings_are_always_terminated() {
        assert_eq!(text::<4>("ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
        assert_eq!(text::<3>("abc"), [b'a' as c_char, b'b' as c_char, 0]);
    }
}

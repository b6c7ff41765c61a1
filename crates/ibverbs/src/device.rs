//! The device list: ibv_get_device_list(3), ibv_get_device_name(3), ibv_get_device_guid(3),
//! ibv_get_device_index(3).

use std::ptr;
use std::sync::OnceLock;

use libc::{c_char, c_int};
use verbena_abi::*;
use verbena_hca::device::Device;
use verbena_hca::errno::{Errno, Result};
use verbena_hca::refused;

use crate::outcome;

/// What providers compare to learn whether a device is theirs. It is nobody's, and readable.
static NO_PROVIDER: [usize; 64] = [0; 64];

/// A device as rdma-core shapes it, in one place for the whole process: a program may keep a
/// pointer after it freed the list.
struct Shown(verbs_device);

// SAFETY: never changed after it was made, and what its pointers point to is static.
unsafe impl Send for Shown {}
// SAFETY: as above.
unsafe impl Sync for Shown {}

/// All devices, as the program sees them.
fn devices() -> &'static [Shown] {
    static DEVICES: OnceLock<Vec<Shown>> = OnceLock::new();
    DEVICES.get_or_init(|| Device::all().map(Shown::of).collect())
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

/// One of the devices, as the program sees it.
pub fn shown(device: Device) -> *mut ibv_device {
    devices()[usize::from(device.index())].pointer()
}

/// Which of our devices a pointer is.
///
/// # Errors
/// EINVAL for a pointer that is not one of our devices.
pub fn of(device: *const ibv_device) -> Result<Device> {
    let mut all = Device::all().zip(devices());
    let found = all.find(|(_, shown)| ptr::eq(device, shown.pointer()));
    found.map(|(device, _)| device).ok_or_else(|| {
        refused!(
            EINVAL,
            "{device:p} is not a device that ibv_get_device_list gives"
        )
    })
}

/// A text in a fixed array, with a final zero.
fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    for (target, byte) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *target = byte as c_char;
    }
    array
}

/// All devices: a null-terminated array, and their number if the program wants it.
///
/// # Safety
/// `number` is null or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_list(number: *mut c_int) -> *mut *mut ibv_device {
    let all = devices();
    if !number.is_null() {
        // SAFETY: valid by the caller's promise.
        unsafe { number.write(all.len() as c_int) };
    }
    let pointers = all.iter().map(Shown::pointer);
    let list: Box<[_]> = pointers.chain([ptr::null_mut()]).collect();
    Box::into_raw(list).cast()
}

/// Frees a list.
///
/// # Safety
/// `list` is null or a list from [`ibv_get_device_list`] that was not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_free_device_list(list: *mut *mut ibv_device) {
    if !list.is_null() {
        let length = devices().len() + 1;
        // SAFETY: made from such a box, by the caller's promise; devices do not come or go.
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(list, length)) });
    }
}

/// The device's name: its public field, as in rdma-core, so that structures which the program made
/// (test doubles, copies) have theirs. NULL for NULL.
///
/// # Safety
/// `device` is null or points to an `ibv_device`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char {
    if device.is_null() {
        return ptr::null();
    }
    // SAFETY: the structure is there, by the caller's promise.
    unsafe { (&raw const (*device).name).cast() }
}

/// The device's GUID in network byte order, or 0.
///
/// # Safety
/// `device` is null or a pointer from us.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_get_device_guid(device: *mut ibv_device) -> u64 {
    of(device).map_or(0, |device| device.guid().to_be())
}

/// The kernel's index of the device: -1, for it has none. Not reported as a refusal: librdmacm asks
/// each device, and "no index" is one of the answers that ibv_get_device_index(3) has.
///
/// # Safety
/// `device` is null or a pointer from us.
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
    fn the_list_ends_with_null_and_outlives_its_freeing() {
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
    fn a_text_always_ends() {
        assert_eq!(text::<4>("ab"), [b'a' as c_char, b'b' as c_char, 0, 0]);
        assert_eq!(text::<3>("abc"), [b'a' as c_char, b'b' as c_char, 0]);
    }
}

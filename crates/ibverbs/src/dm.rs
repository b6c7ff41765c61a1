//! Device memory: ibv_alloc_dm(3), ibv_reg_dm_mr, ibv_import_dm(3).

use std::ptr;
use std::sync::Arc;

use libc::{c_int, c_uint, c_void};
use verbena_abi::*;
use verbena_hca_memory::device::DeviceMemory;
use verbena_hca_memory::region::Region;
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::exports::Exports;
use crate::handle::{Handle, Object};
use crate::{arguments, context, mr, outcome, pd};

/// A device memory allocation.
pub struct DmObject {
    memory: Arc<DeviceMemory>,
}

impl Object for DmObject {
    type C = ibv_dm;
    const TAG: [u8; 4] = *b"dm  ";
}

static MEMORIES: Exports<DeviceMemory> = Exports::empty();

/// Allocations are whole pages, which satisfies any alignment up to this.
const LOG_PAGE: u32 = 12;
/// Device memory is accessed in words of four bytes, as on the adapters that have it.
const WORD: u64 = 4;

/// Checks the alignment.
///
/// # Errors
/// EINVAL if offset or length is not a multiple of a word.
fn whole_words(offset: u64, length: usize) -> Result<()> {
    if offset.is_multiple_of(WORD) && (length as u64).is_multiple_of(WORD) {
        Ok(())
    } else {
        Err(refused!(
            EINVAL,
            "offset {offset} and length {length} must be multiples of {WORD}: device memory is \
             accessed in words"
        ))
    }
}

unsafe fn of<'a>(dm: *mut ibv_dm) -> Result<&'a Handle<DmObject>> {
    // SAFETY: callers promise null, live or valid pointers.
    unsafe { Handle::of(dm) }
}

/// Slot of ibv_alloc_dm: allocates device memory.
///
/// # Safety
/// `context` must be null or live; `attributes` must be null or valid.
pub unsafe extern "C" fn alloc_dm(
    context: *mut ibv_context,
    attributes: *mut ibv_alloc_dm_attr,
) -> *mut ibv_dm {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_alloc_dm", unsafe {
        context::of(context).and_then(|handle| {
            let attributes = arguments::input(attributes)?;
            if attributes.comp_mask != 0 || attributes.log_align_req > LOG_PAGE {
                return Err(refused!(
                    EINVAL,
                    "comp_mask is {:#x} and log_align_req {}: 0 and at most {LOG_PAGE} are allowed",
                    attributes.comp_mask,
                    attributes.log_align_req
                ));
            }
            let owner = &handle.object.context.process.memory;
            let memory = Arc::new(DeviceMemory::allocate(owner, attributes.length as u64)?);
            let number = MEMORIES.add(&memory);
            Ok(hand_out(context, memory, number))
        })
    })
}

fn hand_out(context: *mut ibv_context, memory: Arc<DeviceMemory>, handle: u32) -> *mut ibv_dm {
    let c = ibv_dm {
        context,
        memcpy_to_dm: Some(memcpy_to_dm),
        memcpy_from_dm: Some(memcpy_from_dm),
        comp_mask: IBV_DM_MASK_HANDLE,
        handle,
    };
    Handle::create(c, DmObject { memory })
}

/// Slot of ibv_free_dm: frees device memory. Fails while a memory region uses it.
///
/// # Safety
/// `dm` must be null or live, and not be used again.
pub unsafe extern "C" fn free_dm(dm: *mut ibv_dm) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_free_dm",
        unsafe { of(dm) }.and_then(|handle| {
            if Arc::strong_count(&handle.object.memory) > 1 {
                return Err(refused!(
                    EBUSY,
                    "memory regions use the device memory, or it is imported: ibv_dereg_mr and \
                 ibv_unimport_dm first"
                ));
            }
            // SAFETY: live, and not used again.
            unsafe {
                MEMORIES.remove((*dm).handle);
                Handle::<DmObject>::destroy(dm);
            }
            Ok(())
        }),
    )
}

/// Slot of ibv_reg_dm_mr: registers a range of device memory.
///
/// # Safety
/// `pd` and `dm` must be null or live.
pub unsafe extern "C" fn reg_dm_mr(
    pd: *mut ibv_pd,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_reg_dm_mr", unsafe {
        pd::of(pd).and_then(|domain| {
            let memory = &of(dm)?.object.memory;
            let region = Region::of_device_memory(domain, memory, offset, length as u64, access)?;
            Ok(mr::hand_out(pd, ptr::null_mut(), length, region))
        })
    })
}

/// Slot of ibv_memcpy_to_dm: copies host memory to device memory.
///
/// # Safety
/// `dm` must be null or live; `host` must have `length` bytes.
unsafe extern "C" fn memcpy_to_dm(
    dm: *mut ibv_dm,
    offset: u64,
    host: *const c_void,
    length: usize,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_memcpy_to_dm", unsafe {
        of(dm).and_then(|handle| {
            whole_words(offset, length)?;
            handle
                .object
                .memory
                .write(offset, arguments::array(host.cast::<u8>(), length)?)
        })
    })
}

/// Slot of ibv_memcpy_from_dm: copies device memory to host memory.
///
/// # Safety
/// `dm` must be null or live; `host` must have `length` bytes.
unsafe extern "C" fn memcpy_from_dm(
    host: *mut c_void,
    dm: *mut ibv_dm,
    offset: u64,
    length: usize,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_memcpy_from_dm", unsafe {
        of(dm).and_then(|handle| {
            whole_words(offset, length)?;
            handle
                .object
                .memory
                .read(offset, arguments::array_mut(host.cast::<u8>(), length)?)
        })
    })
}

/// Returns a second pointer to device memory of this process, by its handle number.
///
/// # Safety
/// `context` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_dm(context: *mut ibv_context, number: u32) -> *mut ibv_dm {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer(
        "ibv_import_dm",
        unsafe { context::of(context) }.and_then(|_| {
            let memory = MEMORIES.find(number)?;
            Ok(hand_out(context, memory, number))
        }),
    )
}

/// Releases a pointer from [`ibv_import_dm`]; the memory remains.
///
/// # Safety
/// `dm` must be null or a pointer from [`ibv_import_dm`], and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_dm(dm: *mut ibv_dm) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if of(dm).is_ok() {
            Handle::<DmObject>::destroy(dm);
        }
    }
}

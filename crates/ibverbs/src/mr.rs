//! Memory regions: ibv_reg_mr(3), ibv_rereg_mr(3), ibv_advise_mr(3), ibv_alloc_null_mr(3),
//! ibv_import_mr(3), ibv_reg_mr_ex(3), ibv_reg_buf_mr(3), ibv_reg_dmabuf_mr(3).

use std::ptr;
use std::sync::Arc;

use libc::{c_int, c_uint, c_void};
use verbena_abi::*;
use verbena_hca_memory::dmabuf;
use verbena_hca_memory::region::{Change, Region};
use verbena_hca_os::errno::Result;
use verbena_hca_os::refused;

use crate::buf::{self, ibv_buf};
use crate::exports::Exports;
use crate::handle::{Handle, Object};
use crate::{arguments, outcome, pd};

/// A memory region.
pub struct MrObject {
    /// The adapter's object.
    pub region: Arc<Region>,
}

impl Object for MrObject {
    type C = ibv_mr;
    const TAG: [u8; 4] = *b"mr  ";
}

static REGIONS: Exports<Region> = Exports::empty();

/// Returns the adapter's object behind a pointer.
///
/// # Errors
/// EINVAL if it is no region.
///
/// # Safety
/// `mr` must be null or live, and stay so while the result is used.
pub unsafe fn of<'a>(mr: *mut ibv_mr) -> Result<&'a Arc<Region>> {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { Handle::<MrObject>::of(mr) }.map(|handle| &handle.object.region)
}

/// Returns a new pointer to a region for the program.
///
/// # Safety
/// `pd` must be live.
pub unsafe fn hand_out(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    region: Region,
) -> *mut ibv_mr {
    let region = Arc::new(region);
    let number = REGIONS.add(&region);
    // SAFETY: the caller promises a live `pd`.
    unsafe { hand_out_shared(pd, address, length, region, number) }
}

unsafe fn hand_out_shared(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    region: Arc<Region>,
    handle: u32,
) -> *mut ibv_mr {
    let key = region.key();
    let c = ibv_mr {
        // SAFETY: callers promise a live `pd`.
        context: unsafe { pd::context_of(pd) },
        pd,
        addr,
        length,
        handle,
        lkey: key,
        rkey: key,
    };
    Handle::create(c, MrObject { region })
}

unsafe fn register(
    call: &str,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: callers promise null, live or valid pointers.
    outcome::pointer(call, unsafe {
        pd::of(pd)
            .and_then(|pd| Region::register(pd, address as u64, length as u64, iova, access))
            .map(|region| hand_out(pd, address, length, region))
    })
}

/// Registers memory under its own address.
///
/// # Safety
/// `pd` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        register(
            "ibv_reg_mr",
            pd,
            address,
            length,
            address as u64,
            access as c_uint,
        )
    }
}

/// Registers memory under an address chosen by the program.
///
/// # Safety
/// `pd` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        register(
            "ibv_reg_mr_iova",
            pd,
            address,
            length,
            iova,
            access as c_uint,
        )
    }
}

/// Like [`ibv_reg_mr_iova`]; the header calls it if access flags may be optional ones.
///
/// # Safety
/// `pd` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { register("ibv_reg_mr_iova2", pd, address, length, iova, access) }
}

/// `struct ibv_mr_init_attr`, later than v44.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MrInitAttr {
    length: usize,
    access: c_int,
    comp_mask: u64,
    iova: u64,
    addr: *mut c_void,
    fd: c_int,
    fd_offset: u64,
    dmah: *mut c_void,
}

/// The same since v63: the buffer is appended, if `comp_mask` has the bit.
#[repr(C)]
struct MrInitAttrOfBuffer {
    head: MrInitAttr,
    buf: *mut ibv_buf,
}

const WITH_IOVA: u64 = 1 << 0;
const WITH_ADDRESS: u64 = 1 << 1;
const WITH_DESCRIPTOR: u64 = 1 << 2;
const WITH_OFFSET: u64 = 1 << 3;
const WITH_BUFFER: u64 = 1 << 5;

/// Registers memory, with all variants in one structure. DMA handles are not supported.
///
/// # Safety
/// `pd` must be null or live; `attributes` must be null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_mr_ex(
    pd: *mut ibv_pd,
    attributes: *mut MrInitAttr,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    let checked = unsafe { arguments::input(attributes) }.and_then(|asked| {
        if asked.comp_mask & WITH_BUFFER != 0 {
            // SAFETY: the bit says that the structure is the longer one.
            let buffer = unsafe { (*attributes.cast::<MrInitAttrOfBuffer>()).buf };
            // SAFETY: the caller promises null, live or valid pointers.
            unsafe { inside_buffer(pd, buffer, asked)? };
        }
        check_attributes(asked)
    });
    let (asked, iova) = match checked {
        Ok(checked) => checked,
        Err(error) => return outcome::pointer("ibv_reg_mr_ex", Err(error)),
    };
    let access = asked.access as c_uint;
    if asked.comp_mask & WITH_DESCRIPTOR != 0 {
        let request = dmabuf::Request {
            offset: asked.fd_offset,
            length: asked.length as u64,
            iova,
            access,
        };
        // SAFETY: the caller promises null, live or valid pointers.
        return unsafe { register_dma_buf("ibv_reg_mr_ex", pd, asked.fd, request) };
    }
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { register("ibv_reg_mr_ex", pd, asked.addr, asked.length, iova, access) }
}

/// Checks the members that the structure declares as present; returns it with the address to
/// register under.
fn check_attributes(asked: &MrInitAttr) -> Result<(&MrInitAttr, u64)> {
    let mask = asked.comp_mask;
    const OF_DMA_BUF: u64 = WITH_DESCRIPTOR | WITH_OFFSET;
    if mask & !(WITH_IOVA | WITH_ADDRESS | OF_DMA_BUF | WITH_BUFFER) != 0 {
        return Err(refused!(
            EOPNOTSUPP,
            "comp_mask is {mask:#x}: DMA handles need a bus, so give addr, or fd, without dmah"
        ));
    }
    if mask & OF_DMA_BUF != 0 {
        return match mask == OF_DMA_BUF | WITH_IOVA {
            true => Ok((asked, asked.iova)),
            false => Err(refused!(
                EINVAL,
                "comp_mask is {mask:#x}: give a dma-buf by fd, fd_offset and iova, all three, \
                 without addr"
            )),
        };
    }
    if mask & WITH_ADDRESS == 0 {
        return Err(refused!(
            EINVAL,
            "comp_mask is {mask:#x} and lacks IBV_REG_MR_MASK_ADDR: set it, and addr"
        ));
    }
    let iova = match mask & WITH_IOVA != 0 {
        true => asked.iova,
        false => asked.addr as u64,
    };
    Ok((asked, iova))
}

/// Checks that the memory is part of a buffer of the library. A file descriptor in addition is
/// refused, as in rdma-core.
///
/// # Safety
/// `buffer` must be null or live.
unsafe fn inside_buffer(pd: *mut ibv_pd, buffer: *mut ibv_buf, asked: &MrInitAttr) -> Result<()> {
    if asked.comp_mask & (WITH_DESCRIPTOR | WITH_OFFSET) != 0 {
        return Err(refused!(
            EINVAL,
            "comp_mask is {:#x}: give a buffer of ibv_alloc_buf by buf and addr, without fd and \
             fd_offset",
            asked.comp_mask
        ));
    }
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { buf::check_range(buffer, pd, asked.addr, asked.length) }
}

/// Registers a part of a buffer from [`buf::ibv_alloc_buf`].
///
/// # Safety
/// `pd` and `buffer` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_buf_mr(
    pd: *mut ibv_pd,
    buffer: *mut ibv_buf,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    if let Err(error) = unsafe { buf::check_range(buffer, pd, address, length) } {
        return outcome::pointer("ibv_reg_buf_mr", Err(error));
    }
    let (own, access) = (address as u64, access as c_uint);
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { register("ibv_reg_buf_mr", pd, address, length, own, access) }
}

/// Registers part of a dma-buf that can be mapped: one of host memory (udmabuf, dma-heaps), or of a
/// driver with mappable buffers. The region's `addr` is `offset`, as in rdma-core.
///
/// # Safety
/// `pd` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_reg_dmabuf_mr(
    pd: *mut ibv_pd,
    offset: u64,
    length: usize,
    iova: u64,
    fd: c_int,
    access: c_int,
) -> *mut ibv_mr {
    let request = dmabuf::Request {
        offset,
        length: length as u64,
        iova,
        access: access as c_uint,
    };
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe { register_dma_buf("ibv_reg_dmabuf_mr", pd, fd, request) }
}

unsafe fn register_dma_buf(
    call: &str,
    pd: *mut ibv_pd,
    fd: c_int,
    request: dmabuf::Request,
) -> *mut ibv_mr {
    // SAFETY: callers promise null, live or valid pointers.
    outcome::pointer(call, unsafe {
        pd::of(pd)
            .and_then(|pd| dmabuf::register(pd, fd, request))
            .map(|region| {
                let (offset, length) = (request.offset as usize, request.length as usize);
                hand_out(pd, ptr::without_provenance_mut(offset), length, region)
            })
    })
}

/// Changes a region in place. Returns 0 or one of IBV_REREG_MR_ERR_*.
///
/// # Safety
/// `mr` must be null or live, and `pd` too if it is to change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    let change = unsafe { change(mr, flags, pd, address, length, access) };
    let (handle, change) = match change {
        Ok(change) => change,
        Err(error) => {
            return outcome::number("ibv_rereg_mr", Err(error)).min(IBV_REREG_MR_ERR_INPUT);
        }
    };
    if let Err(error) = handle.object.region.reregister(change) {
        outcome::errno_value("ibv_rereg_mr", Err(error));
        return IBV_REREG_MR_ERR_CMD;
    }
    // SAFETY: live; the program does not use its structure while the call changes it.
    unsafe {
        let mr = &mut *handle.c();
        if flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
            mr.addr = address;
            mr.length = length;
        }
        if flags & IBV_REREG_MR_CHANGE_PD != 0 {
            mr.pd = pd;
            mr.context = pd::context_of(pd);
        }
        mr.lkey = handle.object.region.key();
        mr.rkey = mr.lkey;
    }
    0
}

unsafe fn change<'a>(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> Result<(&'a Handle<MrObject>, Change)> {
    // SAFETY: callers promise null, live or valid pointers.
    let handle = unsafe { Handle::<MrObject>::of(mr) }?;
    if flags == 0 || flags & !IBV_REREG_MR_FLAGS_SUPPORTED != 0 {
        return Err(refused!(
            EINVAL,
            "flags is {flags:#x}: give one or more of IBV_REREG_MR_CHANGE_TRANSLATION, \
             _PD and _ACCESS, and nothing else"
        ));
    }
    let mut change = Change::default();
    if flags & IBV_REREG_MR_CHANGE_TRANSLATION != 0 {
        if address.is_null() || length == 0 {
            return Err(refused!(
                EINVAL,
                "IBV_REREG_MR_CHANGE_TRANSLATION with addr {address:p} and length {length}: \
                 give the new range"
            ));
        }
        change.translation = Some((address as u64, length as u64));
    }
    if flags & IBV_REREG_MR_CHANGE_PD != 0 {
        // SAFETY: callers promise null, live or valid pointers.
        change.pd = Some(unsafe { pd::of(pd) }?.clone());
    }
    if flags & IBV_REREG_MR_CHANGE_ACCESS != 0 {
        change.access = Some(access as c_uint);
    }
    Ok((handle, change))
}

/// Deregisters a region.
///
/// # Safety
/// `mr` must be null or live, and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value(
        "ibv_dereg_mr",
        unsafe { Handle::<MrObject>::of(mr) }.and_then(|handle| {
            handle.object.region.deregister()?;
            // SAFETY: live, and not used again.
            unsafe {
                REGIONS.remove((*mr).handle);
                Handle::<MrObject>::destroy(mr);
            }
            Ok(())
        }),
    )
}

/// Slot of ibv_alloc_null_mr: creates a null region.
///
/// # Safety
/// `pd` must be null or live.
pub unsafe extern "C" fn alloc_null_mr(pd: *mut ibv_pd) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_alloc_null_mr", unsafe {
        pd::of(pd)
            .and_then(Region::null)
            .map(|region| hand_out(pd, ptr::null_mut(), 0, region))
    })
}

/// Slot of ibv_advise_mr: checks its arguments and does nothing else. The kernel decides where
/// pages are, and an operation pages in the ones it needs.
///
/// # Safety
/// `pd` must be null or live; `list` must have `count` elements.
pub unsafe extern "C" fn advise_mr(
    pd: *mut ibv_pd,
    advice: ibv_advise_mr_advice,
    flags: u32,
    list: *mut ibv_sge,
    count: u32,
) -> c_int {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::errno_value("ibv_advise_mr", unsafe {
        pd::of(pd).and_then(|pd| {
            let list = arguments::array(list, count)?;
            if flags & !IBV_ADVISE_MR_FLAG_FLUSH != 0 || list.is_empty() {
                return Err(refused!(
                    EINVAL,
                    "flags is {flags:#x} with {count} ranges: IBV_ADVISE_MR_FLAG_FLUSH or 0, \
                     and at least one range"
                ));
            }
            pd.advise(advice, list)
        })
    })
}

/// Returns a second pointer to a region of this process, by its handle number. Its address is NULL.
///
/// # Safety
/// `pd` must be null or live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_import_mr(pd: *mut ibv_pd, number: u32) -> *mut ibv_mr {
    // SAFETY: the caller promises null, live or valid pointers.
    outcome::pointer("ibv_import_mr", unsafe {
        pd::of(pd).and_then(|_| REGIONS.find(number)).map(|region| {
            let length = region.length() as usize;
            hand_out_shared(pd, ptr::null_mut(), length, region, number)
        })
    })
}

/// Releases a pointer from [`ibv_import_mr`]; the region remains.
///
/// # Safety
/// `mr` must be null or a pointer from [`ibv_import_mr`], and not be used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_unimport_mr(mr: *mut ibv_mr) {
    // SAFETY: the caller promises null, live or valid pointers.
    unsafe {
        if Handle::<MrObject>::of(mr).is_ok() {
            Handle::<MrObject>::destroy(mr);
        }
    }
}

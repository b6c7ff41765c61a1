//! dma-bufs as memory regions: ibv_reg_dmabuf_mr(3).
//!
//! The buffer is mapped into the process as long as it is registered. The mapping belongs to the
//! adapter: its pages never move, and the program cannot unmap them. Drivers map their pages in a
//! way that the kernel cannot look up (VM_PFNMAP), so process_vm_readv(2) may fail on them: peers
//! reach them through the owner, by `ring`, and the owner by plain loads and stores.
//!
//! The checks are those of Linux, `UVERBS_METHOD_REG_DMABUF_MR` and `ib_umem_dmabuf_get`, in their
//! order.

use crate::arena::PAGE;
use crate::domain::Pd;
use crate::explain::access_names;
use crate::process_memory::ProcessMemory;
use crate::region::{ANY_WRITE, Region, check_access};
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;
use verbena_abi::*;
use verbena_hca_os::dmabuf::{self, Nature};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::refused;

/// The kernel's internal code for "not supported", include/linux/errno.h: NVIDIA's driver (580)
/// leaks it as the result of mmap(2) of GPU memory. No C library has a name for it.
const ENOTSUPP: i32 = 524;

/// Rights that a region of a dma-buf may have.
const KNOWN_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_RELAXED_ORDERING;

/// The part of a buffer to register, and how.
#[derive(Clone, Copy)]
pub struct Request {
    /// Offset in the buffer in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// First address that names the memory in requests.
    pub iova: u64,
    /// IBV_ACCESS_* flags.
    pub access: u32,
}

/// A dma-buf mapped from its beginning to the end of the registered part; unmapped when dropped.
pub(super) struct DmaBuf {
    memory: Arc<ProcessMemory>,
    mapping: ManuallyDrop<Mapping>,
    offset: u64,
    length: u64,
}

/// Registers part of the dma-buf behind a descriptor, which may be closed afterwards.
///
/// # Errors
/// EBADF for a closed descriptor; EINVAL for one of another kind, a range outside the buffer,
/// access flags that such regions do not have, and an `iova` with another offset in its page than
/// `offset`; EACCES for a descriptor without the rights; EOPNOTSUPP for a buffer that the processor
/// cannot access; ENOMEM at the device's limit.
pub fn register(pd: &Arc<Pd>, fd: RawFd, request: Request) -> Result<Region> {
    let end = check(request)?;
    match dmabuf::nature(fd) {
        Nature::Closed => {
            return Err(refused!(
                EBADF,
                "fd is {fd}, which is not an open descriptor: give that of a dma-buf"
            ));
        }
        Nature::Other => {
            return Err(refused!(
                EINVAL,
                "fd is {fd}, which is not a dma-buf: create one from a memfd by UDMABUF_CREATE of \
                 /dev/udmabuf, or map the file and use ibv_reg_mr"
            ));
        }
        Nature::DmaBuf(size) if end > size => {
            return Err(refused!(
                EINVAL,
                "offset {} and length {} exceed the dma-buf, which has {size} bytes",
                request.offset,
                request.length
            ));
        }
        Nature::DmaBuf(_) => (),
    }
    // SAFETY: the descriptor was just found open. If the program closes it meanwhile, mapping fails
    // or maps another of the program's files.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let buffer = DmaBuf::map(pd.memory(), fd, request)?;
    Region::of_dma_buf(pd, buffer, request.iova, request.access)
}

/// Checks everything that does not depend on the buffer. Returns the end of the part in it.
fn check(request: Request) -> Result<u64> {
    let Request {
        offset,
        length,
        iova,
        access,
    } = request;
    if offset % PAGE != iova % PAGE {
        return Err(refused!(
            EINVAL,
            "offset {offset:#x} and iova {iova:#x} have different offsets within a page: let them \
             differ by a multiple of {PAGE}"
        ));
    }
    if access & !KNOWN_ACCESS != 0 {
        return Err(refused!(
            EINVAL,
            "access is {}: regions of dma-bufs have IBV_ACCESS_LOCAL_WRITE, _REMOTE_WRITE, \
             _REMOTE_READ, _REMOTE_ATOMIC and _RELAXED_ORDERING only",
            access_names(access)
        ));
    }
    check_access(access)?;
    match (offset.checked_add(length), iova.checked_add(length)) {
        (Some(end), Some(_)) if length > 0 => Ok(end),
        _ => Err(refused!(
            EINVAL,
            "length is {length} at offset {offset:#x} and iova {iova:#x}: \
             give 1 or more that stay in the address space"
        )),
    }
}

impl DmaBuf {
    fn map(memory: &Arc<ProcessMemory>, fd: BorrowedFd<'_>, request: Request) -> Result<DmaBuf> {
        let end = request.offset + request.length;
        let length = usize::try_from(end.next_multiple_of(PAGE)).map_err(|_| Errno::ENOMEM)?;
        let is_denied = |error| matches!(error, Errno(libc::EACCES | libc::EPERM));
        let mapping = match dmabuf::map(fd, length, MappingRights::ReadWrite) {
            Err(error) if is_denied(error) && request.access & ANY_WRITE == 0 => {
                dmabuf::map(fd, length, MappingRights::Read)
            }
            answer => answer,
        };
        let mapping = mapping.map_err(|error| match error {
            error if is_denied(error) => refused!(
                EACCES,
                "the dma-buf's descriptor is not open for writing, and access is {}: export it \
                 with O_RDWR, or request read access only",
                access_names(request.access)
            ),
            Errno(
                libc::EINVAL
                | libc::ENODEV
                | libc::ENXIO
                | libc::ENOTTY
                | libc::EOPNOTSUPP
                | ENOTSUPP,
            ) => {
                refused!(
                    EOPNOTSUPP,
                    "the driver of the dma-buf does not map it for the processor (mmap: {error}; \
                     it may be GPU memory), and the adapter has no other access: copy the data to \
                     host memory"
                )
            }
            error => error,
        })?;
        Ok(DmaBuf {
            memory: memory.clone(),
            mapping: ManuallyDrop::new(mapping),
            offset: request.offset,
            length: request.length,
        })
    }

    pub(super) fn address(&self) -> u64 {
        self.mapping.base() as u64 + self.offset
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }
}

impl Drop for DmaBuf {
    fn drop(&mut self) {
        // A forked child has not inherited the mapping, and may have mapped other memory there.
        if !self.memory.is_inherited() {
            // SAFETY: dropped only here.
            unsafe { ManuallyDrop::drop(&mut self.mapping) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request {
        offset: 0x1010,
        length: 0x2000,
        iova: 0x7000_0010,
        access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_RELAXED_ORDERING,
    };

    #[test]
    fn dmabuf_ranges_and_flags_are_checked_as_in_linux() {
        let with = |change: fn(&mut Request)| {
            let mut request = REQUEST;
            change(&mut request);
            check(request)
        };
        assert_eq!(with(|_| ()), Ok(0x3010));
        assert_eq!(with(|request| request.access = 0), Ok(0x3010));
        assert_eq!(with(|request| request.iova = 0x10), Ok(0x3010));
        assert_eq!(with(|request| request.iova = 0), Err(Errno::EINVAL));
        assert_eq!(with(|request| request.length = 0), Err(Errno::EINVAL));
        assert_eq!(
            with(|request| request.length = u64::MAX),
            Err(Errno::EINVAL)
        );
        assert_eq!(
            with(|request| request.iova = u64::MAX - 0xfef),
            Err(Errno::EINVAL)
        );
        for flags in [
            IBV_ACCESS_REMOTE_WRITE,
            IBV_ACCESS_MW_BIND,
            IBV_ACCESS_ZERO_BASED,
            IBV_ACCESS_ON_DEMAND,
            IBV_ACCESS_HUGETLB,
            IBV_ACCESS_FLUSH_GLOBAL,
            IBV_ACCESS_RELAXED_ORDERING << 1,
            1 << 19,
        ] {
            let request = Request {
                access: flags,
                ..REQUEST
            };
            assert_eq!(check(request), Err(Errno::EINVAL), "{flags:#x}");
        }
    }
}

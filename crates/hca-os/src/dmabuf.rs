//! dma-bufs: memory that a driver shares by a descriptor (Documentation/driver-api/dma-buf.rst).
//!
//! The kernel has no call that names the kind of a descriptor, but dma-bufs are the only files of
//! their file system.

use crate::errno::{Errno, Result};
use crate::mapping::{Mapping, MappingRights};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// linux/magic.h, DMA_BUF_MAGIC.
const MAGIC: i64 = 0x444d_4142;
/// linux/dma-buf.h, _IOW('b', 0, struct dma_buf_sync).
const SYNC: u64 = 0x4008_6200;
const SYNC_RW: u64 = 3;
const SYNC_END: u64 = 1 << 2;

/// The kind of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nature {
    /// No open descriptor.
    Closed,
    /// A dma-buf of so many bytes.
    DmaBuf(u64),
    /// Anything else.
    Other,
}

/// Returns the kind of a descriptor.
pub fn nature(fd: RawFd) -> Nature {
    // SAFETY: an all-zero statfs is a valid out-parameter.
    let mut stat: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `stat` is writable for the duration of the call.
    if unsafe { libc::fstatfs(fd, &mut stat) } != 0 {
        return match Errno::last() {
            Errno(libc::EBADF) => Nature::Closed,
            _ => Nature::Other,
        };
    }
    #[allow(clippy::unnecessary_cast)]
    if stat.f_type as i64 != MAGIC {
        return Nature::Other;
    }
    // A dma-buf has no position that this could move.
    // SAFETY: the call takes no pointers.
    match unsafe { libc::lseek(fd, 0, libc::SEEK_END) } {
        size if size >= 0 => Nature::DmaBuf(size as u64),
        _ => Nature::Other,
    }
}

/// Maps the first `length` bytes. An offset is not supported: graphics drivers
/// (`drm_gem_shmem_fault` of Linux 6.12) ignore it and map the beginning of a buffer.
///
/// # Errors
/// EACCES for rights that the descriptor does not have; EINVAL for a buffer that the processor
/// cannot access.
pub fn map(fd: BorrowedFd<'_>, length: usize, rights: MappingRights) -> Result<Mapping> {
    let mapping = Mapping::of_fd(fd, length, rights)?;
    // Waits for devices that still write to the buffer, and makes their data visible to the
    // processor. It stays visible where processors and devices share a coherent memory; a driver
    // without work to do here may refuse the call.
    for end in [0, SYNC_END] {
        let flags = SYNC_RW | end;
        // SAFETY: the request is paired with its structure (linux/dma-buf.h, struct dma_buf_sync).
        while unsafe { libc::ioctl(fd.as_raw_fd(), SYNC as libc::Ioctl, &raw const flags) } < 0
            && matches!(Errno::last(), Errno(libc::EINTR | libc::EAGAIN))
        {}
    }
    Ok(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memfd::Memfd;
    use std::os::fd::AsFd;

    #[test]
    fn memfds_sockets_and_pipes_are_not_dma_bufs() {
        let memory = Memfd::create(c"no-dma-buf", 4096).unwrap();
        assert_eq!(nature(memory.as_fd().as_raw_fd()), Nature::Other);
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(nature(one.as_raw_fd()), Nature::Other);
        let (reader, _writer) = std::io::pipe().unwrap();
        assert_eq!(nature(reader.as_raw_fd()), Nature::Other);
        assert_eq!(nature(-1), Nature::Closed);
        assert_eq!(nature(1 << 20), Nature::Closed);
    }
}

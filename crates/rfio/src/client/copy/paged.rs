//! Parallel writes to one tmpfs file.
//!
//! `write(2)` holds the inode lock while it allocates and fills pages, so writers of one file run
//! one after the other. A page fault on a shared mapping allocates pages without that lock.
//! `process_vm_writev(2)` to the own process faults the pages of the mapping in and copies. Unlike
//! a store it returns an error instead of raising SIGBUS if the file system is full or the
//! file was truncated. The rest is then written with `write(2)`, which reports the error.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::mm::{MapFlags, ProtFlags};

/// Returns whether the file is on tmpfs.
pub fn is_of_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| i128::from(system.f_type) == i128::from(libc::TMPFS_MAGIC))
}

/// Writes all bytes at an offset. The file must be open for reading and writing.
pub fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    let Some((_, rest)) = bytes.split_last() else {
        return Ok(());
    };
    let last = offset + rest.len() as u64;
    if file.metadata()?.len() <= last {
        // Extend the file, which takes its lock once and not for every page.
        file.write_all_at(&bytes[rest.len()..], last)?;
    }
    let written = through_mapping(file, bytes, offset).unwrap_or_default();
    file.write_all_at(&bytes[written..], offset + written as u64)
}

/// Writes through a mapping and returns the number of bytes written, which may be 0: pages
/// behind the end of the file cannot be faulted in.
#[allow(unsafe_code, reason = "a mapping that has no references")]
fn through_mapping(file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
    // SAFETY: the call takes no pointers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let before = offset % u64::try_from(page).unwrap_or(4096).max(1);
    let length = before as usize + bytes.len();
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    let nowhere = std::ptr::null_mut();
    // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
    let start =
        unsafe { rustix::mm::mmap(nowhere, length, protection, flags, file, offset - before)? };
    let from = libc::iovec {
        iov_base: bytes.as_ptr().cast_mut().cast(),
        iov_len: bytes.len(),
    };
    let to = libc::iovec {
        iov_base: start.wrapping_byte_add(before as usize),
        iov_len: bytes.len(),
    };
    // SAFETY: the kernel reads `bytes` and writes as many bytes to the mapping, to which no
    // reference exists.
    let written = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
    // SAFETY: the mapping made above; no reference to it exists.
    unsafe { rustix::mm::munmap(start, length)? };
    Ok(usize::try_from(written).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::os::fd::AsRawFd;

    /// Creates an unnamed tmpfs file.
    fn in_memory() -> File {
        let made = rustix::fs::memfd_create("paged", rustix::fs::MemfdFlags::ALLOW_SEALING);
        File::from(made.unwrap())
    }

    fn content(file: &File) -> Vec<u8> {
        std::fs::read(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap()
    }

    #[test]
    fn write_fills_and_extends_the_file_at_any_offset() {
        let bytes: Vec<u8> = (0..30_000u32).map(|number| (number / 7) as u8).collect();
        for (size, offset) in [
            (100_000, 0),
            (100_000, 4096),
            (100_000, 5000),
            (0, 7),
            (10_000, 1),
        ] {
            let file = in_memory();
            file.set_len(size).unwrap();
            write_all_at(&file, &bytes, offset).unwrap();
            let end = offset as usize + bytes.len();
            let found = content(&file);
            assert_eq!(found.len(), end.max(size as usize));
            assert!(found[offset as usize..end] == bytes[..], "{size} {offset}");
            assert!(found[..offset as usize].iter().all(|&byte| byte == 0));
            assert!(found[end..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn mapping_write_stops_at_the_end_of_the_file() {
        let file = in_memory();
        file.set_len(100_000).unwrap();
        assert!(is_of_memory(&file));
        let written = through_mapping(&file, &[1; 50_000], 3).unwrap();
        assert!(written == 50_000 || written == 0, "{written}");
        let written = through_mapping(&file, &[1; 8192], 4096 * 24).unwrap();
        assert!(written <= 4096, "{written}");
    }

    #[test]
    fn unwritable_file_is_an_error_and_no_signal() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("f"), [0; 8192]).unwrap();
        let file = File::open(scratch.path("f")).unwrap();
        assert!(write_all_at(&file, &[1; 100], 0).is_err());
        let sealed = in_memory();
        sealed.set_len(8192).unwrap();
        rustix::fs::fcntl_add_seals(&sealed, rustix::fs::SealFlags::WRITE).unwrap();
        assert!(write_all_at(&sealed, &[1; 100], 0).is_err());
        assert!(content(&sealed).iter().all(|&byte| byte == 0));
    }
}

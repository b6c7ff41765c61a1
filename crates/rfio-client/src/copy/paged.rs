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
use std::ptr::with_exposed_provenance_mut;

use rustix::mm::{MapFlags, ProtFlags};

/// Returns whether the file is on tmpfs.
pub fn is_of_memory(file: &File) -> bool {
    rustix::fs::fstatfs(file)
        .is_ok_and(|system| i128::from(system.f_type) == i128::from(libc::TMPFS_MAGIC))
}

/// Length of a mapping. Unmapping interrupts the processors of all threads, so it is not done for
/// every write; mapped pages count as this process's memory, so it is bounded.
const WINDOW: u64 = 32 << 20;

/// Part of a file that is mapped.
struct Window {
    /// Address, with exposed provenance: no reference to the mapping exists.
    start: usize,
    /// Offset in the file, a multiple of [`WINDOW`].
    offset: u64,
}

impl Window {
    #[allow(unsafe_code, reason = "a mapping that has no references")]
    fn map(file: &File, offset: u64) -> io::Result<Self> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let (nowhere, length) = (std::ptr::null_mut(), WINDOW as usize);
        // SAFETY: a new mapping at an address that the kernel chooses replaces no other.
        let start = unsafe { rustix::mm::mmap(nowhere, length, protection, flags, file, offset)? };
        Ok(Self {
            start: start.expose_provenance(),
            offset,
        })
    }

    /// Writes bytes that end inside the window and returns how many were written, which may be 0:
    /// pages behind the end of the file cannot be faulted in.
    #[allow(
        unsafe_code,
        reason = "the kernel copies to a mapping that has no references"
    )]
    fn write(&self, bytes: &[u8], offset: u64) -> usize {
        debug_assert!(offset + bytes.len() as u64 <= self.offset + WINDOW);
        let from = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let to = libc::iovec {
            iov_base: with_exposed_provenance_mut(self.start + (offset - self.offset) as usize),
            iov_len: bytes.len(),
        };
        // SAFETY: the kernel reads `bytes` and writes as many bytes to the mapping, to which no
        // reference exists.
        let written = unsafe { libc::process_vm_writev(libc::getpid(), &from, 1, &to, 1, 0) };
        usize::try_from(written).unwrap_or_default()
    }
}

impl Drop for Window {
    #[allow(unsafe_code, reason = "a mapping that has no references")]
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, whole; no reference to it exists.
        let _ =
            unsafe { rustix::mm::munmap(with_exposed_provenance_mut(self.start), WINDOW as usize) };
    }
}

/// Writes to a tmpfs file, which must be open for reading and writing, through a window that moves
/// with the writes.
pub struct PagedFile<'a> {
    file: &'a File,
    window: Option<Window>,
}

impl<'a> PagedFile<'a> {
    /// A writer of a file, of which nothing is mapped yet.
    pub fn new(file: &'a File) -> Self {
        Self { file, window: None }
    }

    /// Writes all bytes at an offset.
    ///
    /// # Errors
    /// Those of write(2).
    pub fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let Some((_, rest)) = bytes.split_last() else {
            return Ok(());
        };
        let last = offset + rest.len() as u64;
        if self.file.metadata()?.len() <= last {
            // Extend the file, which takes its lock once and not for every page.
            self.file.write_all_at(&bytes[rest.len()..], last)?;
        }
        let (mut bytes, mut offset) = (bytes, offset);
        while !bytes.is_empty() {
            let start = offset - offset % WINDOW;
            let (now, later) = bytes.split_at(bytes.len().min((start + WINDOW - offset) as usize));
            let written = self
                .window_at(start)
                .map_or(0, |one| one.write(now, offset));
            self.file
                .write_all_at(&now[written..], offset + written as u64)?;
            (bytes, offset) = (later, offset + now.len() as u64);
        }
        Ok(())
    }

    fn window_at(&mut self, start: u64) -> Option<&Window> {
        if self
            .window
            .as_ref()
            .is_none_or(|window| window.offset != start)
        {
            self.window = None;
            self.window = Window::map(self.file, start).ok();
        }
        self.window.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;
    use verbena_rfio_common::scratch::Scratch;

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
            (0, WINDOW - 10_000),
        ] {
            let file = in_memory();
            file.set_len(size).unwrap();
            PagedFile::new(&file).write_all_at(&bytes, offset).unwrap();
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
        let window = Window::map(&file, 0).unwrap();
        let written = window.write(&[1; 50_000], 3);
        assert!(written == 50_000 || written == 0, "{written}");
        let written = window.write(&[1; 8192], 4096 * 24);
        assert!(written <= 4096, "{written}");
    }

    #[test]
    fn unwritable_file_is_an_error_and_no_signal() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("f"), [0; 8192]).unwrap();
        let file = File::open(scratch.path("f")).unwrap();
        assert!(PagedFile::new(&file).write_all_at(&[1; 100], 0).is_err());
        let sealed = in_memory();
        sealed.set_len(8192).unwrap();
        rustix::fs::fcntl_add_seals(&sealed, rustix::fs::SealFlags::WRITE).unwrap();
        assert!(PagedFile::new(&sealed).write_all_at(&[1; 100], 0).is_err());
        assert!(content(&sealed).iter().all(|&byte| byte == 0));
    }
}

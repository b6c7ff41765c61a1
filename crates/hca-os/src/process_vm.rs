//! Reads and writes another process's memory: process_vm_readv(2), process_vm_writev(2).

use crate::errno::{Errno, Result};

/// Copies `length` bytes at `remote` in process `pid` to `local`.
///
/// # Errors
/// EFAULT when part of the remote range is not mapped; ESRCH when the process has ended; the
/// system's.
///
/// # Safety
/// `local` must be valid for writes of `length` bytes.
pub unsafe fn read(pid: i32, remote: u64, local: *mut u8, length: usize) -> Result<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: `done < length`, so the offset stays inside the caller's range.
        let local = unsafe { local.add(done) };
        let here = libc::iovec {
            iov_base: local.cast(),
            iov_len: length - done,
        };
        let there = libc::iovec {
            iov_base: (remote + done as u64) as *mut _,
            iov_len: length - done,
        };
        // SAFETY: the caller promises that `here` is writable; the kernel checks `there`.
        let n = unsafe { libc::process_vm_readv(pid, &here, 1, &there, 1, 0) };
        done += progress(n)?;
    }
    Ok(())
}

/// Copies `length` bytes at `local` to `remote` in process `pid`.
///
/// # Errors
/// As [`read`].
///
/// # Safety
/// `local` must be valid for reads of `length` bytes.
pub unsafe fn write(pid: i32, remote: u64, local: *const u8, length: usize) -> Result<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: `done < length`, so the offset stays inside the caller's range.
        let local = unsafe { local.add(done) };
        let here = libc::iovec {
            iov_base: local.cast_mut().cast(),
            iov_len: length - done,
        };
        let there = libc::iovec {
            iov_base: (remote + done as u64) as *mut _,
            iov_len: length - done,
        };
        // SAFETY: the caller promises that `here` is readable; the kernel checks `there`.
        let n = unsafe { libc::process_vm_writev(pid, &here, 1, &there, 1, 0) };
        done += progress(n)?;
    }
    Ok(())
}

/// Returns the number of bytes copied. A short copy means that a later page of the range is not
/// mapped, and the next call fails; a copy of nothing means that the first is not.
fn progress(n: libc::ssize_t) -> Result<usize> {
    match n {
        n if n > 0 => Ok(n as usize),
        0 => Err(Errno::EFAULT),
        _ => Err(Errno::last()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_vm_copies_within_this_process() {
        let pid = std::process::id() as i32;
        let source = [7u8; 100];
        let mut target = [0u8; 100];
        // SAFETY: both arrays are 100 bytes long.
        unsafe {
            read(pid, source.as_ptr() as u64, target.as_mut_ptr(), 100).unwrap();
            assert_eq!(target, source);
            write(pid, target.as_mut_ptr() as u64, [9u8; 100].as_ptr(), 100).unwrap();
        }
        assert_eq!(target, [9; 100]);
    }

    #[test]
    fn process_vm_fails_with_efault_for_unmapped_memory() {
        let mut target = [0u8; 8];
        // SAFETY: the local side is valid; the kernel refuses the remote side.
        let answer = unsafe { read(std::process::id() as i32, 8, target.as_mut_ptr(), 8) };
        assert_eq!(answer, Err(Errno::EFAULT));
    }
}

//! Reads and writes memory of this process that may be unmapped: the application may have unmapped
//! registered memory, and that must give an error instead of a signal.
//!
//! The kernel checks the address: process_vm_readv(2) on this very process, or, where a container's
//! seccomp profile refuses that, `/proc/self/mem` (proc(5)). The file is opened each time, because
//! a descriptor stays bound to the process that opened it, which after a fork is the parent.

use crate::errno::{Errno, Result};
use crate::process_vm;
use crate::sync::wait_a_little;
use crate::userfault::HOLDS;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::sync::atomic::Ordering;

const MEMORY: &str = "/proc/self/mem";

/// Copies `length` bytes at `address` to `target`.
///
/// # Errors
/// EFAULT when part of the range is not mapped.
///
/// # Safety
/// `target` must be valid for writes of `length` bytes.
pub unsafe fn load(address: u64, target: *mut u8, length: usize) -> Result<()> {
    let is_refused = |answer: &Result<()>| *answer == Err(Errno::EFAULT);
    beside_holds(is_refused, || {
        // SAFETY: the caller promises `length` writable bytes at `target`; the kernel checks the
        // other side.
        match unsafe { process_vm::read(std::process::id() as i32, address, target, length) } {
            Err(error) if is_refusal(error) => {
                // SAFETY: the caller promises `length` writable bytes at `target`.
                let target = unsafe { std::slice::from_raw_parts_mut(target, length) };
                let memory = File::open(MEMORY)?;
                memory
                    .read_exact_at(target, address)
                    .map_err(|error| not_there(&error))
            }
            answer => answer,
        }
    })
}

/// Copies `length` bytes at `source` to `address`.
///
/// # Errors
/// EFAULT when part of the range is not mapped.
///
/// # Safety
/// `source` must be valid for reads of `length` bytes; only registered memory that the application
/// lets peers write may lie at `address`.
pub unsafe fn store(address: u64, source: *const u8, length: usize) -> Result<()> {
    // The kernel may have looked up the pages before they were held and copied; a write to them is
    // then lost.
    let is_lost = |_: &Result<()>| true;
    beside_holds(is_lost, || {
        // SAFETY: the caller promises `length` readable bytes at `source`; the kernel checks the
        // other side.
        match unsafe { process_vm::write(std::process::id() as i32, address, source, length) } {
            Err(error) if is_refusal(error) => {
                // SAFETY: the caller promises `length` readable bytes at `source`.
                let source = unsafe { std::slice::from_raw_parts(source, length) };
                let memory = OpenOptions::new().write(true).open(MEMORY)?;
                memory
                    .write_all_at(source, address)
                    .map_err(|error| not_there(&error))
            }
            answer => answer,
        }
    })
}

/// Repeats an attempt that may have failed because a range of this process was held meanwhile: the
/// pages may be mapped, and the kernel was only not allowed to wait for them.
fn beside_holds(
    may_be_in_vain: impl Fn(&Result<()>) -> bool,
    attempt: impl Fn() -> Result<()>,
) -> Result<()> {
    let mut looks = 0;
    loop {
        let before = HOLDS.load(Ordering::SeqCst);
        let answer = attempt();
        let held = before % 2 == 1 || HOLDS.load(Ordering::SeqCst) != before;
        if !held || !may_be_in_vain(&answer) {
            return answer;
        }
        wait_a_little(&mut looks);
    }
}

/// Returns whether the call itself is unavailable, for any range.
fn is_refusal(error: Errno) -> bool {
    matches!(error, Errno(libc::EPERM | libc::EACCES | libc::ENOSYS))
}

/// Returns the error for an unmapped page, where the file returns EIO or end of file.
fn not_there(error: &std::io::Error) -> Errno {
    match error.raw_os_error() {
        None | Some(libc::EIO) => Errno::EFAULT,
        Some(number) => Errno(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_memory_copies_and_reports_unmapped_addresses() {
        let source = [7u8; 100];
        let mut target = [0u8; 100];
        // SAFETY: both arrays are 100 bytes long.
        unsafe {
            load(source.as_ptr() as u64, target.as_mut_ptr(), 100).unwrap();
            assert_eq!(target, source);
            store(target.as_mut_ptr() as u64, [9u8; 100].as_ptr(), 100).unwrap();
            assert_eq!(target, [9; 100]);
            assert_eq!(load(8, target.as_mut_ptr(), 8), Err(Errno::EFAULT));
        }
    }

    #[test]
    fn memory_file_behaves_like_the_system_call() {
        let source = [3u8; 50];
        let mut target = [0u8; 50];
        let memory = OpenOptions::new()
            .read(true)
            .write(true)
            .open(MEMORY)
            .unwrap();
        memory
            .read_exact_at(&mut target, source.as_ptr() as u64)
            .unwrap();
        assert_eq!(target, source);
        let error = memory.read_exact_at(&mut target, 8).unwrap_err();
        assert_eq!(not_there(&error), Errno::EFAULT);
        let error = memory.write_all_at(&target, 8).unwrap_err();
        assert_eq!(not_there(&error), Errno::EFAULT);
    }
}

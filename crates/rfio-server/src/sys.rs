//! Safe functions for system calls without a safe wrapper.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use verbena_rfio_protocol::request::LockAction;

/// Calls access(2) on a descriptor, with the effective ids: faccessat2(2) with an empty path.
///
/// # Errors
/// The error of faccessat2(2).
pub fn access(file: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_EACCESS;
    // SAFETY: a descriptor that is open during the call, a static C string, and integers.
    let result = unsafe {
        libc::syscall(
            libc::SYS_faccessat2,
            file.as_raw_fd(),
            c"".as_ptr(),
            mode as libc::c_int,
            flags,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Locks part of a file for its open file description (fcntl(2), `F_OFD_SETLK`), so that a
/// session's lock ends with it.
///
/// # Errors
/// EACCES if a tested range is locked; the error of fcntl(2).
pub fn lock(file: BorrowedFd<'_>, action: LockAction, offset: u64, length: u64) -> io::Result<()> {
    let invalid = || io::Error::from_raw_os_error(libc::EINVAL);
    // SAFETY: `flock` consists of integers, for which zero is valid.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = if action == LockAction::Unlock {
        libc::F_UNLCK
    } else {
        libc::F_WRLCK
    } as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = i64::try_from(offset).map_err(|_| invalid())?;
    range.l_len = i64::try_from(length).map_err(|_| invalid())?;
    let command = if action == LockAction::Test {
        libc::F_OFD_GETLK
    } else {
        libc::F_OFD_SETLK
    };
    // SAFETY: a live descriptor, and a `flock` that the kernel reads and may write.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, &mut range) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    if action == LockAction::Test && libc::c_int::from(range.l_type) != libc::F_UNLCK {
        return Err(io::Error::from_raw_os_error(libc::EACCES));
    }
    Ok(())
}

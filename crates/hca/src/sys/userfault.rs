//! Holding other threads' writes to a range while its pages are replaced (userfaultfd(2), write-protect mode).

use crate::errno::{Errno, Result};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1 << 0;

// ioctl numbers: direction, size of the structure, 0xaa, number (linux/userfaultfd.h).
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_WAKE: u64 = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;

#[repr(C)]
struct Api {
    api: u64,
    features: u64,
    ioctls: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Range {
    start: u64,
    length: u64,
}

#[repr(C)]
struct Register {
    range: Range,
    mode: u64,
    ioctls: u64,
}

#[repr(C)]
struct WriteProtect {
    range: Range,
    mode: u64,
}

/// A userfaultfd that can hold writers.
pub struct WriteHold {
    fd: OwnedFd,
}

impl WriteHold {
    /// Opens one. Fails where the kernel or a seccomp profile refuses (EPERM, ENOSYS, EINVAL).
    pub fn open() -> Result<WriteHold> {
        // With full rights the kernel's own writes (read(2) into the range) wait too; without, only user threads do.
        let fd = Self::descriptor(0).or_else(|_| Self::descriptor(UFFD_USER_MODE_ONLY))?;
        let hold = WriteHold { fd };
        let mut api = Api {
            api: UFFD_API,
            features: UFFD_FEATURE_PAGEFAULT_FLAG_WP,
            ioctls: 0,
        };
        hold.ioctl(UFFDIO_API, &mut api)?;
        Ok(hold)
    }

    fn descriptor(mode: libc::c_int) -> Result<OwnedFd> {
        // SAFETY: no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | mode) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: `fd` was just made and nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
    }

    /// From now on a write to `[start, start + length)` waits until [`WriteHold::release`]. The pages must be there
    /// (MADV_POPULATE_READ), because a missing page cannot be protected.
    pub fn hold(&self, start: u64, length: u64) -> Result<()> {
        let range = Range { start, length };
        self.ioctl(
            UFFDIO_REGISTER,
            &mut Register {
                range,
                mode: UFFDIO_REGISTER_MODE_WP,
                ioctls: 0,
            },
        )?;
        let protect = self.ioctl(
            UFFDIO_WRITEPROTECT,
            &mut WriteProtect {
                range,
                mode: UFFDIO_WRITEPROTECT_MODE_WP,
            },
        );
        if protect.is_err() {
            let _ = self.ioctl(UFFDIO_UNREGISTER, &mut { range });
        }
        protect
    }

    /// Lets writers go on after the range was replaced by another mapping.
    pub fn wake(&self, start: u64, length: u64) {
        let _ = self.ioctl(UFFDIO_WAKE, &mut Range { start, length });
    }

    /// Gives up: the old pages stay and writers go on.
    pub fn release(&self, start: u64, length: u64) {
        let range = Range { start, length };
        let _ = self.ioctl(UFFDIO_WRITEPROTECT, &mut WriteProtect { range, mode: 0 });
        let _ = self.ioctl(UFFDIO_UNREGISTER, &mut { range });
        self.wake(start, length);
    }

    fn ioctl<T>(&self, request: u64, argument: &mut T) -> Result<()> {
        // SAFETY: every request above is paired with the structure that linux/userfaultfd.h defines for it.
        let answer = unsafe {
            libc::ioctl(
                self.fd.as_raw_fd(),
                request as libc::Ioctl,
                &raw mut *argument,
            )
        };
        if answer < 0 {
            Err(Errno::last())
        } else {
            Ok(())
        }
    }
}

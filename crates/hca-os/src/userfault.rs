//! Holds other threads' accesses to a range while its pages are replaced (userfaultfd(2)).
//!
//! A held thread waits inside its access until the range is released, and then repeats it on the
//! new pages. With full rights (root, or vm.unprivileged_userfaultfd) the kernel's own accesses,
//! such as read(2) into the range, wait too; without, they fail with EFAULT, which is why [`HOLDS`]
//! makes the adapter's kernel copies try again.

use crate::errno::{Errno, Result};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

const UFFD_USER_MODE_ONLY: libc::c_int = 1;
const UFFD_API: u64 = 0xaa;
const UFFD_FEATURE_PAGEFAULT_FLAG_WP: u64 = 1 << 0;
const UFFD_FEATURE_WP_HUGETLBFS_SHMEM: u64 = 1 << 12;
const UFFDIO_REGISTER_MODE_MISSING: u64 = 1 << 0;
const UFFDIO_REGISTER_MODE_WP: u64 = 1 << 1;
const UFFDIO_WRITEPROTECT_MODE_WP: u64 = 1 << 0;

// ioctl numbers: direction, size of the structure, 0xaa, number (linux/userfaultfd.h).
const UFFDIO_API: u64 = 0xc018_aa3f;
const UFFDIO_REGISTER: u64 = 0xc020_aa00;
const UFFDIO_UNREGISTER: u64 = 0x8010_aa01;
const UFFDIO_WAKE: u64 = 0x8010_aa02;
const UFFDIO_WRITEPROTECT: u64 = 0xc018_aa06;

/// Odd while a range is held; grows with each hold. One range of the process is held at a time.
pub static HOLDS: AtomicU64 = AtomicU64::new(0);

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

/// A userfaultfd. It acts on the memory of the process that opened it: a forked child opens its
/// own.
pub struct UserFault {
    fd: OwnedFd,
    protects_shared: bool,
    rights: Rights,
}

/// The accesses that it can hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// Those of threads, and those that the kernel makes for them.
    Full,
    /// Those of threads; the kernel's fail instead (vm.unprivileged_userfaultfd is 0).
    UserModeOnly,
}

/// The kind of access that is held.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeldKind {
    Everything,
    Writes,
}

/// A range whose accesses wait. Dropping it lets them continue with the present mapping.
pub struct Held<'a> {
    fault: &'a UserFault,
    range: Range,
    kind: HeldKind,
    replaced: bool,
}

impl UserFault {
    /// Opens a userfaultfd.
    ///
    /// # Errors
    /// EPERM, ENOSYS or EINVAL where the kernel or a seccomp profile refuses.
    pub fn open() -> Result<UserFault> {
        UserFault::with_rights(Rights::Full)
            .or_else(|_| UserFault::with_rights(Rights::UserModeOnly))
    }

    /// As [`UserFault::open`], with the given rights.
    ///
    /// # Errors
    /// As [`UserFault::open`].
    pub fn with_rights(rights: Rights) -> Result<UserFault> {
        let protect = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
        UserFault::with_features(rights, protect, true)
            .or_else(|_| UserFault::with_features(rights, 0, false))
    }

    fn with_features(rights: Rights, features: u64, protects_shared: bool) -> Result<UserFault> {
        let fd = match rights {
            Rights::Full => Self::descriptor(0)?,
            Rights::UserModeOnly => Self::descriptor(UFFD_USER_MODE_ONLY)?,
        };
        let fault = UserFault {
            fd,
            protects_shared,
            rights,
        };
        let mut api = Api {
            api: UFFD_API,
            features,
            ioctls: 0,
        };
        fault.ioctl(UFFDIO_API, &mut api)?;
        Ok(fault)
    }

    fn descriptor(mode: libc::c_int) -> Result<OwnedFd> {
        // SAFETY: the call takes no pointers; the result is checked before it is owned.
        let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | mode) };
        if fd < 0 {
            return Err(Errno::last());
        }
        // SAFETY: userfaultfd just returned `fd`, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) })
    }

    /// Returns whether [`UserFault::hold_writes`] works (for shared memory, Linux 5.19).
    pub fn protects_shared(&self) -> bool {
        self.protects_shared
    }

    /// Returns its rights.
    pub fn rights(&self) -> Rights {
        self.rights
    }

    /// Holds accesses to missing pages of `[start, start + length)` from now on. The range is
    /// private anonymous memory, from which the caller then moves the pages away.
    ///
    /// # Errors
    /// The system's.
    pub fn hold_missing(&self, start: u64, length: u64) -> Result<Held<'_>> {
        self.register(start, length, HeldKind::Everything)
    }

    /// Holds writes to `[start, start + length)` from now on. The range is shared memory, or
    /// private memory with all its pages present (MADV_POPULATE_READ): a missing page cannot be
    /// protected.
    ///
    /// # Errors
    /// EOPNOTSUPP before Linux 5.19; the system's.
    pub fn hold_writes(&self, start: u64, length: u64) -> Result<Held<'_>> {
        if !self.protects_shared {
            return Err(Errno::EOPNOTSUPP);
        }
        let held = self.register(start, length, HeldKind::Writes)?;
        let range = held.range;
        self.ioctl(
            UFFDIO_WRITEPROTECT,
            &mut WriteProtect {
                range,
                mode: UFFDIO_WRITEPROTECT_MODE_WP,
            },
        )?;
        Ok(held)
    }

    fn register(&self, start: u64, length: u64, kind: HeldKind) -> Result<Held<'_>> {
        let range = Range { start, length };
        let mode = match kind {
            HeldKind::Everything => UFFDIO_REGISTER_MODE_MISSING,
            HeldKind::Writes => UFFDIO_REGISTER_MODE_WP,
        };
        HOLDS.fetch_add(1, Ordering::SeqCst);
        let held = Held {
            fault: self,
            range,
            kind,
            replaced: false,
        };
        self.ioctl(
            UFFDIO_REGISTER,
            &mut Register {
                range,
                mode,
                ioctls: 0,
            },
        )?;
        Ok(held)
    }

    fn ioctl<T>(&self, request: u64, argument: &mut T) -> Result<()> {
        // SAFETY: every request above is paired with the structure that linux/userfaultfd.h defines
        // for it.
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

impl AsFd for UserFault {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Held<'_> {
    /// Notes that another mapping lies there now, which the kernel does not hold accesses to:
    /// waiting threads only need waking.
    pub fn replaced(mut self) {
        self.replaced = true;
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let range = self.range;
        if !self.replaced {
            if self.kind == HeldKind::Writes {
                let mut protect = WriteProtect { range, mode: 0 };
                let _ = self.fault.ioctl(UFFDIO_WRITEPROTECT, &mut protect);
            }
            let _ = self.fault.ioctl(UFFDIO_UNREGISTER, &mut { range });
        }
        let _ = self.fault.ioctl(UFFDIO_WAKE, &mut { range });
        HOLDS.fetch_add(1, Ordering::SeqCst);
    }
}

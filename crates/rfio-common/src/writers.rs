//! Detects whether any process has a file open for writing, or mapped writable, which its
//! timestamps cannot show.
//!
//! A long write updates the timestamps when it begins, and a store through a mapping updates them
//! once for as long as the page stays dirty. Unchanged timestamps therefore prove that the file is
//! unchanged only if no process can write to it. The kernel knows: it grants a read lease
//! (fcntl(2), `F_SETLEASE`) only on a file that is not open for writing, and a mapping keeps its
//! file open. The lease is released at once; only the result matters.

use std::os::fd::{AsRawFd, BorrowedFd};

/// The kernel's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writers {
    /// No process can write to the file at this moment.
    None,
    /// At least one process can write to it.
    Some,
    /// Unknown: the file belongs to another user and this process lacks `CAP_LEASE`, or the file
    /// system has no leases, or the writers may be on other hosts.
    Unknown,
}

/// File systems whose files may be written by other hosts or by unknown writers (statfs(2)).
const SHARED: [i64; 7] = [
    0x6969,      // NFS
    0xFE53_4D42, // SMB 2
    0xFF53_4D42, // CIFS
    0x6573_5546, // FUSE
    0x00C3_6400, // Ceph
    0x0BD0_0BD0, // Lustre
    0x0102_1997, // 9P
];

/// `F_SETSIG` of <asm-generic/fcntl.h>, which the crate libc lacks.
const F_SETSIG: libc::c_int = 10;

/// Returns whether an open file has writers. It must be open for reading only.
pub fn of(file: BorrowedFd<'_>) -> Writers {
    let shared = rustix::fs::fstatfs(file).is_ok_and(|system| {
        #[allow(
            clippy::unnecessary_cast,
            reason = "the type differs between platforms"
        )]
        let kind = system.f_type as i64;
        SHARED.contains(&kind)
    });
    match shared {
        true => Writers::Unknown,
        false => of_local(file),
    }
}

/// Returns whether a file has writers, on a file system that only this host uses.
pub fn of_local(file: BorrowedFd<'_>) -> Writers {
    // A process that opens the file for writing while the lease is held makes the kernel signal
    // this process. The signal must not be SIGIO, which terminates a process by default; SIGURG is
    // ignored by default.
    if control(file, F_SETSIG, libc::SIGURG) != 0 {
        return Writers::Unknown;
    }
    match control(file, libc::F_SETLEASE, libc::F_RDLCK) {
        0 => {
            control(file, libc::F_SETLEASE, libc::F_UNLCK);
            Writers::None
        }
        libc::EAGAIN => Writers::Some,
        _ => Writers::Unknown,
    }
}

/// Calls fcntl(2) with an integer argument; returns zero or the error number.
fn control(file: BorrowedFd<'_>, command: libc::c_int, argument: libc::c_int) -> libc::c_int {
    #[allow(unsafe_code, reason = "the safe wrappers lack leases")]
    // SAFETY: a live descriptor and integers.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    match result {
        -1 => std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;
    use std::fs::{File, OpenOptions};
    use std::os::fd::AsFd;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn writers_and_mappings_are_detected() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("f"), vec![0; 4096]).unwrap();
        let file = File::open(scratch.path("f")).unwrap();
        let before = of(file.as_fd());
        if before == Writers::Unknown {
            eprintln!("skipped: the temporary directory has no leases");
            return;
        }
        assert_eq!(before, Writers::None);
        let reader = File::open(scratch.path("f")).unwrap();
        assert_eq!(of(file.as_fd()), Writers::None, "a reader is no writer");
        drop(reader);
        let open = || {
            OpenOptions::new()
                .read(true)
                .write(true)
                .open(scratch.path("f"))
                .unwrap()
        };
        let writer = open();
        assert_eq!(of(file.as_fd()), Writers::Some);
        #[allow(unsafe_code, reason = "a mapping for the test")]
        // SAFETY: a new mapping of a file of that length, which is never accessed.
        let mapping = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                4096,
                rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                &writer,
                0,
            )
        }
        .unwrap();
        drop(writer);
        assert_eq!(
            of(file.as_fd()),
            Writers::Some,
            "a mapping outlives its descriptor"
        );
        #[allow(unsafe_code, reason = "the end of the mapping")]
        // SAFETY: the mapping made above is unmapped once and not used afterwards.
        unsafe { rustix::mm::munmap(mapping, 4096) }.unwrap();
        assert_eq!(of(file.as_fd()), Writers::None);
    }

    #[test]
    fn checking_for_writers_affects_neither_side() {
        let scratch = Scratch::new();
        std::fs::write(scratch.path("f"), "x").unwrap();
        let file = File::open(scratch.path("f")).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    of(file.as_fd());
                }
            });
            for _ in 0..2_000 {
                OpenOptions::new()
                    .write(true)
                    .open(scratch.path("f"))
                    .unwrap();
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}

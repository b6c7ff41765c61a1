//! XRC domains: ibv_open_xrcd(3). Processes share a domain by opening it on the same file.

use crate::process::membership::Member;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::refused;
use verbena_hca_shm::registry::Identity;

/// One open of an XRC domain.
pub struct Xrcd {
    identity: u64,
    users: AtomicUsize,
    /// Locked as long as the domain is open, so that the kernel knows whether a live process has it
    /// open.
    _presence: Option<File>,
}

static NEXT_PRIVATE: AtomicU64 = AtomicU64::new(1);

/// Bits of a private domain's identity that count the domains of its process.
const COUNT_BITS: u32 = 22;

/// Returns an identity that no other domain of the host has, made of slot and generation of the
/// process and a count of its domains. Process ids would not do, because processes of several PID
/// namespaces may share a registry.
fn private_identity(member: Identity) -> Result<u64> {
    let count = NEXT_PRIVATE.fetch_add(1, Ordering::Relaxed);
    if count >> COUNT_BITS != 0 {
        return Err(Errno::ENOMEM);
    }
    let process = u64::from(member.slot & 0x3ff) << 31 | u64::from(member.generation & 0x7fff_ffff);
    Ok(1 << 63 | process << COUNT_BITS | count)
}

impl Xrcd {
    /// Opens the domain of the file behind `fd`; -1 makes a private one of this process. `join`
    /// returns the membership in the registry.
    ///
    /// # Errors
    /// ENOENT when no process has it open and `flags` lacks O_CREAT; EEXIST when a process has and
    /// `flags` has O_EXCL; EINVAL for -1 without O_CREAT; ENOMEM when the process has made too many
    /// private ones; the system's.
    pub fn open<'a>(
        join: impl FnOnce() -> Result<&'a Member>,
        fd: RawFd,
        flags: i32,
    ) -> Result<Arc<Xrcd>> {
        let create = flags & libc::O_CREAT != 0;
        if fd < 0 {
            if !create {
                return Err(refused!(
                    EINVAL,
                    "fd is {fd} and oflags lacks O_CREAT: without a file only a new domain can be \
                     opened"
                ));
            }
            let identity = private_identity(join()?.identity)?;
            return Ok(Arc::new(Xrcd {
                identity,
                users: AtomicUsize::new(0),
                _presence: None,
            }));
        }
        // SAFETY: an all-zero stat is a valid out-parameter.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: `stat` is writable for the duration of the call.
        if unsafe { libc::fstat(fd, &mut stat) } != 0 {
            return Err(Errno::last());
        }
        let name = format!("xrcd-{:x}-{:x}", stat.st_dev, stat.st_ino);
        let path = join()?.registry.path().join(name);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        // SAFETY: the call takes no pointers, and `file` owns the descriptor.
        let alone = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
        if alone && !create {
            return Err(refused!(
                ENOENT,
                "no process has the domain of this file open, and oflags lacks O_CREAT"
            ));
        }
        if !alone && create && flags & libc::O_EXCL != 0 {
            return Err(refused!(
                EEXIST,
                "a process already has the domain of this file open, and oflags has O_EXCL"
            ));
        }
        // Turns the exclusive lock into a shared one.
        // SAFETY: the call takes no pointers, and `file` owns the descriptor.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH) };
        let identity = (stat.st_dev.rotate_left(40) ^ stat.st_ino) & !(1 << 63) | 1 << 62;
        Ok(Arc::new(Xrcd {
            identity,
            users: AtomicUsize::new(0),
            _presence: Some(file),
        }))
    }

    /// Returns whether this and `other` are opens of one domain.
    pub fn is_same(&self, other: &Xrcd) -> bool {
        self.identity == other.identity
    }

    /// Returns the identity that all opens of one domain share.
    pub(crate) fn identity(&self) -> u64 {
        self.identity
    }

    pub(crate) fn retain(&self) {
        self.users.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn release(&self) {
        self.users.fetch_sub(1, Ordering::Relaxed);
    }

    /// Ends this open of the domain.
    ///
    /// # Errors
    /// EBUSY while queue pairs or shared receive queues live in it.
    pub fn close(&self) -> Result<()> {
        if self.users.load(Ordering::Relaxed) > 0 {
            Err(refused!(
                EBUSY,
                "{} queue pairs and shared receive queues belong to the XRC domain: destroy them \
                 first",
                self.users.load(Ordering::Relaxed)
            ))
        } else {
            Ok(())
        }
    }
}

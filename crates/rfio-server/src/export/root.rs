//! The directory that an export's path leads to.
//!
//! The directory is held open, so that no client operation leads out of it. In the meantime the
//! path may come to lead elsewhere: a file system is mounted over it, its file system is unmounted,
//! or another directory replaces it. Data written then would be in an unexpected place.
//!
//! # Invariants
//!
//! - A request that creates, replaces, renames or removes a name, or closes a file that was open
//!   for writing, succeeds only if the path led to the changed directory when the request ended.
//! - The directory that a path newly leads to is exported from then on, automatically. Exception: a
//!   directory that is not a mount point never replaces one that was, since the file system is
//!   missing and the directory below its mount point is not the exported one. Until it is back, or
//!   until the configuration is read again, requests by name are refused.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path as LocalPath, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use verbena_rfio_protocol::shown;

use super::with_message;
use crate::local_user::as_daemon;

/// Maximum age of the last check of a path, for requests that only read attributes and must not
/// block.
const FRESH: Duration = Duration::from_millis(100);

/// File systems whose attributes the kernel keeps itself (statfs(2)).
const LOCAL: [libc::c_long; 8] = [
    libc::EXT4_SUPER_MAGIC,
    libc::XFS_SUPER_MAGIC,
    libc::BTRFS_SUPER_MAGIC,
    libc::F2FS_SUPER_MAGIC,
    libc::TMPFS_MAGIC,
    libc::OVERLAYFS_SUPER_MAGIC,
    RAMFS,
    ZFS,
];
const RAMFS: libc::c_long = 0x8584_58f6;
const ZFS: libc::c_long = 0x2fc1_2fc1;

/// Identifies a directory, and distinguishes the same directory in two mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DirectoryIdentity {
    mount: u64,
    device: (u32, u32),
    inode: u64,
    is_mount_point: bool,
}

/// A directory that is, or was, exported.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    path: PathBuf,
    identity: DirectoryIdentity,
    /// Whether the path led elsewhere at the last check.
    is_replaced: AtomicBool,
    /// Whether the kernel knows the attributes of looked-up files without asking a server or a
    /// process.
    pub(super) is_local: bool,
    /// Whether its file system is tmpfs.
    pub(super) is_of_memory: bool,
}

impl Root {
    fn open(path: &LocalPath) -> io::Result<Arc<Self>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let kind = rustix::fs::fstatfs(&directory).map(|system| system.f_type as libc::c_long);
        Ok(Arc::new(Self {
            identity: identity(&directory, c"", AtFlags::EMPTY_PATH)?,
            directory,
            path: path.to_owned(),
            is_replaced: AtomicBool::new(false),
            is_local: kind.is_ok_and(|kind| LOCAL.contains(&kind)),
            is_of_memory: kind == Ok(libc::TMPFS_MAGIC),
        }))
    }

    /// Returns whether the path leads to this directory. Returns `None` if this process lacks the
    /// permission, for instance after it gave up root.
    fn is_at_its_path(&self) -> Result<Option<bool>, Errno> {
        match as_daemon(|| identity(CWD, &self.path, AtFlags::empty())) {
            Ok(now) => Ok(Some(now == self.identity)),
            Err(Errno::ACCESS) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Checks that the path still leads here, so that changes are where clients look for them.
    ///
    /// # Errors
    /// ESTALE if the path leads elsewhere.
    pub fn must_be_at_its_path(&self) -> io::Result<()> {
        let is_replaced = self.is_replaced.load(Ordering::Relaxed);
        if !is_replaced && matches!(self.is_at_its_path(), Ok(Some(true) | None)) {
            return Ok(());
        }
        Err(with_message(
            Errno::STALE,
            "the exported directory was unmounted, mounted over or replaced, so the written data \
             are not in it; write the file again",
        ))
    }

    /// Fails at once if the path is known to lead elsewhere. For frequent requests.
    ///
    /// # Errors
    /// As [`Root::must_be_at_its_path`].
    pub fn must_not_be_replaced(&self) -> io::Result<()> {
        match self.is_replaced.load(Ordering::Relaxed) {
            false => Ok(()),
            true => self.must_be_at_its_path(),
        }
    }
}

impl AsFd for Root {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

fn identity<P: rustix::path::Arg>(
    directory: impl AsFd,
    path: P,
    flags: AtFlags,
) -> Result<DirectoryIdentity, Errno> {
    // No synchronization with a file server: only the mount matters.
    let flags = flags | AtFlags::STATX_DONT_SYNC;
    let wanted = StatxFlags::INO | StatxFlags::MNT_ID;
    let about = rustix::fs::statx(directory, path, flags, wanted)?;
    let is_known = StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::MNT_ID);
    Ok(DirectoryIdentity {
        mount: if is_known { about.stx_mnt_id } else { 0 },
        device: (about.stx_dev_major, about.stx_dev_minor),
        inode: about.stx_ino,
        is_mount_point: about.stx_attributes.contains(StatxAttributes::MOUNT_ROOT),
    })
}

/// An export's path, and the directory that it led to at the last check.
#[derive(Debug)]
pub(super) struct ExportPath {
    path: PathBuf,
    must_be_mount_point: bool,
    root: RwLock<Arc<Root>>,
    /// When the path was last found to lead there, in milliseconds of this process.
    looked: AtomicU64,
    /// Whether the missing directory has been reported.
    is_complained: AtomicBool,
}

impl ExportPath {
    /// Opens the directory.
    ///
    /// # Errors
    /// It cannot be opened, or it must be a mount point and is not one.
    pub(super) fn open(path: &LocalPath, must_be_mount_point: bool) -> io::Result<Self> {
        let root = Root::open(path)?;
        if must_be_mount_point && !root.identity.is_mount_point {
            return Err(io::Error::new(io::ErrorKind::NotFound, NOT_MOUNTED));
        }
        Ok(Self {
            path: path.to_owned(),
            must_be_mount_point,
            root: RwLock::new(root),
            looked: AtomicU64::new(now()),
            is_complained: AtomicBool::new(false),
        })
    }

    pub(super) fn path(&self) -> &LocalPath {
        &self.path
    }

    /// Returns whether this process can see where the path leads.
    pub(super) fn is_watched(&self) -> bool {
        self.last().is_at_its_path() != Ok(None)
    }

    /// Opens the target of the path, as at the start, for [`ExportPath::take`].
    pub(super) fn look_again(&self) -> io::Result<Arc<Root>> {
        let root = match Root::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && !self.is_watched() => {
                return Ok(self.last());
            }
            opened => opened?,
        };
        match self.must_be_mount_point && !root.identity.is_mount_point {
            true => Err(io::Error::new(io::ErrorKind::NotFound, NOT_MOUNTED)),
            false => Ok(root),
        }
    }

    /// Exports this directory from now on.
    pub(super) fn take(&self, root: Arc<Root>) {
        let mut pinned = self
            .root
            .write()
            .unwrap_or_else(|poison| poison.into_inner());
        if pinned.identity != root.identity {
            pinned.is_replaced.store(true, Ordering::Relaxed);
            *pinned = root;
        }
        pinned.is_replaced.store(false, Ordering::Relaxed);
        self.is_complained.store(false, Ordering::Relaxed);
        self.looked.store(now(), Ordering::Relaxed);
    }

    /// Returns the directory of the last check.
    pub(super) fn last(&self) -> Arc<Root> {
        let root = self.root.read();
        Arc::clone(&root.unwrap_or_else(|poison| poison.into_inner()))
    }

    /// Returns the directory of the last check, if that is recent.
    pub(super) fn recent(&self) -> Option<Arc<Root>> {
        let age = now().saturating_sub(self.looked.load(Ordering::Relaxed));
        (age < FRESH.as_millis() as u64).then(|| self.last())
    }

    /// Returns the directory that the path leads to.
    ///
    /// # Errors
    /// It leads to none, or to one that must not replace the last one.
    pub(super) fn current(&self) -> io::Result<Arc<Root>> {
        let last = self.last();
        match last.is_at_its_path() {
            Ok(Some(true) | None) => {
                self.looked.store(now(), Ordering::Relaxed);
                if last.is_replaced.swap(false, Ordering::Relaxed) {
                    self.say("is back");
                    self.is_complained.store(false, Ordering::Relaxed);
                }
                Ok(last)
            }
            Ok(Some(false)) => self.follow(&last),
            Err(errno) => Err(self.missing(&last, &format!("cannot be reached: {errno}"))),
        }
    }

    /// Exports the current target of the path in place of the previous one.
    fn follow(&self, last: &Root) -> io::Result<Arc<Root>> {
        let found = as_daemon(|| Root::open(&self.path));
        let root = match found {
            Ok(root) => root,
            Err(error) => return Err(self.missing(last, &format!("cannot be opened: {error}"))),
        };
        let was_mount_point = self.must_be_mount_point || last.identity.is_mount_point;
        if was_mount_point && !root.identity.is_mount_point {
            let what = "is no longer a mount point: its file system was unmounted; mount it \
                        again, or send SIGHUP to export the underlying directory";
            return Err(self.missing(last, what));
        }
        self.say("was mounted over or replaced; the new directory is exported");
        self.take(Arc::clone(&root));
        Ok(root)
    }

    /// Returns the error for the client and logs it once for the administrator.
    fn missing(&self, last: &Root, what: &str) -> io::Error {
        last.is_replaced.store(true, Ordering::Relaxed);
        self.looked.store(0, Ordering::Relaxed);
        if !self.is_complained.swap(true, Ordering::Relaxed) {
            self.say(&format!(
                "{what}; requests are refused until it is available"
            ));
        }
        with_message(
            Errno::STALE,
            "the exported directory is not available on the server; see the server's log",
        )
    }

    fn say(&self, what: &str) {
        let path = shown::bytes(self.path.as_os_str().as_bytes());
        eprintln!("rfiod: export {path} {what}");
    }
}

/// Message of `--require-mount` for a directory that is not a mount point.
const NOT_MOUNTED: &str = "is not a mount point, as --require-mount demands; mount its file \
                           system first";

/// Returns the time since the first call in milliseconds, plus an offset: 0 means never.
fn now() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    let since = BEGUN.get_or_init(Instant::now).elapsed();
    since.as_millis() as u64 + FRESH.as_millis() as u64 + 1
}

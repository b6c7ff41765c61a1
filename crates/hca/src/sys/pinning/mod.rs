//! Whether something besides page tables may hold on to pages of this process.
//!
//! A driver that is given an address once and from then on uses the pages that were behind it (get_user_pages) does not
//! notice when other pages are mapped there. The kernel does not tell a process which of its pages are used like that, but it
//! can only be asked for such use through a descriptor, or by the calls of libaio. So the descriptors are looked at:
//!
//! | descriptor | pages it holds |
//! |---|---|
//! | file or block device opened with O_DIRECT | those of transfers under way |
//! | io_uring with registered buffers, or files | the buffers; those of transfers under way |
//! | socket of AF_XDP | its frames |
//! | device file that is not known to copy | GPU, vfio, RDMA adapter: what its driver was told to register |
//! | context of io_setup(2), no descriptor | those of transfers under way, of files closed meanwhile too |
//! | vmsplice(2), seen by the shim | what lies in pipes |
//!
//! Not seen: a ring or device whose descriptor this process has handed over and closed, and the table of descriptors of a
//! thread that has one of its own (unshare(2) with CLONE_FILES).

mod descriptor;
mod ring;
mod spliced;

use crate::errno::{Errno, Result};
use crate::sys::vma::Maps;
use descriptor::Verdict;
use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const DESCRIPTORS: &str = "/proc/self/fd";
const CONTEXTS: &str = "/proc/sys/fs/aio-nr";

/// Descriptors are looked for by number as long as fewer numbers than this are unused; else the kernel is asked for a list.
const GAPS: usize = 64;

/// The descriptors of the process that opened it; a forked child opens its own.
#[derive(Debug)]
pub struct Pinning {
    descriptors: File,
    /// Events of all contexts of this machine (proc_sys_fs(5)); None where the kernel has no contexts.
    contexts: Option<File>,
    /// What that number was when this process had no context.
    without_context: AtomicU64,
    /// Inode of descriptors that the kernel makes without an inode of their own: event queues, counters, timers. No ring.
    nameless: u64,
    /// A descriptor that is known, and costs a look at its name.
    known: AtomicU32,
}

impl Pinning {
    /// Opens the list of this process's descriptors.
    pub fn open() -> Result<Pinning> {
        Ok(Pinning {
            descriptors: File::open(DESCRIPTORS)?,
            contexts: File::open(CONTEXTS).ok(),
            without_context: AtomicU64::new(0),
            nameless: descriptor::nameless_inode(),
            known: AtomicU32::new(u32::MAX),
        })
    }

    /// A descriptor of ours that holds no pages.
    pub fn is_harmless(&self, descriptor: RawFd) {
        self.known.store(descriptor as u32, Ordering::Relaxed);
    }

    /// Whether pages of this process may be held now. What cannot be found out counts as held.
    pub fn is_possible(&self, maps: &Maps) -> bool {
        spliced::has_spliced() || self.by_descriptor() || self.by_context(maps)
    }

    fn by_descriptor(&self) -> bool {
        // Linux 6.2 tells how many there are; before, it is 0.
        let count = self.descriptors.metadata().map_or(0, |all| all.size());
        match self.by_number(count as usize) {
            Some(is_held) => is_held,
            None => self.by_list().unwrap_or(true),
        }
    }

    /// Looks at the lowest numbers until as many descriptors are found as there are. None if they are far apart.
    fn by_number(&self, count: usize) -> Option<bool> {
        let mut found = 0;
        for number in 0..count + GAPS {
            if found == count {
                return (count > 0).then_some(false);
            }
            match self.verdict(number as RawFd) {
                Verdict::Closed => (),
                Verdict::Holds => return Some(true),
                Verdict::Harmless => found += 1,
            }
        }
        None
    }

    fn by_list(&self) -> Result<bool> {
        for entry in std::fs::read_dir(DESCRIPTORS)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.parse().ok());
            if self.verdict(number.ok_or(Errno::EIO)?) == Verdict::Holds {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn verdict(&self, number: RawFd) -> Verdict {
        if number as u32 == self.known.load(Ordering::Relaxed) {
            return Verdict::Harmless;
        }
        descriptor::verdict(number, self.descriptors.as_raw_fd(), self.nameless)
    }

    /// Whether this process has a context of io_setup(2): one is a mapping. They are looked for only when the number of
    /// events of all processes has changed.
    fn by_context(&self, maps: &Maps) -> bool {
        let Some(contexts) = &self.contexts else {
            return false;
        };
        let mut text = [0; 24];
        let read = contexts.read_at(&mut text, 0).unwrap_or(0);
        let number = std::str::from_utf8(&text[..read]).ok();
        let Some(events) = number.and_then(|number| number.trim().parse().ok()) else {
            return true;
        };
        if events == self.without_context.load(Ordering::Relaxed) {
            return false;
        }
        let has_context = maps.has_name("/[aio]").unwrap_or(true);
        if !has_context {
            self.without_context.store(events, Ordering::Relaxed);
        }
        has_context
    }
}

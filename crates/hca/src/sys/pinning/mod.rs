//! Whether something besides page tables may hold on to pages of this process.
//!
//! A driver that is given an address once and from then on uses the pages that were behind it
//! (get_user_pages) does not
//! notice when other pages are mapped there. The kernel does not tell a process which of its pages
//! are used like that, but it
//! can only be asked for such use through a descriptor, or by the calls of libaio. So the
//! descriptors are looked at:
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
//! Not seen: a ring or device whose descriptor this process has handed over and closed, and the
//! table of descriptors of a
//! thread that has one of its own (unshare(2) with CLONE_FILES).

mod descriptor;
mod list;
mod ring;
mod spliced;

use crate::errno::Result;
use crate::sys::vma::Maps;
use descriptor::Verdict;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const DESCRIPTORS: &str = "/proc/self/fd";
/// What the mapping of a context is called.
const CONTEXT: &str = "/[aio]";
const CONTEXTS: &str = "/proc/sys/fs/aio-nr";

/// The descriptors of the process that opened it; a forked child opens its own. Asked by one thread
/// at a time.
#[derive(Debug)]
pub struct Pinning {
    descriptors: File,
    /// Events of all contexts of this machine (proc_sys_fs(5)); None where the kernel has no
    /// contexts.
    contexts: Option<File>,
    /// What that number was when this process had no context.
    without_context: AtomicU64,
    /// Inode of descriptors that the kernel makes without an inode of their own: event queues,
    /// counters, timers. No ring.
    nameless: u64,
    numbers: Mutex<Numbers>,
}

/// The numbers of descriptors.
#[derive(Debug, Default)]
struct Numbers {
    /// Those that were open at the last look.
    open: Vec<RawFd>,
    /// Those of them that are ours for as long as this process lives, and hold no pages.
    known: Vec<RawFd>,
}

impl Pinning {
    /// Opens the list of this process's descriptors.
    pub fn open() -> Result<Pinning> {
        let descriptors = File::open(DESCRIPTORS)?;
        let contexts = File::open(CONTEXTS).ok();
        let pinning = Pinning {
            nameless: descriptor::nameless_inode(),
            without_context: AtomicU64::new(0),
            numbers: Mutex::default(),
            descriptors,
            contexts,
        };
        pinning.is_harmless(pinning.descriptors.as_fd());
        if let Some(contexts) = &pinning.contexts {
            pinning.is_harmless(contexts.as_fd());
        }
        Ok(pinning)
    }

    /// A descriptor that holds no pages and is not closed before the process ends: no look at it is
    /// needed.
    pub fn is_harmless(&self, descriptor: BorrowedFd<'_>) {
        let number = descriptor.as_raw_fd();
        let mut numbers = self.numbers();
        numbers.known.push(number);
        numbers.open.clear();
    }

    /// Whether pages of this process may be held now. What cannot be found out counts as held.
    /// `except` is the inode of a file that is mapped in many places and is no context.
    pub fn is_possible(&self, maps: &Maps, except: u64) -> bool {
        spliced::has_spliced() || self.by_descriptor() || self.by_context(maps, except)
    }

    fn by_descriptor(&self) -> bool {
        // Linux 6.2 tells how many there are; before, it is 0.
        let count = descriptor::status(self.descriptors.as_raw_fd()).map_or(0, |all| all.st_size);
        let mut numbers = self.numbers();
        // As many as there are, and all of them open: there is no other.
        if count > 0
            && numbers.open.len() + numbers.known.len() == count as usize
            && let Some(is_held) = self.any_holds(&numbers.open)
        {
            return is_held;
        }
        if list::read(self.descriptors.as_fd(), &mut numbers.open).is_err() {
            numbers.open.clear();
            return true;
        }
        let Numbers { open, known } = &mut *numbers;
        open.retain(|number| !known.contains(number));
        open.iter()
            .any(|number| self.verdict(*number) == Verdict::Holds)
    }

    /// None if one of them is not open any more.
    fn any_holds(&self, numbers: &[RawFd]) -> Option<bool> {
        for number in numbers {
            match self.verdict(*number) {
                Verdict::Closed => return None,
                Verdict::Holds => return Some(true),
                Verdict::Harmless => (),
            }
        }
        Some(false)
    }

    fn verdict(&self, number: RawFd) -> Verdict {
        descriptor::verdict(number, self.descriptors.as_raw_fd(), self.nameless)
    }

    fn numbers(&self) -> MutexGuard<'_, Numbers> {
        self.numbers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether this process has a context of io_setup(2): one is a mapping. They are looked for
    /// only when the number of
    /// events of all processes has changed.
    fn by_context(&self, maps: &Maps, except: u64) -> bool {
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
        let has_context = match maps.has_shared(CONTEXT, except) {
            Ok(has_context) => has_context,
            Err(_) => maps.text_has(CONTEXT).unwrap_or(true),
        };
        if !has_context {
            self.without_context.store(events, Ordering::Relaxed);
        }
        has_context
    }
}

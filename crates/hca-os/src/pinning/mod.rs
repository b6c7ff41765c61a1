//! Detection of holders other than page tables that may refer to pages of this process.
//!
//! A driver that is given an address once and then uses the pages behind it (get_user_pages) does
//! not notice when other pages are mapped there. The kernel does not report which pages of a
//! process are used like that, but such use can only be requested through a descriptor, or by the
//! calls of libaio. So the descriptors are checked:
//!
//! | descriptor | pages it holds |
//! |---|---|
//! | file or block device opened with O_DIRECT | those of transfers in progress |
//! | io_uring with registered buffers, or files | the buffers; those of transfers in progress |
//! | socket of AF_XDP | its frames |
//! | device file that is not known to copy | GPU, vfio, RDMA adapter: pages registered there |
//! | context of io_setup(2), no descriptor | those of transfers in progress, also of closed files |
//! | vmsplice(2), seen by the shim | pages in pipes |
//!
//! The check runs while other threads may not touch pages of this process
//! ([`crate::userfault::Held`]), among them the heap's. So it uses only the stack and the
//! contents of a [`Pinning`], which is not on the heap either ([`crate::page_box`]). It allocates
//! and frees nothing, and takes no lock whose holder may be waiting for such a page.
//!
//! Not detected: a ring or device whose descriptor this process has handed over and closed, and the
//! descriptor table of a thread that has one of its own (unshare(2) with CLONE_FILES).

mod descriptor;
mod io_uring;
mod list;
mod spliced;

use crate::errno::Result;
use crate::vma::Maps;
use descriptor::{DescriptorInspector, PinVerdict, Question};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

const DESCRIPTORS: &str = "/proc/self/fd";
/// Name of the mapping of a context.
const CONTEXT: &str = "/[aio]";
const CONTEXTS: &str = "/proc/sys/fs/aio-nr";
/// Largest number of descriptors that are remembered. If there are more, all are listed each time.
const KEPT: usize = 4096;
/// Largest number of known harmless descriptors; more are checked like all others.
const KNOWN: usize = 16;

/// The descriptors of the process that opened it; a forked child opens its own. Used by one thread
/// at a time.
#[derive(Debug)]
pub struct Pinning {
    descriptors: File,
    /// Number of events of all contexts of this machine (proc_sys_fs(5)); None where the kernel has
    /// no contexts.
    contexts: Option<File>,
    /// That number when this process was last seen without a context.
    without_context: AtomicU64,
    /// Checks one descriptor.
    inspector: DescriptorInspector,
    numbers: Mutex<DescriptorNumbers>,
}

/// The numbers of descriptors.
#[derive(Debug)]
struct DescriptorNumbers {
    /// Those open at the last check, each with the question that decided it then.
    open: List<(RawFd, Option<Question>), KEPT>,
    /// Descriptors of the adapter that stay open as long as this process lives and hold no pages.
    known: List<RawFd, KNOWN>,
}

#[derive(Debug)]
struct List<T, const ROOM: usize> {
    entries: [T; ROOM],
    /// Entries counted; if more than `ROOM`, only the first `ROOM` are stored.
    count: usize,
}

impl<T: Copy, const ROOM: usize> List<T, ROOM> {
    const fn new(blank: T) -> List<T, ROOM> {
        List {
            entries: [blank; ROOM],
            count: 0,
        }
    }

    fn clear(&mut self) {
        self.count = 0;
    }

    fn push(&mut self, entry: T) {
        if let Some(room) = self.entries.get_mut(self.count) {
            *room = entry;
        }
        self.count += 1;
    }

    fn all(&self) -> &[T] {
        &self.entries[..self.count.min(ROOM)]
    }

    fn is_whole(&self) -> bool {
        self.count <= ROOM
    }
}

impl Pinning {
    /// Opens the list of this process's descriptors.
    ///
    /// # Errors
    /// The system's.
    pub fn open() -> Result<Pinning> {
        let descriptors = File::open(DESCRIPTORS)?;
        let contexts = File::open(CONTEXTS).ok();
        let pinning = Pinning {
            inspector: DescriptorInspector {
                list: descriptors.as_raw_fd(),
                nameless: descriptor::nameless_inode(),
            },
            without_context: AtomicU64::new(0),
            numbers: Mutex::new(DescriptorNumbers {
                open: List::new((-1, None)),
                known: List::new(-1),
            }),
            descriptors,
            contexts,
        };
        // Its symbol is looked up at the first call, which must not happen during a check.
        spliced::has_spliced();
        pinning.is_harmless(pinning.descriptors.as_fd());
        if let Some(contexts) = &pinning.contexts {
            pinning.is_harmless(contexts.as_fd());
        }
        Ok(pinning)
    }

    /// Notes a descriptor that holds no pages and is not closed before the process ends: it is not
    /// checked.
    pub fn is_harmless(&self, descriptor: BorrowedFd<'_>) {
        let number = descriptor.as_raw_fd();
        let mut numbers = self.numbers();
        numbers.known.push(number);
        numbers.open.clear();
    }

    /// Returns the number of open descriptors; 0 before Linux 6.2, which does not report it.
    fn count(&self) -> usize {
        rustix::fs::fstat(&self.descriptors).map_or(0, |all| all.st_size as usize)
    }

    /// Returns whether pages of this process may be held now. A failed check counts as held.
    /// `except` is the inode of a file that is mapped in many places and is no context.
    pub fn is_possible(&self, maps: &Maps, except: u64) -> bool {
        spliced::has_spliced() || self.by_descriptor() || self.by_context(maps, except)
    }

    fn by_descriptor(&self) -> bool {
        let count = self.count();
        let mut numbers = self.numbers();
        let DescriptorNumbers { open, known } = &mut *numbers;
        let known = known.all();
        // As many as there are, and all of them open: there is no other.
        if count > 0
            && open.is_whole()
            && open.count + known.len() == count
            && let Some(is_held) = self.any_holds(open.all())
        {
            return is_held;
        }
        open.clear();
        let mut is_held = false;
        let listed = list::each(self.descriptors.as_fd(), |number| {
            if !known.contains(&number) {
                let (verdict, question) = self.inspector.verdict(number);
                open.push((number, question));
                is_held = is_held || verdict == PinVerdict::Holds;
            }
        });
        if listed.is_err() {
            open.clear();
        }
        is_held || listed.is_err()
    }

    /// Returns whether any of them holds pages; None if one of them is not open any more.
    fn any_holds(&self, numbers: &[(RawFd, Option<Question>)]) -> Option<bool> {
        for &(number, question) in numbers {
            if question.is_some_and(|question| self.inspector.suffices(question, number)) {
                continue;
            }
            match self.inspector.verdict(number).0 {
                PinVerdict::Closed => return None,
                PinVerdict::Holds => return Some(true),
                PinVerdict::Harmless => (),
            }
        }
        Some(false)
    }

    fn numbers(&self) -> MutexGuard<'_, DescriptorNumbers> {
        self.numbers.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Returns whether this process has a context of io_setup(2), which is a mapping. The mappings
    /// are searched only when the number of events of all processes has changed.
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

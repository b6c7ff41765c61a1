//! The arena: the shared memory file that backs a process's registered pages.

use crate::extents::Extents;
use crate::page_policy::Pages;
use crate::pins::Pins;
use crate::quarantine::{Quarantine, Release};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;
use verbena_hca_os::page_box::PageBox;
use verbena_hca_os::pinning::Pinning;
use verbena_hca_os::threads::Threads;
use verbena_hca_os::userfault::UserFault;
use verbena_hca_os::vma::{Maps, Vma};

/// The kernel's base page size in bytes.
pub const PAGE: u64 = 4096;

/// A process's arena. The file is sparse: unallocated ranges take no memory.
pub struct Arena {
    memfd: Memfd,
    mapping: Mapping,
    inode: u64,
    space: Mutex<Space>,
    pins: Mutex<Pins>,
    maps: Maps,
    threads: Threads,
    pages: Pages,
    pinning: Pinning,
    /// Whether pages were found unmovable at the last check.
    was_pinned: AtomicBool,
    userfault: OnceLock<Option<UserFault>>,
}

/// The ranges of the file in use.
struct Space {
    extents: Extents,
    quarantine: Quarantine,
    /// Ranges that an eviction is emptying: pages of them that are freed before it is done go to
    /// the quarantine.
    leaving: Vec<(Range<u64>, Release)>,
}

impl Arena {
    /// Creates an empty arena with address space for twice the machine's memory. It is allocated
    /// off the heap, because it is used while pages of the heap are held.
    ///
    /// # Errors
    /// ENOMEM when the address space is limited; the system's.
    pub fn create(pages: Pages) -> Result<PageBox<Arena>> {
        // SAFETY: an all-zero sysinfo is a valid out-parameter, and it is writable.
        let memory = unsafe {
            let mut info: libc::sysinfo = std::mem::zeroed();
            libc::sysinfo(&mut info);
            info.totalram * u64::from(info.mem_unit)
        };
        let arena = Arena::of_length((memory * 2).next_power_of_two().max(1 << 34))?;
        PageBox::new(Arena { pages, ..arena })
    }

    /// Creates an empty arena of `length` bytes.
    pub(super) fn of_length(length: u64) -> Result<Arena> {
        let memfd = Memfd::create(c"verbena-arena", length as usize)?;
        let mapping = Mapping::of(&memfd, MappingRights::ReadWrite)?;
        let inode = memfd.identity()?.1;
        let arena = Arena {
            memfd,
            mapping,
            inode,
            space: Mutex::new(Space {
                extents: Extents::new(length),
                quarantine: Quarantine::default(),
                leaving: Vec::new(),
            }),
            pins: Mutex::default(),
            maps: Maps::open()?,
            threads: Threads::open()?,
            pages: Pages::Auto,
            pinning: Pinning::open()?,
            was_pinned: AtomicBool::new(false),
            userfault: OnceLock::new(),
        };
        for own in [
            arena.memfd.as_fd(),
            arena.maps.as_fd(),
            arena.threads.as_fd(),
        ] {
            arena.pinning.is_harmless(own);
        }
        Ok(arena)
    }

    /// Returns the file, to hand to peers or to map over a range.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// Returns the length of the file in bytes.
    pub fn length(&self) -> usize {
        self.memfd.length()
    }

    /// Returns the address of an offset in the local address space.
    ///
    /// # Panics
    /// If the offset is outside the arena: offsets passed here come from local tables.
    #[inline]
    pub fn pointer(&self, offset: u64) -> *mut u8 {
        assert!((offset as usize) < self.mapping.length());
        // SAFETY: the offset was just checked to be inside the mapping.
        unsafe { self.mapping.base().add(offset as usize) }
    }

    /// Returns the address of the whole arena in the local address space.
    pub fn base(&self) -> u64 {
        self.mapping.base() as u64
    }

    /// Returns whether a local mapping shows pages of the arena, other than the arena's view of
    /// itself.
    pub fn is_behind(&self, vma: &Vma) -> bool {
        let own = self.base()..self.base() + self.length() as u64;
        vma.inode == self.inode && vma.shared && !own.contains(&vma.start)
    }

    /// Allocates `length` bytes (a multiple of the page), all zero. Returns their offset.
    ///
    /// # Errors
    /// ENOMEM when the file has no such gap.
    pub fn allocate(&self, length: u64) -> Result<u64> {
        self.sweep();
        self.space().extents.allocate(length).ok_or(Errno::ENOMEM)
    }

    /// Frees pages and their range at once.
    pub fn free(&self, offsets: Range<u64>) {
        self.retire(offsets, None);
    }

    /// As [`Arena::free`]; with a release, the range is quarantined until the release says that no
    /// peer can still write there.
    pub fn retire(&self, offsets: Range<u64>, release: Option<Release>) {
        let mut space = self.space();
        let leaving = space
            .leaving
            .iter()
            .find(|(range, _)| range.start < offsets.end && offsets.start < range.end);
        match release.or_else(|| leaving.map(|(_, release)| release.clone())) {
            Some(release) => space.quarantine.add(offsets, release),
            None => self.give_up(&mut space, offsets),
        }
    }

    /// Frees the ranges released from quarantine. Called whenever space is allocated; call it also
    /// when a peer has died, so that its memory does not wait for the next registration.
    pub fn sweep(&self) {
        let mut space = self.space();
        for offsets in space.quarantine.released() {
            self.give_up(&mut space, offsets);
        }
    }

    /// Returns the number of bytes in quarantine.
    pub fn quarantined(&self) -> u64 {
        self.space().quarantine.bytes()
    }

    /// Returns the number of bytes in use or in quarantine.
    pub fn used(&self) -> u64 {
        self.length() as u64 - self.space().extents.free_bytes()
    }

    fn give_up(&self, space: &mut Space, offsets: Range<u64>) {
        // Emptied before the range can be allocated again.
        self.memfd.punch(
            offsets.start as usize,
            (offsets.end - offsets.start) as usize,
        );
        space.extents.free(offsets);
    }

    /// Notes that an eviction empties a range, and when the range may be reused.
    pub(super) fn begin_leaving(&self, offsets: Range<u64>, release: Release) {
        self.space().leaving.push((offsets, release));
    }

    /// Notes that the eviction of a range is over.
    pub(super) fn end_leaving(&self, offsets: &Range<u64>) {
        self.space().leaving.retain(|(range, _)| range != offsets);
    }

    /// Copies local memory into the file. By a system call rather than through the mapping: the
    /// kernel fills new pages of the file without a fault for each, and an unmapped source gives an
    /// error instead of a signal.
    pub(super) fn fill(&self, offset: u64, from: u64, length: u64) -> Result<()> {
        self.transfer(length, |done| {
            // SAFETY: the kernel checks the source range.
            unsafe {
                libc::pwrite(
                    self.fd().as_raw_fd(),
                    (from + done) as *const _,
                    (length - done) as usize,
                    (offset + done) as libc::off_t,
                )
            }
        })
    }

    /// Copies from the file to private memory of the caller.
    pub(super) fn fetch(&self, offset: u64, to: u64, length: u64) -> Result<()> {
        self.transfer(length, |done| {
            // SAFETY: the kernel checks that the target is mapped; it belongs to the caller.
            unsafe {
                libc::pread(
                    self.fd().as_raw_fd(),
                    (to + done) as *mut _,
                    (length - done) as usize,
                    (offset + done) as libc::off_t,
                )
            }
        })
    }

    fn transfer(&self, length: u64, mut next: impl FnMut(u64) -> isize) -> Result<()> {
        let mut done = 0;
        while done < length {
            match next(done) {
                n if n > 0 => done += n as u64,
                0 => return Err(Errno::ENOMEM),
                _ => return Err(Errno::last()),
            }
        }
        Ok(())
    }

    /// Returns the mappings of this process.
    pub(super) fn maps(&self) -> &Maps {
        &self.maps
    }

    /// Notes that a descriptor of the adapter holds no pages, and is closed with the process.
    pub fn is_harmless(&self, descriptor: BorrowedFd<'_>) {
        self.pinning.is_harmless(descriptor);
    }

    /// Returns whether no other thread of this process touches its memory.
    pub(super) fn is_of_one_thread(&self) -> bool {
        self.threads.are_one()
    }

    /// Returns whether pages may move now, that is, whether no holder would miss the move. Called
    /// when nothing can begin to hold the pages in question.
    pub(super) fn may_move(&self) -> bool {
        let may_move = match self.pages {
            Pages::Auto => !self.pinning.is_possible(&self.maps, self.inode),
            Pages::InPlace => false,
            Pages::Shared => true,
        };
        self.was_pinned.store(!may_move, Ordering::Relaxed);
        may_move
    }

    /// Returns whether it is worthwhile to begin moving pages. [`Arena::may_move`] is called on the
    /// way; but if its last answer was no, the next one probably is too, and is asked for before
    /// any work has begun.
    pub(super) fn might_move(&self) -> bool {
        !self.was_pinned.load(Ordering::Relaxed) || self.may_move()
    }

    /// Returns the means to hold accesses of other threads, where the system permits it.
    pub(super) fn userfault(&self) -> Option<&UserFault> {
        self.userfault
            .get_or_init(|| {
                let fault = UserFault::open().ok()?;
                self.pinning.is_harmless(fault.as_fd());
                Some(fault)
            })
            .as_ref()
    }

    /// Replaces the userfault handle that the system would give.
    #[cfg(test)]
    pub(super) fn with_userfault(self, fault: Option<UserFault>) -> Arena {
        let _ = self.userfault.set(fault);
        self
    }

    /// Returns the table of pinned pages. The caller holds the registration lock.
    pub(super) fn pins(&self) -> MutexGuard<'_, Pins> {
        self.pins.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn space(&self) -> MutexGuard<'_, Space> {
        self.space.lock().unwrap_or_else(|e| e.into_inner())
    }
}

//! The shared memory file that a process's registered pages live in.

use crate::errno::{Errno, Result};
use crate::sys::mapping::{Mapping, Rights};
use crate::sys::memfd::Memfd;
use crate::sys::vma::Vma;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

/// The kernel's base page.
pub const PAGE: u64 = 4096;

/// A process's arena. The file is sparse: what is not allocated takes no memory.
pub struct Arena {
    memfd: Memfd,
    mapping: Mapping,
    inode: u64,
    extents: Mutex<Extents>,
}

#[derive(Default)]
struct Extents {
    /// Free ranges by offset, never adjacent.
    free: BTreeMap<u64, u64>,
    /// Used ranges by offset.
    used: BTreeMap<u64, Extent>,
}

struct Extent {
    length: u64,
    /// Regions that reach into it.
    users: usize,
}

impl Arena {
    /// An empty arena, with address space for twice the machine's memory.
    pub fn create() -> Result<Arena> {
        // SAFETY: an all-zero sysinfo is a valid out-parameter, and it is writable.
        let memory = unsafe {
            let mut info: libc::sysinfo = std::mem::zeroed();
            libc::sysinfo(&mut info);
            info.totalram * u64::from(info.mem_unit)
        };
        let length = (memory * 2).next_power_of_two().max(1 << 34);
        let memfd = Memfd::create(c"verbena-arena", length as usize)?;
        let mapping = Mapping::of(&memfd, Rights::ReadWrite)?;
        let inode = memfd.identity()?.1;
        let extents = Mutex::new(Extents::new(length));
        Ok(Arena {
            memfd,
            mapping,
            inode,
            extents,
        })
    }

    /// The file, to hand to peers or to map over a range.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memfd.as_fd()
    }

    /// Length of the file in bytes.
    pub fn length(&self) -> usize {
        self.memfd.length()
    }

    /// Where an offset lies in our own address space.
    ///
    /// # Panics
    /// If the offset is outside: offsets given to this come from our own tables.
    pub fn pointer(&self, offset: u64) -> *mut u8 {
        assert!((offset as usize) < self.mapping.length());
        // SAFETY: inside the mapping, just checked.
        unsafe { self.mapping.base().add(offset as usize) }
    }

    /// Address of the whole arena in our own address space.
    pub fn base(&self) -> u64 {
        self.mapping.base() as u64
    }

    /// Whether a mapping of ours shows pages of the arena, other than the arena's own view of itself.
    pub fn is_behind(&self, vma: &Vma) -> bool {
        vma.inode == self.inode && vma.shared && vma.start != self.base()
    }

    /// Takes `length` bytes (a multiple of the page), with one user.
    pub fn allocate(&self, length: u64) -> Result<u64> {
        self.lock().allocate(length).ok_or(Errno::ENOMEM)
    }

    /// Adds a user to every extent that overlaps `[offset, offset + length)`; returns their offsets.
    pub fn join(&self, offset: u64, length: u64) -> Vec<u64> {
        let mut extents = self.lock();
        let touched: Vec<u64> = extents
            .used
            .iter()
            .filter(|(start, extent)| **start < offset + length && **start + extent.length > offset)
            .map(|(start, _)| *start)
            .collect();
        for start in &touched {
            if let Some(extent) = extents.used.get_mut(start) {
                extent.users += 1;
            }
        }
        touched
    }

    /// Takes a user away. The pages stay: the application still has them mapped, and may register them again.
    pub fn part(&self, offset: u64) {
        if let Some(extent) = self.lock().used.get_mut(&offset) {
            extent.users = extent.users.saturating_sub(1);
        }
    }

    /// Gives an extent back at once, pages and all. For memory that nothing else maps.
    pub fn free(&self, offset: u64) {
        let mut extents = self.lock();
        if let Some(length) = extents.release(offset) {
            self.memfd.punch(offset as usize, length as usize);
        }
    }

    /// Gives back what has no users and is no longer mapped by the application.
    pub fn collect(&self, mappings: &[Vma]) {
        let mut extents = self.lock();
        let seen: Vec<(u64, u64)> = mappings
            .iter()
            .filter(|vma| self.is_behind(vma))
            .map(|vma| (vma.offset, vma.offset + (vma.end - vma.start)))
            .collect();
        let gone: Vec<u64> = extents
            .used
            .iter()
            .filter(|(start, extent)| {
                extent.users == 0
                    && !seen
                        .iter()
                        .any(|(from, to)| *from < *start + extent.length && *to > **start)
            })
            .map(|(start, _)| *start)
            .collect();
        for start in gone {
            if let Some(length) = extents.release(start) {
                self.memfd.punch(start as usize, length as usize);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Extents> {
        self.extents.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Extents {
    fn new(length: u64) -> Extents {
        Extents {
            free: BTreeMap::from([(0, length)]),
            used: BTreeMap::new(),
        }
    }

    fn allocate(&mut self, length: u64) -> Option<u64> {
        let (&offset, &room) = self.free.iter().find(|(_, room)| **room >= length)?;
        self.free.remove(&offset);
        if room > length {
            self.free.insert(offset + length, room - length);
        }
        self.used.insert(offset, Extent { length, users: 1 });
        Some(offset)
    }

    fn release(&mut self, offset: u64) -> Option<u64> {
        let length = self.used.remove(&offset)?.length;
        let mut start = offset;
        let mut total = length;
        if let Some((&before, &room)) = self.free.range(..offset).next_back()
            && before + room == offset
        {
            self.free.remove(&before);
            start = before;
            total += room;
        }
        if let Some(room) = self.free.remove(&(offset + length)) {
            total += room;
        }
        self.free.insert(start, total);
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extents_never_overlap_and_all_comes_back(
            script in proptest::collection::vec((any::<bool>(), 1u64..9, any::<usize>()), 1..200),
        ) {
            let mut extents = Extents::new(64 * PAGE);
            let mut held: Vec<(u64, u64)> = Vec::new();
            for (take, pages, pick) in script {
                if take || held.is_empty() {
                    if let Some(offset) = extents.allocate(pages * PAGE) {
                        let end = offset + pages * PAGE;
                        prop_assert!(end <= 64 * PAGE);
                        prop_assert!(held.iter().all(|(from, to)| *to <= offset || *from >= end));
                        held.push((offset, end));
                    }
                } else {
                    let (offset, end) = held.swap_remove(pick % held.len());
                    prop_assert_eq!(extents.release(offset), Some(end - offset));
                }
            }
            for (offset, _) in held {
                extents.release(offset);
            }
            prop_assert_eq!(extents.free, BTreeMap::from([(0, 64 * PAGE)]));
        }
    }
}

//! Access sections: a thread touches registered memory, of its own process or a peer, only inside a
//! section.
//!
//! A section is a mark in memory that the owner of the touched memory can see. To end a right
//! (deregister, invalidate, move a queue pair out of a receiving state), a thread first makes the
//! right invalid and then fences, that is, waits for the sections that were open before; to touch
//! memory, a thread first opens a section and then checks the right. The protocol of the mark
//! itself is in [`super::access`], which the model checker compiles.
//!
//! A [`Section`] is also a lifetime proof for the compiler: a resolved range of memory borrows from
//! the section that it was granted in, so no address outlives it. Inside a section a thread waits
//! only for a channel's producer lock, whose holders never fence.

use crate::ring::CELL;
use crate::sync::wait_a_little;
use crate::{access, tombstone};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use verbena_hca_os::mapping::Mapping;
use verbena_hca_os::thread_number;

/// The mark of one thread at a time: a counter that is odd inside a section, the key of the memory
/// that the section touches, and the words for an atomic on it ([`super::tombstone`]).
#[repr(C, align(64))]
pub struct Mark {
    counter: AtomicU64,
    key: AtomicU64,
    word: AtomicU64,
    tombstone: AtomicU64,
}

const _: () = assert!(size_of::<Mark>() == CELL);

/// Private marks of this process, for access to its own memory outside a channel.
#[derive(Default)]
pub struct OwnMarks([Mark; 8]);

impl Default for Mark {
    fn default() -> Mark {
        Mark {
            counter: AtomicU64::new(0),
            key: AtomicU64::new(0),
            word: AtomicU64::new(0),
            tombstone: AtomicU64::new(0),
        }
    }
}

impl OwnMarks {
    /// Opens a section. Only threads of this process take these marks, and they release them, so
    /// this ends.
    #[inline]
    pub fn enter(&self, key: u32) -> Section<'_> {
        loop {
            if let Some(section) = self.sections().enter(key) {
                return section;
            }
        }
    }

    /// Waits until every section that was open at the call has ended.
    pub fn wait(&self) {
        while !self.sections().wait_for_own() {}
    }

    #[inline]
    fn sections(&self) -> Sections<'_> {
        Sections { marks: &self.0 }
    }
}

/// A set of marks in which sections are opened.
#[derive(Clone, Copy)]
pub struct Sections<'a> {
    marks: &'a [Mark],
}

/// An open section. Dropping it ends it.
pub struct Section<'a> {
    mark: &'a Mark,
    entered: u64,
}

/// A section that was still open after `timeout`: its thread is stopped, or its process breaks the
/// protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stuck {
    /// Index of its mark.
    pub mark: usize,
    /// Value of the mark's counter while that section is open.
    pub entered: u64,
    /// Key of the memory that the section touches, as its process wrote it.
    pub key: u32,
}

/// Looks, with a rest after each, after which a thread concludes that other threads of its process
/// are not the ones that hold it up. Counted in rests and not in time, so that being stopped does
/// not lead to that conclusion.
const ATTEMPTS: u32 = 3000;

/// Lets other threads run, longer with each attempt: some seconds in all.
#[cold]
fn rest(attempt: u32) {
    match attempt {
        0..1000 => std::hint::spin_loop(),
        _ => std::thread::sleep(Duration::from_millis(1)),
    }
}

impl<'a> Sections<'a> {
    #[inline]
    pub(crate) fn in_mapping(mapping: &'a Mapping, offset: usize, count: usize) -> Sections<'a> {
        assert!(offset.is_multiple_of(CELL) && offset + count * CELL <= mapping.length());
        // SAFETY: in bounds and aligned (just checked; the base is page aligned); marks consist of
        // atomics only.
        let marks =
            unsafe { std::slice::from_raw_parts(mapping.base().add(offset).cast::<Mark>(), count) };
        Sections { marks }
    }

    /// Opens a section for memory of the given key. None when every mark stays taken for so long
    /// that threads of this process cannot be the cause: the peer may write to marks that it
    /// shares.
    #[inline(always)]
    pub fn enter(self, key: u32) -> Option<Section<'a>> {
        let first = thread_number::current() as usize;
        match self.try_enter(first, key) {
            None => self.enter_other(first, key),
            section => section,
        }
    }

    /// Opens a section by the mark at an index, unless it is taken.
    #[inline(always)]
    fn try_enter(self, index: usize, key: u32) -> Option<Section<'a>> {
        let mark = &self.marks[index % self.marks.len()];
        let entered = access::enter(&mark.counter)?;
        mark.key.store(key.into(), Ordering::Release);
        Some(Section { mark, entered })
    }

    #[cold]
    #[inline(never)]
    fn enter_other(self, first: usize, key: u32) -> Option<Section<'a>> {
        (1..ATTEMPTS).find_map(|attempt| {
            rest(attempt - 1);
            self.try_enter(first + attempt as usize, key)
        })
    }

    /// Waits until every section that was open at the call has ended. Returns those still open
    /// after `timeout`, or none if `is_over` says that their process has ended.
    pub fn wait(&self, timeout: Duration, is_over: impl Fn() -> bool) -> Vec<Stuck> {
        let mut deadline = None;
        let mut stuck = Vec::new();
        for (index, mark) in self.marks.iter().enumerate() {
            let Some(entered) = access::open_section(&mark.counter) else {
                continue;
            };
            let (mut spins, mut looks) = (0u32, 0);
            while access::open_section(&mark.counter) == Some(entered) {
                spins += 1;
                if spins < 1000 {
                    std::hint::spin_loop();
                    continue;
                }
                if is_over() {
                    return Vec::new();
                }
                let limit = *deadline.get_or_insert_with(|| Instant::now() + timeout);
                if Instant::now() > limit {
                    stuck.push(Stuck {
                        mark: index,
                        entered,
                        key: mark.key.load(Ordering::Acquire) as u32,
                    });
                    break;
                }
                wait_a_little(&mut looks);
            }
        }
        stuck
    }

    /// Waits until every section of this process that was open at the call has ended: its threads
    /// run whenever the caller does. Returns false when one does not end, which no thread of this
    /// process can cause.
    #[must_use]
    pub fn wait_for_own(&self) -> bool {
        self.marks.iter().all(|mark| {
            let Some(entered) = access::open_section(&mark.counter) else {
                return true;
            };
            (0..ATTEMPTS).any(|attempt| {
                rest(attempt);
                access::open_section(&mark.counter) != Some(entered)
            })
        })
    }

    /// Returns whether a section that was stuck is still open.
    pub fn is_open(&self, stuck: &Stuck) -> bool {
        self.marks
            .get(stuck.mark)
            .is_some_and(|mark| access::open_section(&mark.counter) == Some(stuck.entered))
    }
}

/// A word on which an atomic is in progress, by its mark.
pub struct WordUnderWay<'a> {
    mark: &'a Mark,
    /// Its offset in the arena, as the other process wrote it.
    pub offset: u64,
}

impl WordUnderWay<'_> {
    /// Announces the word's tombstone.
    pub fn write_nonce(&self, nonce: u64) {
        tombstone::write_nonce(&self.mark.tombstone, nonce);
    }
}

impl<'a> Sections<'a> {
    /// Returns the words on which atomics are in progress in open sections. The caller passes a
    /// fence after hiding their arena offsets and before this call.
    pub fn words_under_way(&self) -> impl Iterator<Item = WordUnderWay<'a>> + use<'a> {
        self.marks.iter().filter_map(|mark| {
            access::open_section(&mark.counter)?;
            let offset = tombstone::announced(&mark.word)?;
            Some(WordUnderWay { mark, offset })
        })
    }
}

impl Section<'_> {
    /// Announces an atomic on the word at this offset of the owner's arena. The caller must then
    /// check its right again, and call [`Section::withdraw`] when the atomic is done.
    #[inline]
    pub fn announce(&self, offset: u64) {
        tombstone::announce(&self.mark.word, &self.mark.tombstone, offset);
    }

    /// Returns whether an atomic that read `found` was done on a word that had been moved away.
    #[inline]
    pub fn was_void(&self, found: u64) -> bool {
        tombstone::was_void(&self.mark.tombstone, found)
    }

    /// Ends the announced atomic.
    #[inline]
    pub fn withdraw(&self) {
        tombstone::withdraw(&self.mark.word);
    }
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        access::leave(&self.mark.counter, self.entered);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_covers_open_sections_and_reports_stuck_ones() {
        let marks = OwnMarks::default();
        let sections = marks.sections();
        assert_eq!(sections.wait(Duration::ZERO, || false), []);
        let section = marks.enter(0x501);
        let stuck = sections.wait(Duration::from_millis(5), || false);
        assert_eq!(stuck.len(), 1);
        assert_eq!(stuck[0].key, 0x501);
        assert!(sections.is_open(&stuck[0]));
        assert_eq!(
            sections.wait(Duration::from_secs(60), || true),
            [],
            "no waiter for an ended process"
        );
        drop(section);
        assert!(!sections.is_open(&stuck[0]));
        assert_eq!(sections.wait(Duration::ZERO, || false), []);
    }

    #[test]
    fn later_section_is_not_waited_for() {
        let marks = OwnMarks::default();
        let sections = marks.sections();
        let first = marks.enter(1);
        let stuck = sections.wait(Duration::ZERO, || false);
        drop(first);
        let _second = marks.enter(1);
        assert!(!sections.is_open(&stuck[0]));
    }

    #[test]
    fn thread_may_be_in_several_sections() {
        let marks = OwnMarks::default();
        let sections = marks.sections();
        let first = marks.enter(1);
        let second = marks.enter(2);
        drop(first);
        assert_eq!(sections.wait(Duration::from_millis(5), || false).len(), 1);
        drop(second);
        assert_eq!(sections.wait(Duration::ZERO, || false), []);
    }

    #[test]
    fn wait_for_own_marks_times_out() {
        let marks = OwnMarks::default();
        let taken: Vec<Section<'_>> = (0..8).map(|_| marks.enter(1)).collect();
        assert!(marks.sections().enter(1).is_none());
        assert!(!marks.sections().wait_for_own());
        drop(taken);
        assert!(marks.sections().enter(1).is_some());
        assert!(marks.sections().wait_for_own());
    }
}

//! Random programs that register, deregister and change their memory, beside the same program
//! without registrations: contents are equal at every step, and once nothing is registered so is
//! the kernel's view.

use crate::adopt::adopt;
use crate::arena::{Arena, PAGE};
use crate::fork_mutex::ForkMutex;
use crate::pins::HoldId;
use crate::restore::depart;
use proptest::prelude::*;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use verbena_hca_os::userfault::{Rights, UserFault};

const PAGES: u64 = 24;
const LIMIT: usize = 3;

/// An arena with the process state that it needs.
struct Host {
    arena: Arena,
    registration: ForkMutex,
}

impl Host {
    fn new() -> Host {
        Host::with(UserFault::open().ok())
    }

    /// As for an ordinary user: the kernel's accesses to held pages fail instead of waiting.
    fn of_ordinary_user() -> Host {
        Host::with(UserFault::with_rights(Rights::UserModeOnly).ok())
    }

    fn with(fault: Option<UserFault>) -> Host {
        Host {
            arena: Arena::of_length(1 << 30).unwrap().with_userfault(fault),
            registration: ForkMutex::new(),
        }
    }

    /// Registers the range; None where it is not all mapped and writable.
    fn register(&self, start: u64, end: u64) -> Option<HoldId> {
        let _registration = self.registration.lock();
        let mappings = self.arena.maps().overlapping(start, end).unwrap();
        let mut at = start;
        for vma in &mappings {
            if vma.start > at || !vma.writable {
                return None;
            }
            at = vma.end;
        }
        (at >= end).then(|| adopt(&self.arena, &mappings, start, end, LIMIT))
    }

    fn deregister(&self, hold: HoldId) {
        let _registration = self.registration.lock();
        depart(&self.arena, hold, None);
    }
}

/// Private anonymous memory between two inaccessible pages.
struct Memory {
    base: u64,
}

impl Memory {
    fn new() -> Memory {
        // SAFETY: a fresh mapping.
        let outer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                ((PAGES + 2) * PAGE) as usize,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        assert_ne!(outer, libc::MAP_FAILED);
        let memory = Memory {
            base: outer as u64 + PAGE,
        };
        memory.map(0..PAGES);
        memory
    }

    fn at(&self, page: u64) -> u64 {
        self.base + page * PAGE
    }

    fn map(&self, pages: Range<u64>) {
        self.map_with(pages, libc::PROT_READ | libc::PROT_WRITE);
    }

    /// Makes pages inaccessible. Their addresses stay reserved, or the kernel might use them for
    /// other mappings.
    fn unmap(&self, pages: Range<u64>) {
        self.map_with(pages, libc::PROT_NONE);
    }

    fn map_with(&self, pages: Range<u64>, protection: libc::c_int) {
        // SAFETY: the range is inside this test's own memory.
        let answer = unsafe {
            libc::mmap(
                self.at(pages.start) as *mut _,
                ((pages.end - pages.start) * PAGE) as usize,
                protection,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        assert_ne!(answer, libc::MAP_FAILED);
    }

    fn advise(&self, pages: &Range<u64>, advice: libc::c_int) -> libc::c_int {
        // SAFETY: the range is inside this test's own memory.
        unsafe {
            libc::madvise(
                self.at(pages.start) as *mut _,
                ((pages.end - pages.start) * PAGE) as usize,
                advice,
            )
        }
    }

    fn protect(&self, pages: &Range<u64>, protection: libc::c_int) {
        // SAFETY: the range is inside this test's own memory.
        unsafe {
            libc::mprotect(
                self.at(pages.start) as *mut _,
                ((pages.end - pages.start) * PAGE) as usize,
                protection,
            )
        };
    }

    fn write(&self, page: u64, value: u64) {
        // SAFETY: the page is mapped and writable, as the script tracks.
        unsafe { ((self.at(page) + value % 500 * 8) as *mut u64).write_volatile(value) };
    }

    fn page(&self, page: u64) -> &[u8] {
        // SAFETY: the page is mapped and readable, as the script tracks.
        unsafe { std::slice::from_raw_parts(self.at(page) as *const u8, PAGE as usize) }
    }

    /// Has the kernel double the memory, then releases it. Returns None if that failed, else
    /// whether the new half is empty.
    fn grown(self) -> Option<bool> {
        let length = (PAGES * PAGE) as usize;
        // SAFETY: this test's own memory, moved as a whole; its old addresses are not used
        // afterwards.
        unsafe {
            let base = self.at(0) as *mut libc::c_void;
            let moved = libc::mremap(base, length, 2 * length, libc::MREMAP_MAYMOVE);
            if moved == libc::MAP_FAILED {
                return None;
            }
            libc::munmap((self.base - PAGE) as *mut _, PAGE as usize);
            libc::munmap(self.at(PAGES) as *mut _, PAGE as usize);
            std::mem::forget(self);
            let second = std::slice::from_raw_parts(moved.cast::<u8>().add(length), length);
            let empty = second.iter().all(|byte| *byte == 0);
            libc::munmap(moved, 2 * length);
            Some(empty)
        }
    }

    /// Returns the kernel's view: mappings as page ranges, their rights, whether they are shared,
    /// and their inode.
    fn layout(&self, host: &Host) -> Vec<(u64, u64, libc::c_int, bool, u64)> {
        let (start, end) = (self.at(0), self.at(PAGES));
        let mappings = host.arena.maps().overlapping(start, end).unwrap();
        let page = |address: u64| address.clamp(start, end).wrapping_sub(start) / PAGE;
        mappings
            .iter()
            .map(|vma| {
                (
                    page(vma.start),
                    page(vma.end),
                    vma.protection(),
                    vma.shared,
                    vma.inode,
                )
            })
            .collect()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: this test's own memory, in its last use.
        unsafe { libc::munmap((self.base - PAGE) as *mut _, ((PAGES + 2) * PAGE) as usize) };
    }
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64),
    Register(u64, u64),
    Deregister(usize),
    Unmap(Range<u64>),
    MapOver(Range<u64>),
    DontNeed(Range<u64>),
    Free(Range<u64>),
    ReadOnly(Range<u64>),
}

fn pages() -> impl Strategy<Value = Range<u64>> {
    (0..PAGES, 1u64..6).prop_map(|(first, count)| first..(first + count).min(PAGES))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..PAGES, 1u64..1 << 40).prop_map(|(page, value)| Step::Write(page, value)),
        6 => (0..PAGES * PAGE - 1, 1u64..8 * PAGE)
            .prop_map(|(at, length)| Step::Register(at, length)),
        5 => any::<usize>().prop_map(Step::Deregister),
        1 => pages().prop_map(Step::Unmap),
        1 => pages().prop_map(Step::MapOver),
        2 => pages().prop_map(Step::DontNeed),
        1 => pages().prop_map(Step::Free),
        1 => pages().prop_map(Step::ReadOnly),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn deregistered_memory_is_private_again(
        steps in proptest::collection::vec(step(), 1..60),
        ordinary in any::<bool>(),
    ) {
        // Without the right to a full userfault handle, `Host::new` gets an ordinary user's.
        let ordinary = ordinary || UserFault::with_rights(Rights::Full).is_err();
        let host = match ordinary {
            true => Host::of_ordinary_user(),
            false => Host::new(),
        };
        let (memory, twin) = (Memory::new(), Memory::new());
        let mut readable = [true; PAGES as usize];
        let mut writable = [true; PAGES as usize];
        let mut held: Vec<(HoldId, Range<u64>)> = Vec::new();
        // The kernel keeps a new mapping between registered pages apart, because of its different
        // history.
        let mut replaced = false;
        for step in steps {
            match step {
                Step::Write(page, value) => {
                    if writable[page as usize] {
                        memory.write(page, value);
                        twin.write(page, value);
                    }
                }
                Step::Register(at, length) => {
                    let end = (at + length).min(PAGES * PAGE);
                    let touched = at / PAGE..end.div_ceil(PAGE);
                    let all = touched.clone().all(|page| writable[page as usize]);
                    let hold = host.register(memory.at(0) + at, memory.at(0) + end);
                    prop_assert_eq!(hold.is_some(), all);
                    held.extend(hold.map(|hold| (hold, touched)));
                }
                Step::Deregister(pick) => {
                    if !held.is_empty() {
                        let (hold, _) = held.swap_remove(pick % held.len());
                        host.deregister(hold);
                    }
                }
                Step::Unmap(range) => {
                    memory.unmap(range.clone());
                    twin.unmap(range.clone());
                    for page in range {
                        readable[page as usize] = false;
                        writable[page as usize] = false;
                    }
                }
                Step::MapOver(range) => {
                    replaced = true;
                    memory.map(range.clone());
                    twin.map(range.clone());
                    for page in range {
                        readable[page as usize] = true;
                        writable[page as usize] = true;
                    }
                }
                // These differ while pages are registered, as the guide says.
                Step::DontNeed(range) => {
                    let registered = held.iter().any(|(_, other)| {
                        other.start < range.end && range.start < other.end
                    });
                    if !registered && range.clone().all(|page| readable[page as usize]) {
                        prop_assert_eq!(memory.advise(&range, libc::MADV_DONTNEED), 0);
                        twin.advise(&range, libc::MADV_DONTNEED);
                    }
                }
                Step::Free(range) => {
                    let registered = held.iter().any(|(_, other)| {
                        other.start < range.end && range.start < other.end
                    });
                    if !registered && range.clone().all(|page| readable[page as usize]) {
                        // MADV_FREE lets the kernel keep or drop the pages; a later write keeps
                        // them.
                        prop_assert_eq!(memory.advise(&range, libc::MADV_FREE), 0);
                        memory.advise(&range, libc::MADV_DONTNEED);
                        twin.advise(&range, libc::MADV_DONTNEED);
                    }
                }
                Step::ReadOnly(range) => {
                    if range.clone().all(|page| readable[page as usize]) {
                        memory.protect(&range, libc::PROT_READ);
                        twin.protect(&range, libc::PROT_READ);
                        for page in range {
                            writable[page as usize] = false;
                        }
                    }
                }
            }
            for page in (0..PAGES).filter(|page| readable[*page as usize]) {
                prop_assert!(memory.page(page) == twin.page(page), "page {page}");
            }
        }
        for (hold, _) in held {
            host.deregister(hold);
        }
        for page in (0..PAGES).filter(|page| readable[*page as usize]) {
            prop_assert!(memory.page(page) == twin.page(page), "page {page} at the end");
        }
        prop_assert_eq!(host.arena.used(), 0, "the arena is empty");
        let layout = memory.layout(&host);
        prop_assert!(layout.iter().all(|(_, _, _, shared, inode)| !shared && *inode == 0));
        let rights = |layout: &[(u64, u64, libc::c_int, bool, u64)]| -> Vec<libc::c_int> {
            (0..PAGES)
                .map(|page| {
                    let there = layout.iter()
                        .find(|(start, end, ..)| (*start..*end).contains(&page));
                    there.map_or(-1, |vma| vma.2)
                })
                .collect()
        };
        prop_assert_eq!(rights(&layout), rights(&twin.layout(&host)));
        // If the application changed none of its pages itself, they form one mapping again.
        if writable.iter().all(|writable| *writable) {
            let here = memory.grown();
            let there = twin.grown();
            // Pages copied without a shadow do not merge with the others either.
            prop_assert!(replaced || ordinary || here == there, "one mapping: {here:?}, {there:?}");
            prop_assert_ne!(here, Some(false), "another registration's pages");
        }
    }
}

#[test]
fn page_moves_lose_no_write_of_other_threads() {
    lose_no_write(&Host::new());
}

#[test]
fn page_moves_lose_no_write_for_an_unprivileged_user() {
    lose_no_write(&Host::of_ordinary_user());
}

/// Without a way to hold other threads nothing is moved, and nothing is lost.
#[test]
fn pages_stay_when_other_threads_cannot_be_held() {
    lose_no_write(&Host::with(None));
}

/// A thread of an ordinary user may wait for a futex in a page at any time: the kernel reads the
/// page for it.
#[test]
fn kernel_reads_moving_pages_of_an_unprivileged_user() {
    let host = Host::of_ordinary_user();
    let memory = Memory::new();
    let stop = Arc::new(AtomicBool::new(false));
    let reader = {
        let (stop, address) = (stop.clone(), memory.at(1));
        std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: the kernel compares the word, which is 0, and answers EAGAIN at once.
                let answer = unsafe {
                    libc::syscall(
                        libc::SYS_futex,
                        address,
                        libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                        1,
                        0,
                        0,
                        0,
                    )
                };
                let error = std::io::Error::last_os_error().raw_os_error();
                assert_eq!((answer, error), (-1, Some(libc::EAGAIN)));
            }
        })
    };
    for _ in 0..3000 {
        let hold = host.register(memory.at(0), memory.at(4)).unwrap();
        host.deregister(hold);
    }
    stop.store(true, Ordering::Relaxed);
    reader.join().unwrap();
}

fn lose_no_write(host: &Host) {
    let memory = Memory::new();
    let stop = Arc::new(AtomicBool::new(false));
    // All threads start together: a busy machine may start one late.
    let begin = Arc::new(Barrier::new(3));
    let writers: Vec<_> = (0..2u64)
        .map(|writer| {
            let (stop, begin, base) = (stop.clone(), begin.clone(), memory.at(0));
            std::thread::spawn(move || {
                begin.wait();
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    for page in 0..PAGES {
                        let word = (base + page * PAGE + writer * 64) as *const AtomicU64;
                        // SAFETY: mapped while the thread lives, and only accessed atomically.
                        let word = unsafe { &*word };
                        assert_eq!(word.load(Ordering::Relaxed), count, "a write is lost");
                        word.store(count + 1, Ordering::Relaxed);
                    }
                    count += 1;
                }
            })
        })
        .collect();
    begin.wait();
    for round in 0..2000u64 {
        let first = round % PAGES;
        let a = host.register(memory.at(0), memory.at(PAGES)).unwrap();
        let b = host
            .register(memory.at(first), memory.at(first + 1))
            .unwrap();
        host.deregister(a);
        host.deregister(b);
    }
    stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(host.arena.used(), 0);
    assert!(memory.layout(host).iter().all(|vma| !vma.3));
}

#[test]
fn unmapped_pages_are_forgotten() {
    let host = Host::new();
    // SAFETY: a fresh mapping, half of which is unmapped; only this test knows it.
    unsafe {
        let length = 4 * PAGE as usize;
        let base = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        let start = base as u64;
        let hold = host.register(start, start + 4 * PAGE).unwrap();
        assert_eq!(host.arena.used(), 4 * PAGE);
        libc::munmap((start + PAGE) as *mut _, 2 * PAGE as usize);
        host.deregister(hold);
        assert_eq!(host.arena.used(), 0);
        libc::munmap(base, PAGE as usize);
        libc::munmap((start + 3 * PAGE) as *mut _, PAGE as usize);
    }
}

#[test]
fn remapped_pages_are_restored_at_their_new_address() {
    let host = Host::new();
    let memory = Memory::new();
    for page in 0..PAGES {
        memory.write(page, page + 1);
    }
    let hold = host.register(memory.at(4), memory.at(8)).unwrap();
    // SAFETY: both ranges are inside this test's own memory.
    let moved = unsafe {
        libc::mremap(
            memory.at(4) as *mut libc::c_void,
            4 * PAGE as usize,
            4 * PAGE as usize,
            libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
            memory.at(12) as *mut libc::c_void,
        )
    };
    assert_eq!(moved as u64, memory.at(12));
    memory.unmap(4..8);
    host.deregister(hold);
    for page in 12..16 {
        let value = page - 8 + 1;
        let at = (value % 500 * 8) as usize;
        assert_eq!(memory.page(page)[at..at + 8], value.to_ne_bytes());
    }
    assert_eq!(memory.advise(&(12..16), libc::MADV_DONTNEED), 0);
    assert!(memory.page(13).iter().all(|byte| *byte == 0));
    assert_eq!(host.arena.used(), 0);
}

#[test]
fn quarantined_extent_is_free_after_release() {
    let host = Host::new();
    let memory = Memory::new();
    memory.write(0, 7);
    let hold = host.register(memory.at(0), memory.at(2)).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let release: crate::quarantine::Release = {
        let over = over.clone();
        Arc::new(move || over.load(Ordering::SeqCst))
    };
    {
        let _registration = host.registration.lock();
        depart(&host.arena, hold, Some(&release));
    }
    assert_eq!(
        memory.page(0)[7 * 8],
        7,
        "the memory itself is back at once"
    );
    assert!(memory.layout(&host).iter().all(|vma| !vma.3));
    assert_eq!(host.arena.quarantined(), 2 * PAGE);
    host.arena.sweep();
    assert_eq!(host.arena.used(), 2 * PAGE);
    over.store(true, Ordering::SeqCst);
    host.arena.sweep();
    assert_eq!((host.arena.used(), host.arena.quarantined()), (0, 0));
}

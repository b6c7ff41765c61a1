//! The memory between a requesting and a responding process: two rings and the requester's access slots.
//!
//! One channel serves one direction. The requester makes it, pushes requests, and reads answers; the responder does the
//! opposite. Answers have a ring of their own because consuming an answer never needs room to produce one: so no two
//! processes can wait for each other's room.

use crate::errno::Result;
use crate::shm::access;
use crate::shm::ring::{CELL, Store};
use crate::sys::mapping::{Mapping, Rights};
use crate::sys::memfd::Memfd;
use std::cell::Cell;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CONTROL: usize = 4096;
const REQUEST_CELLS: usize = 4096;
const ANSWER_CELLS: usize = 2048;
const REQUEST_HEAD: usize = 0;
const ANSWER_HEAD: usize = 64;
const SLOTS_AT: usize = 1024;
const SLOTS: usize = 8;
const LENGTH: usize = CONTROL + (REQUEST_CELLS + ANSWER_CELLS) * CELL;
/// Most payload of one record. Several fit in either ring at once.
pub const MAX_PAYLOAD: usize = 16 * 1024;

/// The shared memory of one channel.
#[derive(Debug)]
pub struct Channel {
    mapping: Mapping,
}

impl Channel {
    /// A new channel and the file to hand to the responder.
    pub fn create() -> Result<(Channel, Memfd)> {
        let memfd = Memfd::create(c"verbena-channel", LENGTH)?;
        Ok((
            Channel {
                mapping: Mapping::of(&memfd, Rights::ReadWrite)?,
            },
            memfd,
        ))
    }

    /// The channel that a requester handed over.
    pub fn of_peer(fd: OwnedFd) -> Result<Channel> {
        let memfd = Memfd::adopt(fd, LENGTH)?;
        Ok(Channel {
            mapping: Mapping::of(&memfd, Rights::ReadWrite)?,
        })
    }

    /// Address and length of the mapping.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.base() as usize, self.mapping.length())
    }

    /// The ring that carries requests.
    pub fn requests(&self) -> Requests<'_> {
        Requests(&self.mapping)
    }

    /// The ring that carries answers.
    pub fn answers(&self) -> Answers<'_> {
        Answers(&self.mapping)
    }

    /// The requester's marks of what it is touching in the responder's memory.
    pub fn slots(&self) -> AccessSlots<'_> {
        AccessSlots(&self.mapping)
    }
}

/// The request ring.
pub struct Requests<'a>(&'a Mapping);
/// The answer ring.
pub struct Answers<'a>(&'a Mapping);

// SAFETY: the constants above place REQUEST_CELLS whole cells, a power of two, inside the mapping.
unsafe impl Store for Requests<'_> {
    fn cells(&self) -> u64 {
        REQUEST_CELLS as u64
    }
    #[inline]
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    fn head(&self) -> &AtomicU64 {
        self.0.word64(REQUEST_HEAD)
    }
    #[inline]
    fn readable(&self, index: u64) -> *const u8 {
        self.writable(index)
    }
    #[inline]
    fn writable(&self, index: u64) -> *mut u8 {
        let index = index as usize & (REQUEST_CELLS - 1);
        // SAFETY: masked to the ring, which lies inside the mapping.
        unsafe { self.0.base().add(CONTROL + index * CELL) }
    }
}

// SAFETY: the constants above place ANSWER_CELLS whole cells, a power of two, inside the mapping.
unsafe impl Store for Answers<'_> {
    fn cells(&self) -> u64 {
        ANSWER_CELLS as u64
    }
    #[inline]
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    fn head(&self) -> &AtomicU64 {
        self.0.word64(ANSWER_HEAD)
    }
    #[inline]
    fn readable(&self, index: u64) -> *const u8 {
        self.writable(index)
    }
    #[inline]
    fn writable(&self, index: u64) -> *mut u8 {
        let index = index as usize & (ANSWER_CELLS - 1);
        // SAFETY: masked to the ring, which lies inside the mapping.
        unsafe { self.0.base().add(CONTROL + (REQUEST_CELLS + index) * CELL) }
    }
}

/// Marks of what threads of the requester are touching in the responder's memory by themselves; the law is in
/// [`super::access`].
pub struct AccessSlots<'a>(&'a Mapping);

/// An access section. It ends when dropped.
pub struct Access<'a> {
    slot: &'a AtomicU64,
    entered: u64,
}

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static THREAD: Cell<usize> =
        Cell::new(NEXT_THREAD.fetch_add(1, Ordering::Relaxed));
}

impl<'a> AccessSlots<'a> {
    fn slot(&self, index: usize) -> &'a AtomicU64 {
        self.0.word64(SLOTS_AT + (index % SLOTS) * CELL)
    }

    /// Requester: begins to touch the responder's memory.
    #[inline]
    pub fn enter(&self) -> Access<'a> {
        let mut index = THREAD.with(Cell::get);
        loop {
            let slot = self.slot(index);
            let idle = slot.load(Ordering::Relaxed) & !1;
            let entered = idle | 1;
            if slot
                .compare_exchange(idle, entered, Ordering::SeqCst, Ordering::Relaxed)
                .is_ok()
            {
                return Access { slot, entered };
            }
            index += 1;
            std::hint::spin_loop();
        }
    }

    /// Responder: waits until every section that was open when this was called has ended. False when one was still
    /// open after `patience`, which means that the requester is stopped or lies.
    pub fn wait_idle(&self, patience: Duration, requester_is_dead: impl Fn() -> bool) -> bool {
        let mut deadline = None;
        for index in 0..SLOTS {
            let slot = self.slot(index);
            let Some(seen) = access::open_section(slot) else {
                continue;
            };
            let mut spins = 0u32;
            while access::open_section(slot) == Some(seen) {
                spins += 1;
                if spins < 1000 {
                    std::hint::spin_loop();
                    continue;
                }
                if requester_is_dead() {
                    return true;
                }
                let limit = *deadline.get_or_insert_with(|| Instant::now() + patience);
                if Instant::now() > limit {
                    return false;
                }
                std::thread::yield_now();
            }
        }
        true
    }
}

impl Drop for Access<'_> {
    #[inline]
    fn drop(&mut self) {
        self.slot
            .store(self.entered.wrapping_add(1), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_section_is_waited_for_and_a_stuck_one_reported() {
        let (channel, _file) = Channel::create().unwrap();
        let slots = channel.slots();
        assert!(slots.wait_idle(Duration::ZERO, || false));
        let access = slots.enter();
        assert!(!slots.wait_idle(Duration::from_millis(5), || false));
        assert!(
            slots.wait_idle(Duration::from_secs(60), || true),
            "a dead requester is idle"
        );
        drop(access);
        assert!(slots.wait_idle(Duration::ZERO, || false));
    }

    #[test]
    fn one_thread_may_be_in_several_sections() {
        let (channel, _file) = Channel::create().unwrap();
        let first = channel.slots().enter();
        let second = channel.slots().enter();
        drop(first);
        assert!(
            !channel
                .slots()
                .wait_idle(Duration::from_millis(5), || false)
        );
        drop(second);
        assert!(channel.slots().wait_idle(Duration::ZERO, || false));
    }
}

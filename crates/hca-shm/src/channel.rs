//! The shared memory between a requesting and a responding process: two rings, the marks of access
//! sections, and lanes for short messages.
//!
//! One channel serves one direction. The requester creates it, pushes requests, and reads answers;
//! the responder does the opposite. Answers have their own ring because consuming an answer
//! never needs space to produce one: so no two processes can wait for each other's space.

use crate::lane;
use crate::ring::{CELL, Store};
use crate::section::Sections;
use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use verbena_hca_os::errno::Result;
use verbena_hca_os::held::Held;
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;

const CONTROL: usize = 4096;
/// Cells of the request ring, and so its largest number of records.
pub const REQUEST_CELLS: usize = 4096;
const ANSWER_CELLS: usize = 2048;
const REQUEST_HEAD: usize = 0;
const ANSWER_HEAD: usize = 64;
const REQUESTER_SECTIONS_AT: usize = 1024;
const REQUESTER_SECTIONS: usize = 8;
const RESPONDER_SECTIONS_AT: usize = REQUESTER_SECTIONS_AT + REQUESTER_SECTIONS * CELL;
/// As many as for the requester: threads that serve lanes of their own each have a mark.
const RESPONDER_SECTIONS: usize = 8;
const _: () = assert!(RESPONDER_SECTIONS_AT + RESPONDER_SECTIONS * CELL <= CONTROL);
const LANE_HEADS_AT: usize = CONTROL + (REQUEST_CELLS + ANSWER_CELLS) * CELL;
/// Lanes of a channel: pages that no lane has used take no memory.
pub const LANES: u32 = 256;
const LANES_AT: usize = LANE_HEADS_AT + LANES as usize * CELL;
const LANE: usize = lane::SLOTS as usize * lane::SLOT;
const _: () = assert!(LANES_AT.is_multiple_of(4096) && LANE == 4096);
const LENGTH: usize = LANES_AT + LANES as usize * LANE;
/// Largest payload of one record in bytes. Several fit in either ring at once.
pub const MAX_PAYLOAD: usize = 16 * 1024;

/// The shared memory of one channel.
#[derive(Debug)]
pub struct Channel {
    mapping: Mapping,
}

impl Channel {
    /// Creates a channel and the file to hand to the responder.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> Result<(Channel, Memfd)> {
        let memfd = Memfd::create(c"verbena-channel", LENGTH)?;
        Ok((
            Channel {
                mapping: Mapping::of(&memfd, MappingRights::ReadWrite)?,
            },
            memfd,
        ))
    }

    /// Maps the channel that a requester handed over.
    ///
    /// # Errors
    /// EPROTO when the file is not sealed or has another length; the system's.
    pub fn of_peer(fd: OwnedFd) -> Result<Channel> {
        let memfd = Memfd::adopt(fd, LENGTH)?;
        Ok(Channel {
            mapping: Mapping::of(&memfd, MappingRights::ReadWrite)?,
        })
    }

    /// Returns address and length of the mapping.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.base() as usize, self.mapping.length())
    }

    /// Returns the ring that carries requests.
    #[inline]
    pub fn requests(&self) -> Requests<'_> {
        Requests(&self.mapping)
    }

    /// Returns the ring that carries answers.
    #[inline]
    pub fn answers(&self) -> Answers<'_> {
        Answers(&self.mapping)
    }

    /// Returns a lane for short messages; `number` is below [`LANES`].
    #[inline]
    pub fn lane(&self, number: u32) -> Lane<'_> {
        Lane {
            head: self.lane_head(number),
            slots: self.lane_slots(number),
        }
    }

    /// Returns the consumer's position in a lane.
    #[inline]
    pub fn lane_head(&self, number: u32) -> &AtomicU32 {
        let number = number as usize & (LANES as usize - 1);
        // SAFETY: the number is masked, and the constants above place so many heads inside the
        // mapping; a head is aligned and only accessed atomically.
        unsafe {
            &*self
                .mapping
                .base()
                .add(LANE_HEADS_AT + number * CELL)
                .cast()
        }
    }

    /// Returns the slots of a lane.
    #[inline]
    pub fn lane_slots(&self, number: u32) -> &LaneSlots {
        let number = number as usize & (LANES as usize - 1);
        // SAFETY: the number is masked, and the constants above place so many lanes inside the
        // mapping, on whole pages.
        unsafe { &*self.mapping.base().add(LANES_AT + number * LANE).cast() }
    }

    /// Returns the marks of the requester, for access to the responder's memory and, on behalf of
    /// this channel, to its own.
    #[inline]
    pub fn requester_sections(&self) -> Sections<'_> {
        Sections::in_mapping(&self.mapping, REQUESTER_SECTIONS_AT, REQUESTER_SECTIONS)
    }

    /// Returns the marks of the responder, for access to the requester's memory and, on behalf of
    /// this channel, to its own.
    #[inline]
    pub fn responder_sections(&self) -> Sections<'_> {
        Sections::in_mapping(&self.mapping, RESPONDER_SECTIONS_AT, RESPONDER_SECTIONS)
    }
}

/// The request ring.
pub struct Requests<'a>(&'a Mapping);
/// The answer ring.
pub struct Answers<'a>(&'a Mapping);

// SAFETY: the constants above place REQUEST_CELLS whole cells, a power of two, inside the mapping.
unsafe impl Store for Requests<'_> {
    #[inline]
    fn cells(&self) -> u64 {
        REQUEST_CELLS as u64
    }
    #[inline]
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    #[inline]
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
    #[inline]
    fn cells(&self) -> u64 {
        ANSWER_CELLS as u64
    }
    #[inline]
    fn stamp(&self, index: u64) -> &AtomicU32 {
        // SAFETY: a cell's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    #[inline]
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

/// The slots of a lane, which both processes write.
#[repr(C)]
pub struct LaneSlots([LaneSlot; lane::SLOTS as usize]);

#[repr(C, align(64))]
struct LaneSlot {
    stamp: AtomicU32,
    rest: UnsafeCell<[u8; lane::SLOT - size_of::<AtomicU32>()]>,
}

const _: () = assert!(size_of::<LaneSlots>() == LANE);

impl LaneSlots {
    #[inline]
    fn at(&self, index: u32) -> &LaneSlot {
        &self.0[(index & (lane::SLOTS - 1)) as usize]
    }
}

// SAFETY: behind the stamp, only raw pointers reach the bytes, by the rules of `lane`.
unsafe impl Sync for LaneSlots {}

/// A lane that keeps the owner of its channel alive.
pub struct HeldLane<O> {
    head: Held<AtomicU32, O>,
    slots: Held<LaneSlots, O>,
}

impl<O> Clone for HeldLane<O> {
    fn clone(&self) -> HeldLane<O> {
        HeldLane {
            head: self.head.clone(),
            slots: self.slots.clone(),
        }
    }
}

impl<O> HeldLane<O> {
    /// Returns a lane of the channel of `owner`.
    pub fn new(
        owner: &Arc<O>,
        channel: impl for<'a> Fn(&'a O) -> &'a Channel,
        number: u32,
    ) -> HeldLane<O> {
        HeldLane {
            head: Held::new(owner, |owner| channel(owner).lane_head(number)),
            slots: Held::new(owner, |owner| channel(owner).lane_slots(number)),
        }
    }

    /// Returns the lane.
    #[inline]
    pub fn lane(&self) -> Lane<'_> {
        Lane {
            head: &self.head,
            slots: &self.slots,
        }
    }
}

/// A lane for short messages.
#[derive(Clone, Copy)]
pub struct Lane<'a> {
    /// The consumer's position.
    pub head: &'a AtomicU32,
    /// Its slots.
    pub slots: &'a LaneSlots,
}

// SAFETY: there are SLOTS slots, a power of two, and the accessors return addresses inside one.
unsafe impl lane::Store for Lane<'_> {
    #[inline]
    fn slots(&self) -> u32 {
        lane::SLOTS
    }
    #[inline]
    fn stamp(&self, index: u32) -> &AtomicU32 {
        &self.slots.at(index).stamp
    }
    #[inline]
    fn head(&self) -> &AtomicU32 {
        self.head
    }
    #[inline]
    fn readable(&self, index: u32) -> *const u8 {
        self.writable(index)
    }
    #[inline]
    fn writable(&self, index: u32) -> *mut u8 {
        std::ptr::from_ref(self.slots.at(index)).cast_mut().cast()
    }
}

//! The shared memory between a requesting and a responding process: two rings, the marks of access
//! sections, and lanes for short messages.
//!
//! One channel serves one direction. The requester creates it, pushes requests, and reads answers;
//! the responder does the opposite. Answers have their own ring because consuming an answer
//! never needs space to produce one: so no two processes can wait for each other's space.

use crate::lane;
use crate::ring::{CELL, Store};
use crate::section::Sections;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, AtomicU64};
use verbena_hca_os::errno::Result;
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
            mapping: &self.mapping,
            number: number as usize & (LANES as usize - 1),
        }
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

/// A lane for short messages.
pub struct Lane<'a> {
    mapping: &'a Mapping,
    number: usize,
}

// SAFETY: the constants above place LANES lanes of SLOTS slots each, a power of two, and the words
// for their heads inside the mapping; the number of the lane is masked.
unsafe impl lane::Store for Lane<'_> {
    #[inline]
    fn slots(&self) -> u32 {
        lane::SLOTS
    }
    #[inline]
    fn stamp(&self, index: u32) -> &AtomicU32 {
        // SAFETY: a slot's first word is aligned and only accessed atomically.
        unsafe { &*self.writable(index).cast::<AtomicU32>() }
    }
    #[inline]
    fn head(&self) -> &AtomicU32 {
        // SAFETY: inside the mapping, aligned, and only accessed atomically.
        unsafe {
            let at = LANE_HEADS_AT + self.number * CELL;
            &*self.mapping.base().add(at).cast::<AtomicU32>()
        }
    }
    #[inline]
    fn readable(&self, index: u32) -> *const u8 {
        self.writable(index)
    }
    #[inline]
    fn writable(&self, index: u32) -> *mut u8 {
        let index = (index & (lane::SLOTS - 1)) as usize;
        let at = LANES_AT + self.number * LANE + index * lane::SLOT;
        // SAFETY: masked to the lane, which lies inside the mapping.
        unsafe { self.mapping.base().add(at) }
    }
}

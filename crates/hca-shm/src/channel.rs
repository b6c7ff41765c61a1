//! The shared memory between a requesting and a responding process: two rings, and the marks of
//! access sections.
//!
//! One channel serves one direction. The requester creates it, pushes requests, and reads answers;
//! the responder does the opposite. Answers have their own ring because consuming an answer
//! never needs space to produce one: so no two processes can wait for each other's space.

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
const RESPONDER_SECTIONS: usize = 2;
const _: () = assert!(RESPONDER_SECTIONS_AT + RESPONDER_SECTIONS * CELL <= CONTROL);
const LENGTH: usize = CONTROL + (REQUEST_CELLS + ANSWER_CELLS) * CELL;
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
    pub fn requests(&self) -> Requests<'_> {
        Requests(&self.mapping)
    }

    /// Returns the ring that carries answers.
    pub fn answers(&self) -> Answers<'_> {
        Answers(&self.mapping)
    }

    /// Returns the marks of the requester, for access to the responder's memory and, on behalf of
    /// this channel, to its own.
    pub fn requester_sections(&self) -> Sections<'_> {
        Sections::in_mapping(&self.mapping, REQUESTER_SECTIONS_AT, REQUESTER_SECTIONS)
    }

    /// Returns the marks of the responder, for access to the requester's memory and, on behalf of
    /// this channel, to its own.
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

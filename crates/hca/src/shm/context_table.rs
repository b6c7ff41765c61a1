//! What a process tells its peers about its queue pairs and memory keys: written by it alone, mapped read-only by them.
//!
//! Queue pair records are indexed by queue pair number, key records by the upper part of the key. The file is sparse,
//! so only what is used takes memory.
//!
//! The law: a record is filled in before its first word (`state`, `key`) is stored with SeqCst, and that word is zeroed
//! before anything else of it changes. A peer that acts on a record does so inside a [`super::section::Section`] that it
//! entered before it loaded the first word; whoever zeroes the word fences, which waits for these sections to end. A peer
//! that was stopped inside one is not waited for: so it looks at `incarnation` or `generation` once more when it is done.

use crate::errno::{Errno, Result};
use crate::sys::mapping::{Mapping, Rights};
use crate::sys::memfd::Memfd;
use crate::sys::robust;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"verbctxt");
const QUEUE_PAIRS: usize = 1 << 24;
/// Keys that one process can have: index 0 is none.
pub const KEYS: usize = 1 << 20;
const HEADER: usize = 4096;
const KEYS_AT: usize = HEADER + QUEUE_PAIRS * size_of::<QpRecord>();
/// Length of the file.
pub const LENGTH: usize = KEYS_AT + KEYS * size_of::<KeyRecord>();
/// Pieces of a region that may lie in different places of the arena.
pub const SEGMENTS: usize = 3;

#[repr(C, align(64))]
struct Front {
    magic: AtomicU64,
    /// Held by the progress thread, so that the kernel says when the process is ending.
    held: AtomicU32,
    _reserved: [u32; 13],
    /// Odd while the progress thread sleeps and wants to be rung for. In a line of its own, for it changes often.
    armed: AtomicU64,
}

/// A queue pair as peers see it.
#[repr(C, align(64))]
pub struct QpRecord {
    /// 0: not there. Else [`QpRecord::PRESENT`] | type << 8 | state, and [`QpRecord::CUT`] while
    /// its port is down.
    pub state: AtomicU32,
    /// Queue pair number that it is connected to.
    pub destination: AtomicU32,
    /// Its protection domain.
    pub pd: AtomicU32,
    /// Remote access that it allows (IBV_ACCESS_*).
    pub access: AtomicU32,
    /// PSN that it expected first.
    pub receive_psn: AtomicU32,
    /// Which of its lives this is: another after each reset, so that nothing of an old connection is taken for one of
    /// the new.
    pub incarnation: AtomicU32,
    /// Identity of its XRC domain, 0 for none.
    pub xrcd: AtomicU64,
    /// RDMA reads and atomics that it takes at once (max_dest_rd_atomic).
    pub rd_atomic: AtomicU32,
    /// The interfaces at both ends of its connection, an [`Interfaces`].
    pub interfaces: AtomicU64,
}

/// The interfaces at the two ends of a connection, as one end sees it, by the kernel's numbers; 0 where there are none. Both
/// ends must name the same two, as packets would have to come to the right ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// The one whose port the queue pair has.
    pub own: u32,
    /// The one that the queue pair sends to.
    pub peer: u32,
}

impl Interfaces {
    /// As a record has it.
    #[inline]
    pub fn as_word(self) -> u64 {
        u64::from(self.own) | u64::from(self.peer) << 32
    }

    /// The same, seen from the other end.
    #[inline]
    pub fn turned(self) -> Interfaces {
        Interfaces {
            own: self.peer,
            peer: self.own,
        }
    }
}

impl QpRecord {
    /// Set in `state` of every record that is in use.
    pub const PRESENT: u32 = 1 << 31;
    /// Set in `state` while the port is down: nothing reaches the queue pair.
    pub const CUT: u32 = 1 << 30;
    /// The state of a record that is no queue pair but an XRC shared receive queue; then only `pd` and `xrcd` hold.
    pub const XRC_SRQ: u32 = Self::PRESENT | 0xff00;

    /// The protection domain of the XRC shared receive queue that this record is, if it is one of the XRC domain.
    pub fn domain_of_srq(&self, xrcd: u64) -> Option<u32> {
        let is_srq = self.state.load(Ordering::SeqCst) == Self::XRC_SRQ;
        let matches = is_srq && xrcd != 0 && self.xrcd.load(Ordering::Relaxed) == xrcd;
        matches.then(|| self.pd.load(Ordering::Relaxed))
    }
}

/// A piece of a region that lies in the arena.
#[repr(C)]
pub struct SegmentRecord {
    /// First virtual address in the owner.
    pub start: AtomicU64,
    /// One past the last.
    pub end: AtomicU64,
    /// Where `start` lies in the arena.
    pub offset: AtomicU64,
}

/// A memory region or window as peers see it.
#[repr(C, align(128))]
pub struct KeyRecord {
    /// The key while it is valid, else 0.
    pub key: AtomicU32,
    /// Protection domain.
    pub pd: AtomicU32,
    /// What is allowed (IBV_ACCESS_*).
    pub access: AtomicU32,
    /// The only queue pair that may use it (type 2 windows), or 0.
    pub queue_pair: AtomicU32,
    /// First address by which it is named.
    pub iova: AtomicU64,
    /// Bytes.
    pub length: AtomicU64,
    /// Virtual address in the owner of the byte named by `iova`.
    pub address: AtomicU64,
    /// Pieces in the arena, in order of address; unused ones are empty.
    pub segments: [SegmentRecord; SEGMENTS],
    /// Changes whenever the key becomes valid or invalid, or its pages move: who finds it changed after a copy may have
    /// copied to or from pages that were no longer the key's.
    pub generation: AtomicU32,
}

const _: () = assert!(size_of::<QpRecord>() == 64 && size_of::<KeyRecord>() == 128);

/// A context table, our own or a peer's.
#[derive(Debug)]
pub struct ContextTable {
    mapping: Mapping,
}

impl ContextTable {
    /// A new, empty context table of our own, and the file to hand to peers.
    pub fn create() -> Result<(ContextTable, Memfd)> {
        let memfd = Memfd::create(c"verbena-contexts", LENGTH)?;
        let contexts = ContextTable {
            mapping: Mapping::of(&memfd, Rights::ReadWrite)?,
        };
        memfd.seal_future_writes()?;
        contexts.front().magic.store(MAGIC, Ordering::Release);
        Ok((contexts, memfd))
    }

    /// The context table that a peer handed over.
    pub fn of_peer(fd: OwnedFd) -> Result<ContextTable> {
        let contexts = ContextTable {
            mapping: Mapping::of(&Memfd::adopt(fd, LENGTH)?, Rights::Read)?,
        };
        if contexts.front().magic.load(Ordering::Acquire) != MAGIC {
            return Err(Errno::EPROTO);
        }
        Ok(contexts)
    }

    /// Address and length of the mapping.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.base() as usize, self.mapping.length())
    }

    /// Whether the owner's progress thread wants to be rung for: the word that [`super::sleep`] is about.
    #[inline]
    pub fn armed(&self) -> &AtomicU64 {
        &self.front().armed
    }

    /// The calling thread, the progress thread of the owner, tells by its end that the process ends.
    pub fn hold(self: &Arc<ContextTable>) {
        // SAFETY: the reference is never given back, so the context table is there as long as the process.
        let contexts: &'static ContextTable = unsafe { &*Arc::into_raw(self.clone()) };
        robust::hold(&contexts.front().held);
    }

    /// Whether the owner's progress thread has ended, and with it the process: other threads of it may not have, yet.
    #[inline]
    pub fn was_left(&self) -> bool {
        robust::was_left(self.front().held.load(Ordering::Acquire))
    }

    /// The record of a queue pair number (its lower 24 bits).
    #[inline]
    pub fn queue_pair(&self, number: u32) -> &QpRecord {
        let index = number as usize & (QUEUE_PAIRS - 1);
        // SAFETY: masked to the table, which the mapping contains; aligned because the table starts on a page; the
        // record consists of atomics only.
        unsafe {
            &*self
                .mapping
                .base()
                .add(HEADER)
                .cast::<QpRecord>()
                .add(index)
        }
    }

    /// The record of a key: its index is bits 8 to 27.
    #[inline]
    pub fn key(&self, key: u32) -> &KeyRecord {
        let index = (key >> 8) as usize & (KEYS - 1);
        // SAFETY: as above.
        unsafe {
            &*self
                .mapping
                .base()
                .add(KEYS_AT)
                .cast::<KeyRecord>()
                .add(index)
        }
    }

    fn front(&self) -> &Front {
        // SAFETY: the file starts with a Front (page aligned, atomics only, inside the mapping).
        unsafe { &*self.mapping.base().cast::<Front>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_peer_sees_records_and_cannot_map_them_writable() {
        let (own, memfd) = ContextTable::create().unwrap();
        own.queue_pair(0x123456)
            .state
            .store(QpRecord::PRESENT | 3, Ordering::SeqCst);
        own.key(0x500).length.store(99, Ordering::SeqCst);
        let fd = memfd.as_fd().try_clone_to_owned().unwrap();
        assert!(Mapping::of(&memfd, Rights::ReadWrite).is_err());
        let seen = ContextTable::of_peer(fd).unwrap();
        assert_eq!(
            seen.queue_pair(0x123456).state.load(Ordering::SeqCst),
            QpRecord::PRESENT | 3
        );
        assert_eq!(seen.key(0x5ff).length.load(Ordering::SeqCst), 99);
    }

    #[test]
    fn a_file_that_is_no_context_table_is_refused() {
        let short = Memfd::create(c"x", 4096).unwrap();
        let fd = short.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(ContextTable::of_peer(fd).unwrap_err(), Errno::EPROTO);
        let empty = Memfd::create(c"x", LENGTH).unwrap();
        let fd = empty.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(ContextTable::of_peer(fd).unwrap_err(), Errno::EPROTO);
    }
}

//! The context table: records of a process's queue pairs and memory keys, written by that process
//! alone and mapped read-only by its peers.
//!
//! Queue pair records are indexed by queue pair number, key records by the upper part of the key.
//! The file is sparse, so unused records take no memory.
//!
//! A record is filled in before its first word (`state`, `key`) is stored with SeqCst, and that
//! word is zeroed before any other word of it changes. A peer that acts on a record does so inside
//! a [`super::section::Section`] that it entered before it loaded the first word; a thread that
//! zeroes the word then fences, which waits for these sections to end. A peer that was stopped
//! inside one is not waited for, so it checks `incarnation` or `generation` once more when it is
//! done.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::held::Held;
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;
use verbena_hca_os::robust;

const MAGIC: u64 = u64::from_le_bytes(*b"verbctxt");
const QUEUE_PAIRS: usize = 1 << 24;
/// Largest number of keys of a process; index 0 is never used.
pub const KEYS: usize = 1 << 20;
const HEADER: usize = 4096;
const KEYS_AT: usize = HEADER + QUEUE_PAIRS * size_of::<QpRecord>();
/// Length of the file in bytes.
pub const LENGTH: usize = KEYS_AT + KEYS * size_of::<KeyRecord>();
/// Largest number of pieces of a region at different offsets in the arena.
pub const SEGMENTS: usize = 3;

#[repr(C, align(64))]
struct Front {
    magic: AtomicU64,
    /// Held by the progress thread, so that the kernel reports when the process is ending.
    held: AtomicU32,
    _reserved: [u32; 13],
    /// Odd while the progress thread sleeps and wants doorbell rings. In its own cache line,
    /// because it changes often.
    armed: AtomicU64,
}

/// A queue pair as peers see it.
#[repr(C, align(64))]
pub struct QpRecord {
    /// 0 if there is none. Otherwise [`QpRecord::PRESENT`] | type << 8 | state, and
    /// [`QpRecord::CUT`] while its port is down, or the fabric loses its packets.
    pub state: AtomicU32,
    /// Queue pair number that it is connected to.
    pub destination: AtomicU32,
    /// Its protection domain.
    pub pd: AtomicU32,
    /// Remote access that it allows (IBV_ACCESS_*).
    pub access: AtomicU32,
    /// The first PSN that it expected.
    pub receive_psn: AtomicU32,
    /// Its incarnation: changes with each reset, so that messages of an old connection are not
    /// taken for ones of the new.
    pub incarnation: AtomicU32,
    /// Identity of its XRC domain, 0 for none.
    pub xrcd: AtomicU64,
    /// RDMA reads and atomics that it accepts at once (max_dest_rd_atomic).
    pub rd_atomic: AtomicU32,
    /// The timer code of its RNR NAKs (min_rnr_timer).
    pub rnr_timer: AtomicU32,
    /// The interfaces at both ends of its connection, an [`Interfaces`].
    pub interfaces: AtomicU64,
    /// Changes after every change of another word ([`super::lane`]).
    pub gate: AtomicU32,
    /// Its partition key.
    pub p_key: AtomicU32,
}

/// The interfaces at the two ends of a connection, as one end sees it, by the kernel's numbers; 0
/// for none. Both ends must name the same two, because packets would have to arrive at the right
/// ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interfaces {
    /// The interface of the queue pair's port.
    pub own: u32,
    /// The interface that the queue pair sends to.
    pub peer: u32,
}

impl Interfaces {
    /// Returns the word of a record.
    #[inline]
    pub fn as_word(self) -> u64 {
        u64::from(self.own) | u64::from(self.peer) << 32
    }

    /// Returns the same as the peer sees it.
    #[inline]
    pub fn turned(self) -> Interfaces {
        Interfaces {
            own: self.peer,
            peer: self.own,
        }
    }
}

impl QpRecord {
    /// Set in `state` of every record in use.
    pub const PRESENT: u32 = 1 << 31;
    /// Set in `state` while nothing reaches the queue pair, or its answers reach nothing.
    pub const CUT: u32 = 1 << 30;
    /// Changes the gate, after the other words: peers that compare it check these anew. Called by
    /// the record's process, under the send queue's lock.
    #[inline]
    pub fn change_gate(&self) {
        // SYNC POINT gate.
        let next = self.gate.load(Ordering::Relaxed).wrapping_add(1);
        self.gate.store(next, Ordering::SeqCst);
    }

    /// The state of a record of an XRC shared receive queue; then only `pd` and `xrcd` are valid.
    pub const XRC_SRQ: u32 = Self::PRESENT | 0xff00;

    /// Returns the protection domain of this record's XRC shared receive queue, if it is one of the
    /// XRC domain.
    #[inline]
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
    /// Offset of `start` in the arena.
    pub offset: AtomicU64,
}

/// A memory region or window as peers see it.
#[repr(C, align(128))]
pub struct KeyRecord {
    /// The key while it is valid, else 0.
    pub key: AtomicU32,
    /// Protection domain.
    pub pd: AtomicU32,
    /// Permitted access (IBV_ACCESS_*).
    pub access: AtomicU32,
    /// The only queue pair that may use it (type 2 windows), or 0.
    pub queue_pair: AtomicU32,
    /// First address that names the memory in requests.
    pub iova: AtomicU64,
    /// Length in bytes.
    pub length: AtomicU64,
    /// Virtual address in the owner of the byte named by `iova`.
    pub address: AtomicU64,
    /// Pieces in the arena, in order of address; unused ones are empty.
    pub segments: [SegmentRecord; SEGMENTS],
    /// Changes whenever the key becomes valid or invalid, or its pages move: a peer that finds it
    /// changed after a copy may have copied to or from pages that were no longer the key's.
    pub generation: AtomicU32,
}

const _: () = assert!(size_of::<QpRecord>() == 64 && size_of::<KeyRecord>() == 128);

/// A context table of this process or of a peer.
#[derive(Debug)]
pub struct ContextTable {
    mapping: Mapping,
}

impl ContextTable {
    /// Creates an empty context table for this process, and the file to hand to peers.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> Result<(ContextTable, Memfd)> {
        let memfd = Memfd::create(c"verbena-contexts", LENGTH)?;
        let contexts = ContextTable {
            mapping: Mapping::of(&memfd, MappingRights::ReadWrite)?,
        };
        memfd.seal_future_writes()?;
        contexts.front().magic.store(MAGIC, Ordering::Release);
        Ok((contexts, memfd))
    }

    /// Maps the context table that a peer handed over.
    ///
    /// # Errors
    /// EPROTO when the file is not a context table; the system's.
    pub fn of_peer(fd: OwnedFd) -> Result<ContextTable> {
        let contexts = ContextTable {
            mapping: Mapping::of(&Memfd::adopt(fd, LENGTH)?, MappingRights::Read)?,
        };
        if contexts.front().magic.load(Ordering::Acquire) != MAGIC {
            return Err(Errno::EPROTO);
        }
        Ok(contexts)
    }

    /// Returns address and length of the mapping.
    pub fn range(&self) -> (usize, usize) {
        (self.mapping.base() as usize, self.mapping.length())
    }

    /// Returns the word by which the owner's progress thread asks for doorbell rings
    /// ([`super::sleep`]).
    #[inline]
    pub fn armed(&self) -> &AtomicU64 {
        &self.front().armed
    }

    /// Makes the end of the calling thread, the owner's progress thread, the sign that the process
    /// ends.
    pub fn hold(self: &Arc<ContextTable>) {
        // SAFETY: the reference is never dropped, so the context table lives as long as the
        // process.
        let contexts: &'static ContextTable = unsafe { &*Arc::into_raw(self.clone()) };
        robust::hold(&contexts.front().held);
    }

    /// Returns whether the owner's progress thread has ended, and with it the process; its other
    /// threads may still run.
    #[inline]
    pub fn was_left(&self) -> bool {
        robust::was_left(self.front().held.load(Ordering::Acquire))
    }

    /// Returns the record of a queue pair number (its lower 24 bits).
    #[inline]
    pub fn queue_pair(&self, number: u32) -> &QpRecord {
        let index = number as usize & (QUEUE_PAIRS - 1);
        // SAFETY: masked to the table, which the mapping contains; aligned because the table starts
        // on a page; the record consists of atomics only.
        unsafe {
            &*self
                .mapping
                .base()
                .add(HEADER)
                .cast::<QpRecord>()
                .add(index)
        }
    }

    /// Returns the record of a key: its index is bits 8 to 27.
    #[inline]
    pub fn key(&self, key: u32) -> &KeyRecord {
        let index = (key >> 8) as usize & (KEYS - 1);
        // SAFETY: masked to the table, which the mapping contains; aligned because the queue pair
        // records before it keep its alignment; the record consists of atomics only.
        unsafe {
            &*self
                .mapping
                .base()
                .add(KEYS_AT)
                .cast::<KeyRecord>()
                .add(index)
        }
    }

    #[inline]
    fn front(&self) -> &Front {
        // SAFETY: the file starts with a Front (page aligned, atomics only, inside the mapping).
        unsafe { &*self.mapping.base().cast::<Front>() }
    }
}

/// The sign that the owner of a table ends, by one look.
pub struct EndOfOwner(Held<AtomicU32, ContextTable>);

impl EndOfOwner {
    /// Returns the sign of a table's owner.
    pub fn of(contexts: &Arc<ContextTable>) -> EndOfOwner {
        EndOfOwner(Held::new(contexts, |contexts| &contexts.front().held))
    }

    /// As [`ContextTable::was_left`].
    #[inline]
    pub fn has_come(&self) -> bool {
        robust::was_left(self.0.load(Ordering::Acquire))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn peer_reads_records_and_cannot_map_them_writable() {
        let (own, memfd) = ContextTable::create().unwrap();
        own.queue_pair(0x123456)
            .state
            .store(QpRecord::PRESENT | 3, Ordering::SeqCst);
        own.key(0x500).length.store(99, Ordering::SeqCst);
        let fd = memfd.as_fd().try_clone_to_owned().unwrap();
        assert!(Mapping::of(&memfd, MappingRights::ReadWrite).is_err());
        let seen = ContextTable::of_peer(fd).unwrap();
        assert_eq!(
            seen.queue_pair(0x123456).state.load(Ordering::SeqCst),
            QpRecord::PRESENT | 3
        );
        assert_eq!(seen.key(0x5ff).length.load(Ordering::SeqCst), 99);
    }

    #[test]
    fn invalid_context_table_file_is_refused() {
        let short = Memfd::create(c"x", 4096).unwrap();
        let fd = short.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(ContextTable::of_peer(fd).unwrap_err(), Errno::EPROTO);
        let empty = Memfd::create(c"x", LENGTH).unwrap();
        let fd = empty.as_fd().try_clone_to_owned().unwrap();
        assert_eq!(ContextTable::of_peer(fd).unwrap_err(), Errno::EPROTO);
    }
}

//! Layout of the registry file.
//!
//! All words are changed by compare-and-swap or by their owner alone, so there is no lock that a
//! stopped process could hold. The rules:
//! - a slot's `life` is written by the process that holds the slot's byte lock
//!   ([`super::presence`]); any process that has seen the byte unlocked may end that very life;
//! - a block belongs to the life that it names, so the blocks of a dead process are free as soon as
//!   its life has ended.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::mapping::{Mapping, MappingRights};

/// Largest number of processes of a host.
pub const SLOTS: usize = 1024;
/// Queue pair numbers in a block, the unit of allocation.
pub const BLOCK: u32 = 256;
/// Number of blocks.
pub const BLOCKS: u32 = (1 << 24) / BLOCK;

const MAGIC: u64 = 0x5665_7262;
/// Changes with every change of shared memory: the registry, context tables, records of channels,
/// lanes;
/// 3 was that of version 0.1.0.
pub(super) const LAYOUT: u64 = 9;

const MAGIC_AT: usize = 0;
/// Hint: the block to try first.
const BLOCK_HINT: usize = 8;
/// Hint: the slot to try first.
const SLOT_HINT: usize = 12;
/// One past the last slot ever used; limits scans.
const SLOTS_USED: usize = 16;
/// The InfiniBand ports that were taken down, a bit each.
const PORTS_DOWN: usize = 24;
const HEADER: usize = 64;

const SLOT: usize = 64;
/// Offsets of the words of a slot.
const LIFE: usize = 0;
const PID: usize = 8;
const FLAGS: usize = 12;

const BLOCKS_AT: usize = HEADER + SLOTS * SLOT;
/// Length of the file in bytes.
pub(super) const LENGTH: usize = BLOCKS_AT + BLOCKS as usize * 8;

/// A process's use of a slot: its generation, and whether it goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Life {
    pub(super) generation: u32,
    pub(super) in_use: bool,
}

impl Life {
    #[inline]
    fn of(word: u64) -> Life {
        Life {
            generation: (word >> 1) as u32,
            in_use: word & 1 != 0,
        }
    }

    fn word(self) -> u64 {
        u64::from(self.generation) << 1 | u64::from(self.in_use)
    }
}

/// Returns whether a file is a registry of any version: version 0.1 had the magic number first.
pub(super) fn is_a_registry(file: &File) -> bool {
    let mut word = [0; 8];
    let read = file.read_exact_at(&mut word, 0);
    let word = u64::from_le_bytes(word);
    read.is_ok() && (word >> 32 == MAGIC || word & 0xffff_ffff == MAGIC)
}

/// The mapped file.
pub(super) struct Table {
    mapping: Mapping,
}

impl Table {
    /// Maps the file; initialises an empty one.
    ///
    /// # Errors
    /// EPROTO for a file that is not a registry of this version; ENOSPC when the file system has no
    /// space for it; the system's.
    pub(super) fn of(file: &File) -> Result<Table> {
        match file.metadata()?.len() {
            // Concurrent processes do the same, which is harmless.
            0 => allocate(file)?,
            length if length != LENGTH as u64 => return Err(Errno::EPROTO),
            _ => (),
        }
        let mapping = Mapping::of_fd(file.as_fd(), LENGTH, MappingRights::ReadWrite)?;
        let magic = mapping.word64(MAGIC_AT);
        let ours = MAGIC << 32 | LAYOUT;
        match magic.compare_exchange(0, ours, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(Table { mapping }),
            Err(word) if word == ours => Ok(Table { mapping }),
            Err(_) => Err(Errno::EPROTO),
        }
    }

    #[inline]
    fn life_word(&self, slot: u32) -> &AtomicU64 {
        self.mapping
            .word64(HEADER + slot as usize % SLOTS * SLOT + LIFE)
    }

    fn word(&self, slot: u32, field: usize) -> &AtomicU32 {
        self.mapping
            .word32(HEADER + slot as usize % SLOTS * SLOT + field)
    }

    /// Returns the word of InfiniBand ports that were taken down, a bit each.
    #[inline]
    pub(super) fn ports_down(&self) -> &AtomicU64 {
        self.mapping.word64(PORTS_DOWN)
    }

    #[inline]
    pub(super) fn life(&self, slot: u32) -> Life {
        Life::of(self.life_word(slot).load(Ordering::Acquire))
    }

    /// Begins a life. The caller holds the slot.
    pub(super) fn begin_life(&self, slot: u32, generation: u32) {
        self.word(slot, PID)
            .store(std::process::id(), Ordering::Relaxed);
        self.word(slot, FLAGS).store(0, Ordering::Relaxed);
        self.slots_used().fetch_max(slot + 1, Ordering::Relaxed);
        self.slot_hint().store(slot + 1, Ordering::Relaxed);
        let life = Life {
            generation,
            in_use: true,
        };
        self.life_word(slot).store(life.word(), Ordering::Release);
    }

    /// Ends a life, if it still goes on. The caller holds the slot, or saw it unlocked. Returns
    /// whether this call ended it.
    pub(super) fn end_life(&self, slot: u32, generation: u32) -> bool {
        let lasting = Life {
            generation,
            in_use: true,
        };
        let over = Life {
            generation,
            in_use: false,
        };
        let ended = self
            .life_word(slot)
            .compare_exchange(
                lasting.word(),
                over.word(),
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .is_ok();
        if ended {
            self.slot_hint().store(slot, Ordering::Relaxed);
        }
        ended
    }

    /// Returns the process id that a slot's process wrote.
    pub(super) fn pid(&self, slot: u32) -> u32 {
        self.word(slot, PID).load(Ordering::Relaxed)
    }

    pub(super) fn flags(&self, slot: u32) -> &AtomicU32 {
        self.word(slot, FLAGS)
    }

    fn slot_hint(&self) -> &AtomicU32 {
        self.mapping.word32(SLOT_HINT)
    }

    fn slots_used(&self) -> &AtomicU32 {
        self.mapping.word32(SLOTS_USED)
    }

    /// Returns all slots, the one most likely to be free first.
    pub(super) fn slots_to_try(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.slot_hint().load(Ordering::Relaxed);
        let count = SLOTS as u32;
        (0..count).map(move |step| (first % count + step) % count)
    }

    /// Returns the slots that were ever used.
    pub(super) fn used_slots(&self) -> std::ops::Range<u32> {
        0..self.slots_used().load(Ordering::Acquire).min(SLOTS as u32)
    }

    /// Returns the block to try next: each call returns the next one in turn, so that numbers are
    /// reused late. Never block 0, which contains the architecture's management queue pairs 0 and
    /// 1.
    pub(super) fn next_block(&self) -> u32 {
        let hint = self.mapping.word32(BLOCK_HINT);
        1 + hint.fetch_add(1, Ordering::Relaxed) % (BLOCKS - 1)
    }

    #[inline]
    fn block(&self, block: u32) -> &AtomicU64 {
        let index = block % BLOCKS;
        self.mapping.word64(BLOCKS_AT + index as usize * 8)
    }

    /// Returns slot and generation of the life that a block belongs to. That life may be over.
    #[inline]
    pub(super) fn holder(&self, block: u32) -> Option<(u32, u32)> {
        holder_of(self.block(block).load(Ordering::Acquire))
    }

    /// Assigns a block to a life unless it belongs to one that goes on. Returns whether it did.
    pub(super) fn take_block(&self, block: u32, slot: u32, generation: u32) -> bool {
        let word = self.block(block);
        let before = word.load(Ordering::Acquire);
        let is_held = holder_of(before).is_some_and(|(slot, generation)| {
            let life = self.life(slot);
            life.in_use && life.generation == generation
        });
        let mine = u64::from(slot + 1) << 32 | u64::from(generation);
        !is_held
            && word
                .compare_exchange(before, mine, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
    }
}

/// Gives the file its length and its pages: a process that touches a page for which there is no
/// space dies of SIGBUS.
fn allocate(file: &File) -> Result<()> {
    // Not posix_fallocate, whose fallback writes where it reads zeros, and so over words that
    // another process may have written meanwhile.
    // SAFETY: the call takes no pointers, and the descriptor is open during it.
    while unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, LENGTH as libc::off_t) } != 0 {
        match Errno::last() {
            Errno(libc::EINTR) => (),
            // A file system that cannot reserve space is used without a reservation.
            Errno(libc::EOPNOTSUPP | libc::ENOSYS) => return Ok(file.set_len(LENGTH as u64)?),
            error => return Err(error),
        }
    }
    Ok(())
}

#[inline]
fn holder_of(word: u64) -> Option<(u32, u32)> {
    let slot = ((word >> 32) as u32).checked_sub(1)?;
    ((slot as usize) < SLOTS).then_some((slot, word as u32))
}

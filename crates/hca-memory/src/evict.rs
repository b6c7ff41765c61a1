//! Eviction: moves registered pages to another place in the arena, because a peer that is stopped
//! in the middle of a copy may still write to their present place.
//!
//! The pages stay registered and the keys valid. While the pages move, the keys name them by
//! address only, so peers send their requests to the owner, whose threads wait at a held page. The
//! old place stays in quarantine.

use crate::adopt::PIECE;
use crate::arena::Arena;
use crate::pins::HoldId;
use crate::process_memory::ProcessMemory;
use crate::quarantine::Release;
use crate::quiet::Quiet;
use crate::restore::{MappedPart, mapped_parts};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{self, AtomicU64};
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::remap;
use verbena_hca_shm::section::WordUnderWay;
use verbena_hca_shm::tombstone;

/// Limit on words of one piece with an atomic in progress: one for each peer that was stopped in
/// one.
const MOST_WORDS: usize = 128;

/// Moves the pages of `key` to fresh extents. `fence` waits until only the stopped peer is inside
/// an access section that began before; no lock is held during that. The old place may be reused
/// when `release` says so, which must not call back into the arena.
///
/// # Errors
/// ENOENT for a key that is not valid; EOPNOTSUPP for one without pages of the application (device
/// memory); the system's when memory is short; EPERM or EOPNOTSUPP when other threads of this
/// process cannot be held; EBUSY when a device may hold the pages. After an error some of the pages
/// are where they were, under their keys.
pub fn evict(memory: &ProcessMemory, key: u32, fence: &dyn Fn(), release: &Release) -> Result<()> {
    let arena = memory.arena().ok_or(Errno::EOPNOTSUPP)?;
    let leaving = {
        let _registration = memory.registration().lock();
        begin(memory, arena, key, release)?
    };
    fence();
    let _registration = memory.registration().lock();
    let mut moved = Ok(());
    let mut move_all = |words: &[WordUnderWay<'_>]| {
        let mut ranges = leaving.iter();
        moved = ranges.try_for_each(|range| move_range(arena, range, words, release));
    };
    // The offsets of the words have been removed from all keys before.
    atomic::fence(SeqCst);
    match memory.peers() {
        Some(peers) => peers.with_pending_atomics(&mut move_all),
        None => move_all(&[]),
    }
    // All registrations, because any may cover pages of these ranges, by their old place or the new
    // one.
    let mut pins = arena.pins();
    for range in &leaving {
        pins.set_moving(range.clone(), false);
        arena.end_leaving(range);
    }
    let all: Vec<HoldId> = pins.holders(&(0..u64::MAX));
    memory.keys().relocate(&all, &pins);
    moved
}

/// Removes the offsets of the pages from all keys that name them. Returns their ranges.
fn begin(
    memory: &ProcessMemory,
    arena: &Arena,
    key: u32,
    release: &Release,
) -> Result<Vec<Range<u64>>> {
    let entry = memory.keys().entry(key).ok_or(Errno::ENOENT)?;
    let hold = entry.hold.ok_or(Errno::EOPNOTSUPP)?;
    let mut pins = arena.pins();
    let leaving: Vec<Range<u64>> = pins
        .pages_of(hold)
        .into_iter()
        .filter(|(_, pin)| !pin.moving)
        .map(|(range, _)| range)
        .collect();
    let mut holders = Vec::new();
    for range in &leaving {
        holders.extend(pins.holders(range));
        pins.set_moving(range.clone(), true);
        arena.begin_leaving(range.clone(), release.clone());
    }
    memory.keys().hide_segments(&holders);
    Ok(leaving)
}

/// Moves the pages of a range that are still pinned there.
fn move_range(
    arena: &Arena,
    range: &Range<u64>,
    words: &[WordUnderWay<'_>],
    release: &Release,
) -> Result<()> {
    let pages = arena.pins().moving(range.clone());
    for (offsets, pin) in pages {
        let shown = mapped_parts(arena, &offsets, pin.home)?;
        let quiet = Quiet::begin(arena)?;
        let mut at = offsets.start;
        while at < offsets.end {
            let shown_here = shown.iter().find(|part| part.offset + part.length > at);
            let (part, end) = match shown_here {
                Some(part) if part.offset <= at => {
                    let on = at - part.offset;
                    let length = (part.length - on).min(PIECE);
                    let piece = MappedPart {
                        at: part.at + on,
                        length,
                        offset: at,
                        ..*part
                    };
                    (Some(piece), at + length)
                }
                // The application has unmapped these; its registration goes on.
                Some(part) => (None, part.offset.min(at + PIECE)),
                None => (None, offsets.end.min(at + PIECE)),
            };
            move_piece(arena, &quiet, at..end, part, words, release)?;
            at = end;
        }
    }
    Ok(())
}

fn move_piece(
    arena: &Arena,
    quiet: &Quiet<'_>,
    from: Range<u64>,
    shown: Option<MappedPart>,
    words: &[WordUnderWay<'_>],
    release: &Release,
) -> Result<()> {
    let length = from.end - from.start;
    // Nothing can be allocated while the pages are held.
    let mut words = Words::inside(&from, words)?;
    let to = arena.allocate(length)?;
    let moved = move_held(arena, quiet, from.start, to, length, shown, &mut words);
    if let Err(error) = moved {
        arena.free(to..to + length);
        return Err(error);
    }
    arena.pins().relocate(from.clone(), to);
    arena.retire(from, Some(release.clone()));
    Ok(())
}

fn move_held(
    arena: &Arena,
    quiet: &Quiet<'_>,
    from: u64,
    to: u64,
    length: u64,
    shown: Option<MappedPart>,
    words: &mut Words<'_>,
) -> Result<()> {
    let held = match shown {
        Some(part) => quiet.hold_writes(part.at, length)?,
        None => None,
    };
    if !arena.may_move() {
        return Err(Errno::EBUSY);
    }
    arena.fill(to, arena.pointer(from) as u64, length)?;
    words.retire(arena, from, to);
    if let Some(part) = shown {
        let mapped = remap::map_over(arena.fd(), to, part.at, length, part.protection);
        if mapped.is_err() {
            words.restore(arena);
            return mapped;
        }
    }
    if let Some(held) = held {
        held.replaced();
    }
    Ok(())
}

/// The words of a piece with an atomic in progress.
struct Words<'a> {
    marks: Vec<&'a WordUnderWay<'a>>,
    /// Their offsets, each once, with the value that the tombstone replaced. Not on the heap, whose
    /// pages may be the held ones.
    values: [(u64, u64); MOST_WORDS],
    count: usize,
    nonce: u64,
}

impl<'a> Words<'a> {
    /// Collects the words inside `piece`.
    ///
    /// # Errors
    /// EBUSY when there are more than [`MOST_WORDS`].
    fn inside(piece: &Range<u64>, words: &'a [WordUnderWay<'a>]) -> Result<Words<'a>> {
        let is_inside = |offset: u64| {
            offset.is_multiple_of(8)
                && offset >= piece.start
                && offset.saturating_add(8) <= piece.end
        };
        let marks: Vec<_> = words.iter().filter(|word| is_inside(word.offset)).collect();
        let offsets: BTreeSet<u64> = marks.iter().map(|word| word.offset).collect();
        let mut found = Words {
            marks,
            values: [(0, 0); MOST_WORDS],
            count: offsets.len(),
            nonce: random_number(),
        };
        if offsets.len() > MOST_WORDS {
            return Err(Errno::EBUSY);
        }
        for (word, offset) in found.values.iter_mut().zip(offsets) {
            word.0 = offset;
        }
        Ok(found)
    }

    /// Replaces the words by tombstones, and writes their last values to the copy of the piece at
    /// `to`.
    fn retire(&mut self, arena: &Arena, from: u64, to: u64) {
        // All marks of a word are engraved before the word is exchanged.
        for word in &self.marks {
            word.write_nonce(self.nonce);
        }
        for (offset, value) in &mut self.values[..self.count] {
            *value = tombstone::retire(word_at(arena, *offset), self.nonce);
            word_at(arena, to + (*offset - from)).store(*value, SeqCst);
        }
    }

    fn restore(&self, arena: &Arena) {
        for (offset, value) in &self.values[..self.count] {
            word_at(arena, *offset).store(*value, SeqCst);
        }
    }
}

/// Returns a random number other than 0, unlikely to equal any other.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

fn word_at(arena: &Arena, offset: u64) -> &AtomicU64 {
    // SAFETY: `pointer` checks that the offset is inside the arena's mapping, whose length is a
    // multiple of the page; the callers' offsets are multiples of 8.
    unsafe { &*arena.pointer(offset).cast::<AtomicU64>() }
}

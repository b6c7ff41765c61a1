//! Moving registered pages to another place in the arena, because somebody who is stopped in the middle of a copy may
//! still write to where they are.
//!
//! The pages stay registered and the keys valid. While the pages move the keys name them by their address only, so peers
//! ask the owner, whose threads wait where they touch a held page. The old place is kept in quarantine.

use crate::errno::{Errno, Result};
use crate::memory::adopt::PIECE;
use crate::memory::arena::Arena;
use crate::memory::pins::HoldId;
use crate::memory::quarantine::Release;
use crate::memory::quiet::Quiet;
use crate::memory::restore::{Place, places};
use crate::process::{Channels, Process};
use crate::shm::section::WordUnderWay;
use crate::shm::tombstone;
use crate::sys::remap;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::Range;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, fence};

/// Moves what lies under `key` to fresh extents. `fence` waits until nobody but the one who is stopped is inside an
/// access section that began before; no lock is held while it does. What the pages leave may be used again when
/// `release` says so, which must not call back into the arena.
///
/// # Errors
/// ENOENT for a key that is not valid; EOPNOTSUPP for one that names no pages of the application (device memory); what
/// the system says when there is no memory, or (EPERM, EOPNOTSUPP) when other threads of this
/// process cannot be held, or
/// (EBUSY) when a device may hold the pages.
/// Then some of the pages are where they were, under their keys.
pub fn evict(process: &Process, key: u32, fence: &dyn Fn(), release: &Release) -> Result<()> {
    let arena = process.arena.as_ref().ok_or(Errno::EOPNOTSUPP)?;
    let leaving = {
        let _registration = process.registration.lock();
        begin(process, arena, key, release)?
    };
    fence();
    let _registration = process.registration.lock();
    let channels = process.channels();
    let words = words_under_way(&channels);
    let moved = leaving
        .iter()
        .try_for_each(|range| move_range(arena, range, &words, release));
    // Whoever covers pages of these ranges, by their old place or the new one.
    let mut pins = arena.pins();
    for range in &leaving {
        pins.set_moving(range.clone(), false);
        arena.end_leaving(range);
    }
    let all: Vec<HoldId> = pins.holders(&(0..u64::MAX));
    process.keys.relocate(&all, &pins);
    moved
}

/// Takes the places of the pages out of all keys that name them; returns these places.
fn begin(process: &Process, arena: &Arena, key: u32, release: &Release) -> Result<Vec<Range<u64>>> {
    let entry = process.keys.entry(key).ok_or(Errno::ENOENT)?;
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
    process.keys.hide_places(&holders);
    Ok(leaving)
}

/// The words on which peers that are stopped are doing atomics: the place of none of them can be found any more.
fn words_under_way(channels: &Channels) -> Vec<WordUnderWay<'_>> {
    fence(SeqCst);
    channels
        .inbound
        .iter()
        .flat_map(|inbound| inbound.channel.requester_sections().words_under_way())
        .collect()
}

/// Moves what of a range is still pinned there.
fn move_range(
    arena: &Arena,
    range: &Range<u64>,
    words: &[WordUnderWay<'_>],
    release: &Release,
) -> Result<()> {
    let pages = arena.pins().moving(range.clone());
    for (offsets, pin) in pages {
        let shown = places(arena, &offsets, pin.home)?;
        let quiet = Quiet::begin(arena)?;
        let mut at = offsets.start;
        while at < offsets.end {
            let shown_here = shown.iter().find(|place| place.offset + place.length > at);
            let (place, end) = match shown_here {
                Some(place) if place.offset <= at => {
                    let on = at - place.offset;
                    let length = (place.length - on).min(PIECE);
                    let piece = Place {
                        at: place.at + on,
                        length,
                        offset: at,
                        ..*place
                    };
                    (Some(piece), at + length)
                }
                // The application has unmapped these; its registration goes on.
                Some(place) => (None, place.offset.min(at + PIECE)),
                None => (None, offsets.end.min(at + PIECE)),
            };
            move_piece(arena, &quiet, at..end, place, words, release)?;
            at = end;
        }
    }
    Ok(())
}

fn move_piece(
    arena: &Arena,
    quiet: &Quiet<'_>,
    from: Range<u64>,
    shown: Option<Place>,
    words: &[WordUnderWay<'_>],
    release: &Release,
) -> Result<()> {
    let length = from.end - from.start;
    let held = match shown {
        Some(place) => quiet.hold_writes(place.at, length)?,
        None => None,
    };
    if !arena.may_move() {
        return Err(Errno::EBUSY);
    }
    let to = arena.allocate(length)?;
    let source = arena.pointer(from.start) as u64;
    let filled = arena.fill(to, source, length);
    let retired = match filled {
        Ok(()) => retire_words(arena, &from, to, words),
        Err(_) => Vec::new(),
    };
    let moved = filled.and_then(|()| match shown {
        Some(place) => remap::map_over(arena.fd(), to, place.at, length, place.protection),
        None => Ok(()),
    });
    if let Err(error) = moved {
        for (offset, value) in retired {
            word_at(arena, offset).store(value, SeqCst);
        }
        arena.free(to..to + length);
        return Err(error);
    }
    if let Some(held) = held {
        held.replaced();
    }
    arena.pins().relocate(from.clone(), to);
    arena.retire(from, Some(release.clone()));
    Ok(())
}

/// Puts tombstones in the places of the words of a piece that was copied, and what was there into the copy. Gives the
/// offsets and values.
fn retire_words(
    arena: &Arena,
    from: &Range<u64>,
    to: u64,
    words: &[WordUnderWay<'_>],
) -> Vec<(u64, u64)> {
    let is_inside = |offset: u64| {
        offset.is_multiple_of(8) && offset >= from.start && offset.saturating_add(8) <= from.end
    };
    let inside = || words.iter().filter(|word| is_inside(word.offset));
    let nonce = random_number();
    // All who are at one word learn of it before it is exchanged.
    for word in inside() {
        word.engrave(nonce);
    }
    let offsets: BTreeSet<u64> = inside().map(|word| word.offset).collect();
    let retire = |offset| {
        let value = tombstone::retire(word_at(arena, offset), nonce);
        word_at(arena, to + (offset - from.start)).store(value, SeqCst);
        (offset, value)
    };
    offsets.into_iter().map(retire).collect()
}

/// A number that nothing else is, and not 0.
fn random_number() -> u64 {
    RandomState::new().build_hasher().finish() | 1
}

fn word_at(arena: &Arena, offset: u64) -> &AtomicU64 {
    // SAFETY: `pointer` checks that the offset is inside the arena's mapping, whose length is a multiple of the page; the
    // callers' offsets are multiples of 8.
    unsafe { &*arena.pointer(offset).cast::<AtomicU64>() }
}

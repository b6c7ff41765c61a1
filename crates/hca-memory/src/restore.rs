//! Restores pages that no registration covers any more to private anonymous memory with the same
//! contents and protection, so that mremap, madvise, fork, core dumps and smaps(5) behave as if
//! they had never been registered.
//!
//! For each piece, other threads' writes are held, the pages are copied to the shadow that adoption
//! put aside, and the shadow is moved over them. Reads go on meanwhile. Ranges that the application
//! unmapped or mapped over are left alone; ranges that it moved elsewhere (mremap) are found and
//! restored there.

use crate::adopt::PIECE;
use crate::arena::{Arena, PAGE};
use crate::pins::{HoldId, Loose};
use crate::quarantine::Release;
use crate::quiet::Quiet;
use std::ops::Range;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::populate::{Use, populate};
use verbena_hca_os::remap;
use verbena_hca_os::vma::Vma;

/// Number of stuck pages that are retried with each registration that ends.
const AGAIN: usize = 4;

/// Ends a registration and restores the pages that no other covers. Their arena range is free at
/// once, or when `release` says so. No peer uses the registration's keys any more. Returns whether
/// all were restored; the others stay in the arena and are retried later. The caller holds the
/// registration lock.
pub fn depart(arena: &Arena, hold: HoldId, release: Option<&Release>) -> bool {
    let loose = arena.pins().depart(hold);
    // Taken before this call adds more.
    let again = arena.pins().retry(AGAIN);
    let mut is_given = true;
    for pages in loose {
        is_given &= give_back(arena, pages, release);
    }
    for pages in again {
        give_back(arena, pages, None);
    }
    is_given
}

/// A mapped part of the loose pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MappedPart {
    /// Address in the application.
    pub at: u64,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the arena.
    pub offset: u64,
    /// PROT_*.
    pub protection: libc::c_int,
}

fn give_back(arena: &Arena, loose: Loose, release: Option<&Release>) -> bool {
    let Ok(mapped_parts) = mapped_parts(arena, &loose.offsets, loose.address) else {
        arena.pins().keep_stuck(loose);
        return false;
    };
    let quiet = match mapped_parts.is_empty() || !arena.might_move() {
        true => None,
        false => Quiet::begin(arena).ok(),
    };
    let mut is_given = true;
    // Without a shadow, fresh private memory becomes the application's.
    let length = loose.offsets.end - loose.offsets.start;
    let shadow = loose
        .shadow
        .or_else(|| remap::private(length, loose.address).ok());
    let first = loose.offsets.start;
    let shadow_of = |offset: u64| shadow.map(|shadow| shadow + (offset - first));
    let discard = |offsets: Range<u64>| {
        if let Some(shadow) = shadow_of(offsets.start) {
            remap::unmap(shadow, offsets.end - offsets.start);
        }
    };
    let over = |offsets: Range<u64>| {
        arena.pins().unpin(offsets.clone());
        arena.retire(offsets, release.cloned());
    };
    let mut done = first;
    for part in mapped_parts {
        if part.offset > done {
            discard(done..part.offset);
            over(done..part.offset);
        }
        let mut at = 0;
        while at < part.length {
            let there = shadow_of(part.offset + at);
            let length = PIECE
                .min(part.length - at)
                .min(there.map_or(PIECE, |shadow| one_mapping(arena, shadow)));
            let piece = MappedPart {
                at: part.at + at,
                length,
                offset: part.offset + at,
                ..part
            };
            let offsets = piece.offset..piece.offset + length;
            let means = quiet.as_ref().zip(shadow_of(piece.offset));
            if means.is_some_and(|(quiet, shadow)| restore(arena, quiet, piece, shadow).is_ok()) {
                over(offsets);
            } else {
                is_given = false;
                if loose.shadow.is_none() {
                    discard(offsets.clone());
                }
                arena.pins().keep_stuck(Loose {
                    offsets,
                    address: piece.at,
                    shadow: loose.shadow.and(shadow_of(piece.offset)),
                });
            }
            at += length;
        }
        done = part.offset + part.length;
    }
    if done < loose.offsets.end {
        discard(done..loose.offsets.end);
        over(done..loose.offsets.end);
    }
    is_given
}

/// Returns the number of bytes from `at` on that are one mapping to the kernel: neighbours that
/// differ only in advice are several, and only one can be moved at a time.
fn one_mapping(arena: &Arena, at: u64) -> u64 {
    let there = arena.maps().overlapping(at, at + PAGE).ok();
    let vma = there.as_ref().and_then(|there| there.first());
    vma.map_or(PAGE, |vma| vma.end.saturating_sub(at).max(PAGE))
}

/// Returns the present mappings of the application for pages of the arena, in order of offset, each
/// page once. Looks at `address` first, and everywhere else only if some are missing there.
///
/// # Errors
/// The system's.
pub fn mapped_parts(arena: &Arena, offsets: &Range<u64>, address: u64) -> Result<Vec<MappedPart>> {
    let length = offsets.end - offsets.start;
    let there = arena.maps().overlapping(address, address + length)?;
    let at_home = |part: &MappedPart| part.at.wrapping_sub(address) == part.offset - offsets.start;
    let mut mapped_parts = visible(arena, &there, offsets);
    mapped_parts.retain(at_home);
    let found: u64 = mapped_parts.iter().map(|part| part.length).sum();
    if found < length {
        let mut elsewhere = visible(arena, &arena.maps().shared_files()?, offsets);
        elsewhere.retain(|part| !at_home(part));
        mapped_parts.extend(elsewhere);
    }
    mapped_parts.sort_by_key(|part| part.offset);
    Ok(without_repetition(mapped_parts))
}

/// Returns the parts of an arena range that these mappings show.
fn visible(arena: &Arena, mappings: &[Vma], offsets: &Range<u64>) -> Vec<MappedPart> {
    let behind = mappings.iter().filter(|vma| arena.is_behind(vma));
    behind
        .filter_map(|vma| {
            let from = vma.offset.max(offsets.start);
            let to = (vma.offset + (vma.end - vma.start)).min(offsets.end);
            (from < to).then(|| MappedPart {
                at: vma.start + (from - vma.offset),
                length: to - from,
                offset: from,
                protection: vma.protection(),
            })
        })
        .collect()
}

/// Removes parts that an earlier place shows too. The places are in order of offset.
fn without_repetition(mapped_parts: Vec<MappedPart>) -> Vec<MappedPart> {
    let mut done = 0;
    let mut unique = Vec::with_capacity(mapped_parts.len());
    for part in mapped_parts {
        let end = part.offset + part.length;
        let from = part.offset.max(done);
        if from < end {
            unique.push(MappedPart {
                at: part.at + (from - part.offset),
                length: end - from,
                offset: from,
                ..part
            });
            done = end;
        }
    }
    unique
}

/// Copies a piece to its shadow, and moves the shadow over the piece.
fn restore(arena: &Arena, quiet: &Quiet<'_>, piece: MappedPart, shadow: u64) -> Result<()> {
    const OURS: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
    let held = quiet.hold_writes(piece.at, piece.length)?;
    // From here on no device can be given these pages.
    if !arena.may_move() {
        return Err(Errno::EBUSY);
    }
    if piece.length > PAGE {
        // In one call instead of a fault for each page.
        let _ = populate(shadow, piece.length, Use::Write);
    }
    let restored = arena
        .fetch(piece.offset, shadow, piece.length)
        .and_then(|()| match piece.protection {
            OURS => Ok(()),
            other => remap::protect(shadow, piece.length, other),
        })
        .and_then(|()| remap::move_over(shadow, piece.length, piece.at));
    match (&restored, held) {
        (Ok(()), Some(held)) => held.replaced(),
        (Err(_), _) => {
            let _ = remap::protect(shadow, piece.length, OURS);
            remap::drop_pages(shadow, piece.length);
        }
        _ => (),
    }
    restored
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_in_two_mappings_is_restored_once() {
        let part = |at, offset, length| MappedPart {
            at,
            length,
            offset,
            protection: 0,
        };
        let unique = without_repetition(vec![
            part(0x1000, 0, 0x3000),
            part(0x9000, 0x1000, 0x1000),
            part(0xa000, 0x2000, 0x2000),
        ]);
        assert_eq!(
            unique,
            [part(0x1000, 0, 0x3000), part(0xb000, 0x3000, 0x1000)]
        );
    }
}

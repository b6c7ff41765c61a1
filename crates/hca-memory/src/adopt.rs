//! Adoption: moves a private range into the arena while the application goes on using it.
//!
//! For each piece, the pages are moved out from under their addresses (MREMAP_DONTUNMAP) and copied
//! into the arena's file, and the file is mapped over the addresses. Other threads that touch the
//! piece meanwhile wait ([`crate::quiet`]). The private mapping of the pages is kept aside
//! without pages, as the *shadow*: moved back over the addresses when the pages are restored, it is
//! the application's old mapping, with its place in the kernel's order and all its madvise(2)
//! settings.
//!
//! Where holding other threads does not hold the kernel's accesses for them, pages may not be
//! missing even for a moment: then the piece is write-protected, copied, and replaced without a
//! shadow. Where other threads cannot be held, or pages have other holders
//! ([`crate::page_policy`]), the process keeps its pages, and peers reach them by
//! `process_vm_readv` or through it.

use crate::arena::{Arena, PAGE};
use crate::pins::{HoldId, Segment, join};
use crate::quiet::Quiet;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::populate::{Use, populate};
use verbena_hca_os::remap;
use verbena_hca_os::vma::Vma;

/// Bytes moved at a time, so that registering a large range needs little more memory than the range
/// itself, and other threads do not wait for long.
pub const PIECE: u64 = 2 << 20;

/// Finds or moves the pages of `[start, end)` that are or can be in the arena, and adds a
/// registration of them with at most `limit` segments. `mappings` are those of the range. The
/// caller holds the registration lock.
pub fn adopt(arena: &Arena, mappings: &[Vma], start: u64, end: u64, limit: usize) -> HoldId {
    let first = start.next_multiple_of(PAGE);
    let last = end / PAGE * PAGE;
    let mut segments: Vec<Segment> = Vec::new();
    // For a range shorter than a page that crosses a page boundary, `last` is below `first`.
    let has_pages = |vma: &&Vma| first < last && vma.start < last && vma.end > first;
    for vma in mappings.iter().filter(has_pages) {
        let from = vma.start.max(first);
        let to = vma.end.min(last);
        let found = if arena.is_behind(vma) {
            named(arena, vma, from, to)
        } else if vma.is_private_anonymous() && segments.len() < limit && arena.might_move() {
            move_range(arena, from, to).into_iter().collect()
        } else {
            Vec::new()
        };
        for segment in found {
            segments.push(segment);
            join(&mut segments);
            segments.truncate(limit);
        }
    }
    arena.pins().hold(segments)
}

/// Returns the parts of a mapping of the arena that are pages of the application.
fn named(arena: &Arena, vma: &Vma, from: u64, to: u64) -> Vec<Segment> {
    let offset = vma.offset + (from - vma.start);
    let parts = arena.pins().nameable(offset..offset + (to - from));
    parts
        .into_iter()
        .map(|range| Segment {
            start: from + (range.start - offset),
            end: from + (range.end - offset),
            offset: range.start,
        })
        .collect()
}

/// Moves `[start, end)`, or the longest possible part from its start.
fn move_range(arena: &Arena, start: u64, end: u64) -> Option<Segment> {
    let quiet = Quiet::begin(arena).ok()?;
    let offset = arena.allocate(end - start).ok()?;
    let mut moved = start;
    // A single piece needs no reservation for its shadow.
    let reserved = match end - start {
        length if length <= PIECE || !quiet.tolerates_missing_pages() => None,
        length => remap::reserve(length, start).ok(),
    };
    // A mapping that never had a page would lose its place in the kernel's order by being moved.
    let _ = populate(start, PAGE, Use::Write);
    while moved < end {
        let length = PIECE.min(end - moved);
        let aside = reserved.map(|reserved| reserved + (moved - start));
        let target = offset + (moved - start);
        let shadow = match quiet.tolerates_missing_pages() {
            true => move_piece(arena, &quiet, moved, length, aside, target).map(Some),
            false => replace_piece(arena, &quiet, moved, length, target).map(|()| None),
        };
        let Ok(shadow) = shadow else { break };
        let segment = Segment {
            start: moved,
            end: moved + length,
            offset: offset + (moved - start),
        };
        arena.pins().pin(segment, shadow);
        moved += length;
    }
    if moved < end {
        arena.free(offset + (moved - start)..offset + (end - start));
        if let Some(reserved) = reserved {
            remap::unmap(reserved + (moved - start), end - moved);
        }
    }
    // The adapter accesses the pages through its own view of the arena; without this, each page
    // would fault at its first delivery.
    let view = arena.pointer(offset) as u64;
    let _ = populate(view, moved - start, Use::Read);
    (moved > start).then_some(Segment {
        start,
        end: moved,
        offset,
    })
}

/// Copies the pages in place, and maps the copy over them. No page is ever missing, and there is no
/// shadow.
fn replace_piece(
    arena: &Arena,
    quiet: &Quiet<'_>,
    at: u64,
    length: u64,
    offset: u64,
) -> Result<()> {
    populate(at, length, Use::Read)?;
    let held = quiet.hold_writes(at, length)?;
    check_free(arena)?;
    arena.fill(offset, at, length)?;
    remap::map_over(
        arena.fd(),
        offset,
        at,
        length,
        libc::PROT_READ | libc::PROT_WRITE,
    )?;
    if let Some(held) = held {
        held.replaced();
    }
    Ok(())
}

/// Checks that no holder would go on using the pages at their old place ([`crate::pages`]).
///
/// # Errors
/// EBUSY when there may be one.
fn check_free(arena: &Arena) -> Result<()> {
    match arena.may_move() {
        true => Ok(()),
        false => Err(Errno::EBUSY),
    }
}

/// Moves a piece into the arena. Returns the address of its shadow.
fn move_piece(
    arena: &Arena,
    quiet: &Quiet<'_>,
    at: u64,
    length: u64,
    aside: Option<u64>,
    offset: u64,
) -> Result<u64> {
    let held = quiet.hold_missing(at, length)?;
    let shadow = remap::move_pages_out(at, length, aside)?;
    // From here on no new holder can appear: the pages are at an address that only this function
    // knows.
    let moved = check_free(arena)
        .and_then(|()| arena.fill(offset, shadow, length))
        .and_then(|()| {
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            remap::map_over(arena.fd(), offset, at, length, rights)
        });
    if let Err(error) = moved {
        // Moves the pages back.
        remap::move_over(shadow, length, at)?;
        if let Some(held) = held {
            held.replaced();
        }
        return Err(error);
    }
    if let Some(held) = held {
        held.replaced();
    }
    remap::drop_pages(shadow, length);
    Ok(shadow)
}

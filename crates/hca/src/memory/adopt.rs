//! Moving a private range into the arena while the application goes on using it.
//!
//! Per piece: the pages are copied into the arena's file, and the file is mapped over the same addresses. A write by
//! another thread between the copy and the map would be lost, so in a process with more threads the piece is first
//! write-protected through userfaultfd: a writer then waits until the new pages are in place. Where userfaultfd is
//! refused, such a process keeps its pages, and peers reach them by `process_vm_writev`.

use crate::errno::{Errno, Result};
use crate::memory::arena::{Arena, PAGE};
use crate::sys::userfault::WriteHold;
use crate::sys::vma::{self, Vma};
use std::os::fd::AsRawFd;

/// Copied and mapped at a time, so that registering a large range needs little more memory than the range itself.
const PIECE: u64 = 2 << 20;

/// A range of addresses that lies in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First address.
    pub start: u64,
    /// One past the last.
    pub end: u64,
    /// Offset of `start` in the arena.
    pub offset: u64,
}

/// Finds or moves the pages of `[start, end)` that are or can be in the arena; at most `limit` segments. Also returns
/// the extents that the segments use, each with a user added.
pub fn adopt(
    arena: &Arena,
    mappings: &[Vma],
    start: u64,
    end: u64,
    limit: usize,
) -> (Vec<Segment>, Vec<u64>) {
    let mut segments: Vec<Segment> = Vec::new();
    let mut extents = Vec::new();
    let first = start.next_multiple_of(PAGE);
    let last = end / PAGE * PAGE;
    if first >= last {
        return (segments, extents);
    }
    for vma in mappings
        .iter()
        .filter(|vma| vma.start < last && vma.end > first)
    {
        let from = vma.start.max(first);
        let to = vma.end.min(last);
        let segment = if arena.is_behind(vma) {
            let offset = vma.offset + (from - vma.start);
            Some(Segment {
                start: from,
                end: to,
                offset,
            })
        } else if vma.is_private_anonymous() && segments.len() < limit {
            move_range(arena, from, to).ok().map(|offset| {
                extents.push(offset);
                Segment {
                    start: from,
                    end: to,
                    offset,
                }
            })
        } else {
            None
        };
        let Some(segment) = segment else { continue };
        let room = segments.len() < limit;
        match segments.last_mut() {
            Some(previous)
                if previous.end == segment.start
                    && previous.offset + (previous.end - previous.start) == segment.offset =>
            {
                previous.end = segment.end;
            }
            _ if room => segments.push(segment),
            _ => continue,
        }
        if arena.is_behind(vma) {
            extents.extend(arena.join(segment.offset, segment.end - segment.start));
        }
    }
    (segments, extents)
}

/// Moves `[start, end)` into the arena; returns the offset.
fn move_range(arena: &Arena, start: u64, end: u64) -> Result<u64> {
    let hold = if vma::thread_count() > 1 {
        Some(WriteHold::open()?)
    } else {
        None
    };
    let offset = arena.allocate(end - start)?;
    let mut at = start;
    while at < end {
        let length = PIECE.min(end - at);
        if let Err(error) = move_piece(arena, hold.as_ref(), at, length, offset + (at - start)) {
            if at == start {
                arena.free(offset);
                return Err(error);
            }
            // Part of the range is moved already and cannot be moved back unseen; the extent stays with it.
            arena.part(offset);
            return Err(error);
        }
        at += length;
    }
    Ok(offset)
}

fn move_piece(
    arena: &Arena,
    hold: Option<&WriteHold>,
    at: u64,
    length: u64,
    offset: u64,
) -> Result<()> {
    if let Some(hold) = hold {
        const MADV_POPULATE_READ: libc::c_int = 22;
        // SAFETY: populating for reading changes no contents; a kernel without it answers EINVAL.
        if unsafe { libc::madvise(at as *mut _, length as usize, MADV_POPULATE_READ) } != 0 {
            return Err(Errno::last());
        }
        hold.hold(at, length)?;
    }
    let moved =
        copy_into(arena, at, length, offset).and_then(|()| map_over(arena, at, length, offset));
    if let Some(hold) = hold {
        match moved {
            Ok(()) => hold.wake(at, length),
            Err(_) => hold.release(at, length),
        }
    }
    moved
}

/// By a system call rather than through a mapping: the kernel fills new pages of the file without a fault each, and a
/// range that another thread unmaps meanwhile gives an error instead of a signal.
fn copy_into(arena: &Arena, at: u64, length: u64, offset: u64) -> Result<()> {
    let mut done = 0;
    while done < length {
        // SAFETY: the kernel checks the source range.
        let n = unsafe {
            libc::pwrite(
                arena.fd().as_raw_fd(),
                (at + done) as *const _,
                (length - done) as usize,
                (offset + done) as libc::off_t,
            )
        };
        match n {
            n if n > 0 => done += n as u64,
            0 => return Err(Errno::ENOMEM),
            _ => return Err(Errno::last()),
        }
    }
    Ok(())
}

fn map_over(arena: &Arena, at: u64, length: u64, offset: u64) -> Result<()> {
    // SAFETY: the range is private anonymous memory of the application with exactly these contents; replacing its
    // pages by equal ones changes nothing that it can see.
    let answer = unsafe {
        libc::mmap(
            at as *mut _,
            length as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE | libc::MAP_POPULATE,
            arena.fd().as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if answer == libc::MAP_FAILED {
        Err(Errno::last())
    } else {
        Ok(())
    }
}

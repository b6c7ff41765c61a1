//! Moving bytes between local buffers and a peer's memory.

use crate::errno::{Errno, Result};
use crate::memory::place::{Claim, Piece, Place, Refusal, grant};
use crate::path::{Peer, Way};
use crate::process::Process;
use crate::sys::{copy, process_vm};
use verbena_abi::ibv_sge;

/// A run of bytes in our own address space; a null pointer stands for memory that reads as zeros and swallows writes.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// First byte.
    pub pointer: *mut u8,
    /// Bytes.
    pub length: usize,
}

/// A place in a peer's memory that was granted, and how to get there.
#[derive(Clone, Copy)]
pub struct Granted<'a> {
    /// The place.
    pub place: Place<'a>,
    /// The way to all of it, if it is one piece.
    way: Option<Way>,
}

impl<'a> Granted<'a> {
    /// The way to `place`; None when some of it can only be reached by the peer itself.
    #[inline]
    pub fn of(peer: &Peer, place: Place<'a>) -> Option<Granted<'a>> {
        let way = place.sole().map(|piece| peer.way(piece));
        let reachable = match way {
            Some(way) => !matches!(way, Way::Unreachable),
            None => is_reachable(peer, place),
        };
        reachable.then_some(Granted { place, way })
    }

    /// Whether the kernel copies.
    #[inline]
    pub fn is_through_kernel(&self, peer: &Peer) -> bool {
        let first = || self.place.pieces().next().map(|piece| peer.way(piece));
        matches!(self.way.or_else(first), Some(Way::Kernel { .. }))
    }
}

/// Local buffers as runs. Up to four need no allocation.
pub struct Runs {
    count: usize,
    few: [Run; 4],
    many: Vec<Run>,
    total: u64,
}

impl Runs {
    /// No bytes.
    pub fn new() -> Runs {
        let none = Run {
            pointer: std::ptr::null_mut(),
            length: 0,
        };
        Runs {
            count: 0,
            few: [none; 4],
            many: Vec::new(),
            total: 0,
        }
    }

    /// Resolves a gather or scatter list under a protection domain; `access` is what the buffers must allow.
    pub fn resolve(
        process: &Process,
        pd: u32,
        sges: &[ibv_sge],
        access: u32,
    ) -> std::result::Result<Runs, Refusal> {
        let mut runs = Runs::new();
        for sge in sges {
            if sge.length == 0 {
                continue;
            }
            let record = process.keys.record(sge.lkey);
            let claim = Claim {
                key: sge.lkey,
                pd,
                queue_pair: 0,
                access,
            };
            let place = grant(record, claim, sge.addr, u64::from(sge.length))?;
            for piece in place.pieces() {
                runs.add(process, piece);
            }
        }
        Ok(runs)
    }

    /// Inline data: the application's own pointers, no keys.
    pub fn inline(sges: &[ibv_sge]) -> Runs {
        let mut runs = Runs::new();
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            runs.push(Run {
                pointer: sge.addr as *mut u8,
                length: sge.length as usize,
            });
        }
        runs
    }

    fn add(&mut self, process: &Process, piece: Piece) {
        let pointer = match (piece, &process.arena) {
            // Through the arena's own view: it stays valid when the application unmaps its range.
            (Piece::Arena { offset, .. }, Some(arena)) => arena.pointer(offset),
            (Piece::Address { address, .. }, _) => address as *mut u8,
            (Piece::Arena { .. }, None) | (Piece::Null { .. }, _) => std::ptr::null_mut(),
        };
        self.push(Run {
            pointer,
            length: piece.length(),
        });
    }

    fn push(&mut self, run: Run) {
        self.total += run.length as u64;
        if self.many.is_empty() {
            if let Some(place) = self.few.get_mut(self.count) {
                *place = run;
                self.count += 1;
                return;
            }
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(run);
        self.count += 1;
    }

    /// Bytes in all.
    pub fn total(&self) -> u64 {
        self.total
    }

    fn as_slice(&self) -> &[Run] {
        if self.many.is_empty() {
            &self.few[..self.count]
        } else {
            &self.many
        }
    }

    /// The runs that make up `[offset, offset + length)`.
    fn range(&self, offset: usize, length: usize) -> impl Iterator<Item = Run> + '_ {
        let (mut skip, mut left) = (offset, length);
        self.as_slice().iter().filter_map(move |run| {
            let skipped = skip.min(run.length);
            skip -= skipped;
            let length = (run.length - skipped).min(left);
            left -= length;
            let pointer = if run.pointer.is_null() {
                run.pointer
            } else {
                run.pointer.wrapping_add(skipped)
            };
            (length > 0).then_some(Run { pointer, length })
        })
    }

    /// Copies `length` bytes from `offset` on to `target`.
    ///
    /// # Safety
    /// `target` must be writable for `length` bytes, and the runs' memory mapped.
    #[inline]
    pub unsafe fn gather(&self, offset: usize, target: *mut u8, length: usize) {
        let mut at = 0;
        for run in self.range(offset, length) {
            // SAFETY: `at + run.length <= length`; the caller vouches for the rest.
            unsafe {
                let target = target.add(at);
                if run.pointer.is_null() {
                    target.write_bytes(0, run.length);
                } else {
                    copy::copy(run.pointer, target, run.length);
                }
            }
            at += run.length;
        }
    }

    /// Copies `length` bytes at `source` to `offset` on, the last bytes last.
    ///
    /// # Safety
    /// `source` must be readable for `length` bytes, and the runs' memory mapped.
    #[inline]
    pub unsafe fn scatter(&self, offset: usize, source: *const u8, length: usize) {
        let mut at = 0;
        for run in self.range(offset, length) {
            if !run.pointer.is_null() {
                // SAFETY: `at + run.length <= length`; the caller vouches for the rest.
                unsafe { copy::deposit(source.add(at), run.pointer, run.length) };
            }
            at += run.length;
        }
    }

    /// Fetches `[offset, offset + length)` of these runs from a place in a peer's memory.
    ///
    /// # Errors
    /// EOPNOTSUPP when only the peer itself can get there; else what the kernel said.
    ///
    /// # Safety
    /// The place was granted and stays so; the runs' memory is mapped.
    pub unsafe fn fetch(&self, offset: usize, peer: &Peer, place: Place<'_>) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.exchange(offset, peer, place, Direction::Fetch) }
    }

    /// Fetches all of these runs from where the way leads.
    ///
    /// # Errors
    /// As [`Runs::fetch`].
    ///
    /// # Safety
    /// As [`Runs::fetch`].
    #[inline]
    pub unsafe fn load(&self, peer: &Peer, granted: Granted<'_>) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.move_all(peer, granted, Direction::Fetch) }
    }

    /// Stores all of these runs to where the way leads, the last bytes last.
    ///
    /// # Errors
    /// As [`Runs::fetch`].
    ///
    /// # Safety
    /// As [`Runs::fetch`].
    #[inline]
    pub unsafe fn store(&self, peer: &Peer, granted: Granted<'_>) -> Result<()> {
        // SAFETY: passed on.
        unsafe { self.move_all(peer, granted, Direction::Store) }
    }

    #[inline]
    unsafe fn move_all(
        &self,
        peer: &Peer,
        granted: Granted<'_>,
        direction: Direction,
    ) -> Result<()> {
        // SAFETY: passed on; one run and one way are of the same length, that of the operation.
        unsafe {
            match (granted.way, self.as_slice()) {
                (Some(way), [run]) => move_run(*run, way, direction),
                _ => self.exchange(0, peer, granted.place, direction),
            }
        }
    }

    unsafe fn exchange(
        &self,
        offset: usize,
        peer: &Peer,
        place: Place<'_>,
        direction: Direction,
    ) -> Result<()> {
        let mut at = offset;
        for piece in place.pieces() {
            let way = peer.way(piece);
            let mut there = 0;
            for run in self.range(at, piece.length()) {
                // SAFETY: the run is part of the runs, the way part of the place, both of `run.length` bytes.
                unsafe { move_run(run, advance(way, there), direction)? };
                there += run.length;
            }
            at += piece.length();
        }
        Ok(())
    }
}

impl Default for Runs {
    fn default() -> Runs {
        Runs::new()
    }
}

#[derive(Clone, Copy)]
enum Direction {
    Fetch,
    Store,
}

#[inline]
fn advance(way: Way, by: usize) -> Way {
    match way {
        Way::Pointer(pointer) => Way::Pointer(pointer.wrapping_add(by)),
        Way::Kernel { pid, address } => Way::Kernel {
            pid,
            address: address + by as u64,
        },
        other => other,
    }
}

#[inline]
unsafe fn move_run(run: Run, way: Way, direction: Direction) -> Result<()> {
    let (here, length) = (run.pointer, run.length);
    // SAFETY: the caller vouches for both sides; null pointers are handled before they are used.
    unsafe {
        match (direction, way) {
            (_, Way::Unreachable) => return Err(Errno::EOPNOTSUPP),
            (Direction::Fetch, _) if here.is_null() => (),
            (Direction::Store, Way::Null) => (),
            (Direction::Fetch, Way::Null) => here.write_bytes(0, length),
            (Direction::Fetch, Way::Pointer(there)) => copy::deposit(there, here, length),
            (Direction::Fetch, Way::Kernel { pid, address }) => {
                process_vm::read(pid, address, here, length)?;
            }
            (Direction::Store, Way::Pointer(there)) if here.is_null() => {
                there.write_bytes(0, length);
            }
            (Direction::Store, Way::Pointer(there)) => copy::deposit(here, there, length),
            (Direction::Store, Way::Kernel { pid, address }) if here.is_null() => {
                let zeros = vec![0u8; length];
                process_vm::write(pid, address, zeros.as_ptr(), length)?;
            }
            (Direction::Store, Way::Kernel { pid, address }) => {
                process_vm::write(pid, address, here, length)?;
            }
        }
    }
    Ok(())
}

/// Whether every piece of a place can be reached by us.
fn is_reachable(peer: &Peer, place: Place<'_>) -> bool {
    place
        .pieces()
        .all(|piece| !matches!(peer.way(piece), Way::Unreachable))
}

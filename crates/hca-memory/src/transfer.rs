//! Moves bytes between local buffers and a peer's memory.

use crate::peer::{AccessMethod, Direction, Peer};
use crate::process_memory::ProcessMemory;
use crate::resolve::{AccessRequest, Piece, Refusal, ResolvedRange, grant};
use std::marker::PhantomData;
use verbena_abi::ibv_sge;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::{copy, own_memory, process_vm};
use verbena_hca_shm::section::Section;

/// A run of bytes in the local address space.
#[derive(Clone, Copy, Debug)]
struct Run {
    pointer: *mut u8,
    length: usize,
    location: RunLocation,
}

/// The kind of memory behind a run's pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunLocation {
    /// Pages of the local arena, in its own view, which stays mapped when the application unmaps
    /// its range.
    Arena,
    /// A mapping of the adapter's own, outside the arena.
    Mapping,
    /// Other memory of the application, which may be unmapped: only the kernel accesses it.
    Application,
    /// Memory that the application guarantees to be mapped while it posts.
    Inline,
    /// Nothing: reads as zeros, discards writes.
    Null,
}

/// A granted range of a peer's memory, with its access path.
#[derive(Clone, Copy)]
pub struct Granted<'a> {
    /// The range.
    pub range: ResolvedRange<'a>,
    direction: Direction,
    /// The access path of the whole range, if it is one piece.
    access_method: Option<AccessMethod>,
}

impl<'a> Granted<'a> {
    /// Determines the access path of `range`; None when only the peer itself can access some of it.
    #[inline]
    pub fn of(peer: &Peer, range: ResolvedRange<'a>, direction: Direction) -> Option<Granted<'a>> {
        let access_method = range
            .sole()
            .map(|piece| peer.access_method(piece, direction));
        let reachable = match access_method {
            Some(access_method) => !matches!(access_method, AccessMethod::Unreachable),
            None => range.pieces().all(|piece| {
                !matches!(
                    peer.access_method(piece, direction),
                    AccessMethod::Unreachable
                )
            }),
        };
        reachable.then_some(Granted {
            range,
            direction,
            access_method,
        })
    }

    /// Returns the address of the range in this address space, if it is one piece there.
    #[inline]
    pub fn pointer(&self) -> Option<*mut u8> {
        match self.access_method {
            Some(AccessMethod::Pointer(pointer)) => Some(pointer),
            _ => None,
        }
    }

    /// Returns whether the kernel copies.
    #[inline]
    pub fn is_through_kernel(&self, peer: &Peer) -> bool {
        let first = || {
            let piece = self.range.pieces().next()?;
            Some(peer.access_method(piece, self.direction))
        };
        matches!(
            self.access_method.or_else(first),
            Some(AccessMethod::Kernel { .. })
        )
    }
}

/// Local buffers as runs, valid while the section in which they were resolved is open. Up to four
/// need no allocation.
pub struct Runs<'a> {
    count: usize,
    few: [Run; 4],
    many: Vec<Run>,
    total: u64,
    section: PhantomData<&'a ()>,
}

impl<'a> Runs<'a> {
    /// Returns runs of no bytes.
    pub fn new() -> Runs<'a> {
        let none = Run {
            pointer: std::ptr::null_mut(),
            length: 0,
            location: RunLocation::Null,
        };
        Runs {
            count: 0,
            few: [none; 4],
            many: Vec::new(),
            total: 0,
            section: PhantomData,
        }
    }

    /// Resolves a gather or scatter list under a protection domain; `access` is the access that the
    /// buffers must allow.
    ///
    /// # Errors
    /// The refusal of the first buffer that does not allow it.
    #[inline]
    pub fn resolve(
        section: &'a Section<'_>,
        memory: &'a ProcessMemory,
        pd: u32,
        sges: &[ibv_sge],
        access: u32,
    ) -> std::result::Result<Runs<'a>, Refusal> {
        let mut runs = Runs::new();
        for sge in sges {
            if sge.length == 0 {
                continue;
            }
            let record = memory.keys().record(sge.lkey);
            let access_request = AccessRequest::to_buffer(sge.lkey, pd, access);
            let range = grant(
                section,
                record,
                access_request,
                sge.addr,
                u64::from(sge.length),
            )?;
            for piece in range.pieces() {
                runs.push(run_of(memory, piece));
            }
        }
        Ok(runs)
    }

    /// Returns the runs of a local range that was granted to a peer.
    #[inline]
    pub fn of(
        _section: &'a Section<'_>,
        memory: &'a ProcessMemory,
        range: ResolvedRange<'a>,
    ) -> Runs<'a> {
        let mut runs = Runs::new();
        for piece in range.pieces() {
            runs.push(run_of(memory, piece));
        }
        runs
    }

    /// Returns the runs of inline data: the application's own pointers, without keys.
    #[inline]
    pub fn inline(sges: &[ibv_sge]) -> Runs<'a> {
        let mut runs = Runs::new();
        for sge in sges.iter().filter(|sge| sge.length > 0) {
            runs.push(Run {
                pointer: sge.addr as *mut u8,
                length: sge.length as usize,
                location: RunLocation::Inline,
            });
        }
        runs
    }

    fn push(&mut self, run: Run) {
        self.total += run.length as u64;
        if self.many.is_empty() {
            if let Some(slot) = self.few.get_mut(self.count) {
                *slot = run;
                self.count += 1;
                return;
            }
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(run);
        self.count += 1;
    }

    /// Returns the total length in bytes.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Returns whether peers can access all of them in the local arena.
    pub fn are_in_arena(&self) -> bool {
        self.as_slice()
            .iter()
            .all(|run| matches!(run.location, RunLocation::Arena | RunLocation::Null))
    }

    /// Returns whether peers can access all of them by themselves or through the kernel.
    pub fn are_within_reach(&self) -> bool {
        !self
            .as_slice()
            .iter()
            .any(|run| run.location == RunLocation::Mapping)
    }

    /// Returns whether all of them stay mapped regardless of the application.
    pub fn are_adapters_own(&self) -> bool {
        let is_own = |run: &Run| {
            matches!(
                run.location,
                RunLocation::Arena | RunLocation::Mapping | RunLocation::Null
            )
        };
        self.as_slice().iter().all(is_own)
    }

    fn as_slice(&self) -> &[Run] {
        if self.many.is_empty() {
            &self.few[..self.count]
        } else {
            &self.many
        }
    }

    /// Returns the runs that make up `[offset, offset + length)`.
    fn range(&self, offset: usize, length: usize) -> impl Iterator<Item = Run> + '_ {
        let (mut skip, mut left) = (offset, length);
        self.as_slice().iter().filter_map(move |run| {
            let skipped = skip.min(run.length);
            skip -= skipped;
            let length = (run.length - skipped).min(left);
            left -= length;
            (length > 0).then_some(Run {
                pointer: run.pointer.wrapping_add(skipped),
                length,
                location: run.location,
            })
        })
    }

    /// Copies `length` bytes from `offset` on to `target`.
    ///
    /// # Errors
    /// EFAULT when the application has unmapped a buffer.
    ///
    /// # Safety
    /// `target` must be writable for `length` bytes.
    #[inline]
    pub unsafe fn gather(&self, offset: usize, target: *mut u8, length: usize) -> Result<()> {
        let mut at = 0;
        for run in self.range(offset, length) {
            // SAFETY: `at + run.length <= length`, so the target range is the caller's; arena,
            // mapping and inline runs are mapped, and the kernel checks the others.
            unsafe {
                let target = target.add(at);
                match run.location {
                    RunLocation::Null => target.write_bytes(0, run.length),
                    RunLocation::Arena | RunLocation::Mapping | RunLocation::Inline => {
                        copy::copy(run.pointer, target, run.length);
                    }
                    RunLocation::Application => {
                        own_memory::load(run.pointer as u64, target, run.length)?
                    }
                }
            }
            at += run.length;
        }
        Ok(())
    }

    /// Copies `length` bytes at `source` to `offset` on, the last bytes last.
    ///
    /// # Errors
    /// EFAULT when the application has unmapped a buffer.
    ///
    /// # Safety
    /// `source` must be readable for `length` bytes.
    #[inline]
    pub unsafe fn scatter(&self, offset: usize, source: *const u8, length: usize) -> Result<()> {
        let mut at = 0;
        for run in self.range(offset, length) {
            // SAFETY: `at + run.length <= length`, so the source range is the caller's; arena,
            // mapping and inline runs are mapped, and the kernel checks the application's.
            unsafe {
                let source = source.add(at);
                match run.location {
                    RunLocation::Null => (),
                    RunLocation::Arena | RunLocation::Mapping | RunLocation::Inline => {
                        copy::ordered_copy(source, run.pointer, run.length);
                    }
                    RunLocation::Application => {
                        own_memory::store(run.pointer as u64, source, run.length)?
                    }
                }
            }
            at += run.length;
        }
        Ok(())
    }

    /// Moves `[offset, offset + granted's length)` of these runs from or to the granted range, the
    /// last bytes last.
    ///
    /// # Errors
    /// EOPNOTSUPP when only the peer itself can access the range; EFAULT for a buffer that is not
    /// mapped any more; ESRCH when the peer has ended.
    #[inline]
    pub fn exchange(&self, offset: usize, peer: &Peer, granted: Granted<'_>) -> Result<()> {
        if let (Some(access_method), [run]) = (granted.access_method, self.as_slice())
            && offset == 0
            && run.length as u64 == granted.range.length()
        {
            return move_run(*run, access_method, granted.direction);
        }
        let mut at = offset;
        for piece in granted.range.pieces() {
            let access_method = peer.access_method(piece, granted.direction);
            let mut there = 0;
            for run in self.range(at, piece.length()) {
                move_run(run, advance(access_method, there), granted.direction)?;
                there += run.length;
            }
            at += piece.length();
        }
        Ok(())
    }
}

impl Default for Runs<'_> {
    fn default() -> Self {
        Runs::new()
    }
}

fn run_of(memory: &ProcessMemory, piece: Piece) -> Run {
    let (pointer, location) = match (piece, memory.arena()) {
        (Piece::Arena { offset, .. }, Some(arena)) => (arena.pointer(offset), RunLocation::Arena),
        (Piece::Mapping { address, .. }, _) => (address as *mut u8, RunLocation::Mapping),
        (Piece::Address { address, .. }, _) => (address as *mut u8, RunLocation::Application),
        (Piece::Arena { .. }, None) | (Piece::Null { .. }, _) => {
            (std::ptr::null_mut(), RunLocation::Null)
        }
    };
    Run {
        pointer,
        length: piece.length(),
        location,
    }
}

#[inline]
fn advance(access_method: AccessMethod, by: usize) -> AccessMethod {
    match access_method {
        AccessMethod::Pointer(pointer) => AccessMethod::Pointer(pointer.wrapping_add(by)),
        AccessMethod::Kernel { pid, address } => AccessMethod::Kernel {
            pid,
            address: address + by as u64,
        },
        AccessMethod::Own(address) => AccessMethod::Own(address + by as u64),
        other => other,
    }
}

#[inline]
fn move_run(run: Run, access_method: AccessMethod, direction: Direction) -> Result<()> {
    match direction {
        Direction::Load => fetch_run(run, access_method),
        Direction::Store => store_run(run, access_method),
    }
}

#[inline]
fn fetch_run(run: Run, access_method: AccessMethod) -> Result<()> {
    let (here, length) = (run.pointer, run.length);
    if run.location == RunLocation::Null {
        return Ok(());
    }
    let through_kernel = run.location == RunLocation::Application;
    // SAFETY: arena, mapping and inline runs are mapped for `length` bytes, and so is the target of
    // a `AccessMethod::Pointer`; the kernel checks all other addresses.
    unsafe {
        match access_method {
            AccessMethod::Unreachable => return Err(Errno::EOPNOTSUPP),
            AccessMethod::Null if through_kernel => {
                own_memory::store(here as u64, vec![0u8; length].as_ptr(), length)?;
            }
            AccessMethod::Null => here.write_bytes(0, length),
            AccessMethod::Pointer(there) if through_kernel => {
                own_memory::store(here as u64, there, length)?;
            }
            AccessMethod::Pointer(there) => copy::ordered_copy(there, here, length),
            AccessMethod::Kernel { pid, address } => process_vm::read(pid, address, here, length)?,
            AccessMethod::Own(address) => own_memory::load(address, here, length)?,
        }
    }
    Ok(())
}

#[inline]
fn store_run(run: Run, access_method: AccessMethod) -> Result<()> {
    let (here, length) = (run.pointer, run.length);
    let zeros;
    let (here, through_kernel) = match run.location {
        RunLocation::Null => {
            zeros = vec![0u8; length];
            (zeros.as_ptr().cast_mut(), false)
        }
        location => (here, location == RunLocation::Application),
    };
    // SAFETY: arena, mapping and inline runs are mapped for `length` bytes, and so is the target of
    // a `AccessMethod::Pointer`; the kernel checks all other addresses.
    unsafe {
        match access_method {
            AccessMethod::Unreachable => return Err(Errno::EOPNOTSUPP),
            AccessMethod::Null => (),
            AccessMethod::Pointer(there) if through_kernel => {
                own_memory::load(here as u64, there, length)?;
            }
            AccessMethod::Pointer(there) => copy::ordered_copy(here, there, length),
            AccessMethod::Kernel { pid, address } => process_vm::write(pid, address, here, length)?,
            AccessMethod::Own(address) => own_memory::store(address, here, length)?,
        }
    }
    Ok(())
}

//! Access paths to a peer's memory.
//!
//! Every path has the same contract: an operation has the same effects, order and completion status
//! on each of them; only its cost differs. The paths, best first:
//! - `mapped`: the peer's arena is mapped into this address space; an operation is a memory copy or
//!   a CPU atomic;
//! - `cma`: the kernel copies (`process_vm_readv`, `process_vm_writev`);
//! - `ring`: the bytes go through the channel and the peer copies.
//!
//! If a path cannot serve a range (an atomic by `cma`, a page outside the arena by `mapped`), the
//! next one does.

use crate::arena::Arena;
use crate::resolve::Piece;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use verbena_hca_os::doorbell::Doorbell;
use verbena_hca_os::errno::{Errno, Result};
use verbena_hca_os::mapping::{Mapping, MappingRights};
use verbena_hca_os::memfd::Memfd;
use verbena_hca_os::process_vm;
use verbena_hca_os::socket::Socket;
use verbena_hca_shm::context_table::ContextTable;
use verbena_hca_shm::registry::Identity;
use verbena_hca_shm::sleep;

/// The path that `VERBENA_PATH` forces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Shared pages, and the ring for unshared ones.
    Mapped,
    /// The kernel's copies, and the ring for atomics.
    Cma,
    /// The ring alone.
    Ring,
}

impl Forced {
    /// Returns the path that the environment forces.
    ///
    /// # Errors
    /// EINVAL, after a line on standard error, for an unknown path.
    pub fn from_environment() -> Result<Option<Forced>> {
        match std::env::var("VERBENA_PATH").as_deref() {
            Err(_) | Ok("") => Ok(None),
            Ok("mapped") => Ok(Some(Forced::Mapped)),
            Ok("cma") => Ok(Some(Forced::Cma)),
            Ok("ring") => Ok(Some(Forced::Ring)),
            Ok(other) => {
                eprintln!("verbena: VERBENA_PATH is `{other}`; use mapped, cma or ring");
                Err(Errno::EINVAL)
            }
        }
    }
}

/// A peer: another process of this host, or this one.
pub struct Peer {
    /// Its identity.
    pub identity: Identity,
    /// Its queue pairs and keys.
    pub contexts: Arc<ContextTable>,
    /// Its process id in this PID namespace.
    pub pid: i32,
    reach: Reach,
    dead: AtomicBool,
    /// The value of its word `armed` for which its doorbell was last rung.
    rung: AtomicU64,
    line: Line,
}

/// Means of ringing the peer's doorbell.
enum Line {
    /// The connection, whose end reports the peer's death. No descriptor that a peer handed over is
    /// written to: that could block or kill this process.
    Socket(Socket),
    /// The doorbell of this process.
    Own(Doorbell),
}

/// Means of access to the peer's memory.
struct Reach {
    forced: Option<Forced>,
    arena: Option<ArenaView>,
    /// Address of the arena in the peer's own address space.
    arena_base: u64,
    /// process_vm_* was probed and works.
    cma: bool,
    /// The peer is this process itself.
    own: bool,
}

enum ArenaView {
    Mapped(Mapping),
    Own { base: usize, length: usize },
}

/// Direction of an access at a [`AccessMethod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bytes are read from there.
    Load,
    /// Bytes are written there.
    Store,
}

/// Means of access to a piece of a peer's memory.
#[derive(Clone, Copy, Debug)]
pub enum AccessMethod {
    /// The piece is in this address space: pages of an arena, or a local mapping.
    Pointer(*mut u8),
    /// The kernel copies from or to this address of process `pid`.
    Kernel {
        /// The process.
        pid: i32,
        /// The address there.
        address: u64,
    },
    /// Memory of this process that the application may have unmapped: the kernel checks the
    /// address.
    Own(u64),
    /// Reads as zeros, discards writes.
    Null,
    /// Only the peer itself can access it.
    Unreachable,
}

/// The peer's description of itself from the connection handshake.
pub struct Introduction {
    /// Its identity.
    pub identity: Identity,
    /// Length of its arena in bytes, 0 for none.
    pub arena_length: usize,
    /// Address of the arena in the peer's own address space.
    pub arena_base: u64,
    /// Address and value of a word in its memory, to probe process_vm_readv with.
    pub probe: (u64, u64),
    /// Its context table.
    pub contexts: OwnedFd,
    /// Its arena, if it has one.
    pub arena: Option<OwnedFd>,
}

impl Peer {
    /// Probes the paths to a peer that has introduced itself over `socket`.
    ///
    /// # Errors
    /// Those of [`ContextTable::of_peer`].
    pub fn from_introduction(
        introduction: Introduction,
        socket: Socket,
        pid: i32,
        forced: Option<Forced>,
    ) -> Result<Peer> {
        let arena = match introduction.arena {
            Some(fd) if matches!(forced, None | Some(Forced::Mapped)) => {
                // Without enough address space (under a limit, say), the other paths are used.
                Memfd::adopt(fd, introduction.arena_length)
                    .and_then(|memfd| Mapping::of(&memfd, MappingRights::ReadWrite))
                    .ok()
                    .map(ArenaView::Mapped)
            }
            _ => None,
        };
        let arena_base = introduction.arena_base;
        let cma = matches!(forced, None | Some(Forced::Cma)) && probe(pid, introduction.probe);
        Ok(Peer {
            identity: introduction.identity,
            contexts: Arc::new(ContextTable::of_peer(introduction.contexts)?),
            pid,
            reach: Reach {
                forced,
                arena,
                arena_base,
                cma,
                own: false,
            },
            dead: AtomicBool::new(false),
            rung: AtomicU64::new(0),
            line: Line::Socket(socket),
        })
    }

    /// Returns this process as a peer of itself.
    pub fn own(
        identity: Identity,
        contexts: Arc<ContextTable>,
        arena: Option<&Arena>,
        doorbell: Doorbell,
        forced: Option<Forced>,
    ) -> Peer {
        let arena_base = arena.map_or(0, Arena::base);
        let arena = arena.map(|arena| ArenaView::Own {
            base: arena.base() as usize,
            length: arena.length(),
        });
        Peer {
            identity,
            contexts,
            pid: std::process::id() as i32,
            reach: Reach {
                forced,
                arena,
                arena_base,
                cma: true,
                own: true,
            },
            dead: AtomicBool::new(false),
            rung: AtomicU64::new(0),
            line: Line::Own(doorbell),
        }
    }

    /// Returns the means of access to a piece of the peer's memory.
    ///
    /// Only pages of its arena are ever written by other processes. A process may be stopped inside
    /// a copy for any time and go on after the owner has ended its right. Pages of the arena can be
    /// moved away from under such a copy; an address of the application cannot.
    #[inline]
    pub fn access_method(&self, piece: Piece, direction: Direction) -> AccessMethod {
        match (piece, self.reach.forced) {
            (Piece::Null { .. }, _) => AccessMethod::Null,
            (_, Some(Forced::Ring)) => AccessMethod::Unreachable,
            (Piece::Arena { offset, length }, forced) => {
                match self.arena_pointer(offset, length) {
                    Some(pointer) if forced != Some(Forced::Cma) => AccessMethod::Pointer(pointer),
                    // The address at which the peer itself sees its arena: these pages stay when
                    // the application unmaps its range.
                    _ => self.kernel(self.reach.arena_base.wrapping_add(offset)),
                }
            }
            (Piece::Mapping { address, .. }, _) if self.reach.own => {
                AccessMethod::Pointer(address as *mut u8)
            }
            (Piece::Mapping { .. }, _) => AccessMethod::Unreachable,
            (Piece::Address { address, .. }, _) if self.reach.own => AccessMethod::Own(address),
            (Piece::Address { address, .. }, _) if direction == Direction::Load => {
                self.kernel(address)
            }
            (Piece::Address { .. }, _) => AccessMethod::Unreachable,
        }
    }

    #[inline]
    fn kernel(&self, address: u64) -> AccessMethod {
        if self.reach.cma && self.reach.forced != Some(Forced::Mapped) {
            AccessMethod::Kernel {
                pid: self.pid,
                address,
            }
        } else {
            AccessMethod::Unreachable
        }
    }

    fn arena_pointer(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        match self.reach.arena.as_ref()? {
            ArenaView::Mapped(mapping) if end <= mapping.length() => {
                // SAFETY: the range was just checked to lie inside the mapping.
                Some(unsafe { mapping.base().add(offset) })
            }
            ArenaView::Own { base, length } if end <= *length => Some((base + offset) as *mut u8),
            _ => None,
        }
    }

    /// Returns the paths by which this process can fetch large payloads from the peer's memory, as
    /// bits ([`PULL_ARENA`], [`PULL_ANY`]).
    pub fn pull_ability(&self) -> u32 {
        let arena = u32::from(self.reach.arena.is_some()) * PULL_ARENA;
        let any = u32::from(self.reach.cma || self.reach.own) * PULL_ANY;
        match self.reach.forced {
            None => arena | any,
            Some(Forced::Mapped) => arena | (u32::from(self.reach.own) * PULL_ANY),
            Some(Forced::Cma) => any,
            Some(Forced::Ring) => 0,
        }
    }

    /// Returns the name of the path that most operations take.
    pub fn path_name(&self) -> &'static str {
        match self.reach.forced {
            Some(Forced::Ring) => "ring",
            Some(Forced::Cma) if self.reach.cma => "cma",
            None | Some(Forced::Mapped) if self.reach.arena.is_some() => "mapped",
            None if self.reach.cma => "cma",
            _ => "ring",
        }
    }

    /// Wakes the peer's progress thread if it sleeps, for work that was published before this call
    /// ([`sleep`]).
    #[inline]
    pub fn wake(&self) {
        sleep::ring_if_armed(self.contexts.armed(), &self.rung, || match &self.line {
            Line::Socket(socket) => socket.ring(),
            Line::Own(doorbell) => {
                doorbell.ring();
                true
            }
        });
    }

    /// Returns whether the peer is known to be dead.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Returns whether the peer has begun to exit, which is known earlier than its death: it
    /// answers no more, although one of its threads may still be inside an operation.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.contexts.was_left()
    }

    /// Notes that the peer is dead, or is treated as such because it breaks the protocol.
    pub fn declare_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Returns address and length of the peer's memory that is mapped here: its context table and
    /// arena.
    pub fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let mut ranges = vec![self.contexts.range()];
        if let Some(ArenaView::Mapped(mapping)) = &self.reach.arena {
            ranges.push((mapping.base() as usize, mapping.length()));
        }
        ranges
    }

    /// Returns the connection whose end reports the peer's death; None for this process itself.
    pub fn socket(&self) -> Option<&Socket> {
        match &self.line {
            Line::Socket(socket) => Some(socket),
            Line::Own(_) => None,
        }
    }
}

/// Bit of [`Peer::pull_ability`]: pages in the arena.
pub const PULL_ARENA: u32 = 1;
/// Bit of [`Peer::pull_ability`]: any page.
pub const PULL_ANY: u32 = 2;

fn probe(pid: i32, (address, value): (u64, u64)) -> bool {
    let mut word = [0u8; 8];
    // SAFETY: 8 writable bytes.
    let read = unsafe { process_vm::read(pid, address, word.as_mut_ptr(), 8) };
    read.is_ok() && u64::from_ne_bytes(word) == value
}

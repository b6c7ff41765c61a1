//! How a process reaches a peer's memory.
//!
//! The contract, equal for every path: an operation has the same effects, the same order and the same completion status
//! whichever path it takes; only its cost differs. Paths, best first:
//! - `mapped`: the peer's arena is in our address space; an operation is a memory copy or a CPU atomic;
//! - `cma`: the kernel copies (`process_vm_readv`, `process_vm_writev`);
//! - `ring`: the bytes go through the channel and the peer copies.
//!
//! What a path cannot do for a range (an atomic by `cma`, a page outside the arena by `mapped`), the next one does.

use crate::errno::{Errno, Result};
use crate::memory::arena::Arena;
use crate::memory::place::Piece;
use crate::shm::context_table::ContextTable;
use crate::shm::registry::Identity;
use crate::shm::sleep;
use crate::sys::doorbell::Doorbell;
use crate::sys::mapping::{Mapping, Rights};
use crate::sys::memfd::Memfd;
use crate::sys::process_vm;
use crate::sys::socket::Socket;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The path that `VERBENA_PATH` forces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forced {
    /// Shared pages, and the ring for what is not shared.
    Mapped,
    /// The kernel's copies, and the ring for atomics.
    Cma,
    /// The ring alone.
    Ring,
}

impl Forced {
    /// What the environment says.
    ///
    /// # Errors
    /// EINVAL, after a line on standard error, for a word that is no path.
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

/// Another process, or this one.
pub struct Peer {
    /// Which.
    pub identity: Identity,
    /// Its queue pairs and keys.
    pub contexts: Arc<ContextTable>,
    /// Its process id in our namespace.
    pub pid: i32,
    reach: Reach,
    dead: AtomicBool,
    /// What of its word `armed` was rung for last.
    rung: AtomicU64,
    line: Line,
}

/// How its progress thread is rung.
enum Line {
    /// Through the connection, whose end tells of the peer's death. Nothing that a peer hands over is written to: it could
    /// block us or kill us.
    Socket(Socket),
    /// It is ours.
    Own(Doorbell),
}

/// How its memory is reached.
struct Reach {
    forced: Option<Forced>,
    arena: Option<ArenaView>,
    /// Where the peer itself sees its arena.
    arena_base: u64,
    /// process_vm_* was probed and works.
    cma: bool,
    /// The peer is this very process.
    own: bool,
}

enum ArenaView {
    Mapped(Mapping),
    Own { base: usize, length: usize },
}

/// What is to be done at the other end of a [`Way`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Bytes come from there.
    Load,
    /// Bytes go there.
    Store,
}

/// A piece of a peer's memory, by how we get there.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    /// It is in our address space: pages of an arena, or a mapping of our own.
    Pointer(*mut u8),
    /// The kernel copies to or from this address of process `pid`.
    Kernel {
        /// The process.
        pid: i32,
        /// The address there.
        address: u64,
    },
    /// It is memory of this very process that the application may have unmapped: the kernel looks for us.
    Own(u64),
    /// Reads as zeros, swallows writes.
    Null,
    /// Only the peer itself gets there.
    Unreachable,
}

/// What a peer handed over when the connection was made.
pub struct Introduction {
    /// Who it is.
    pub identity: Identity,
    /// Length of its arena, 0 for none.
    pub arena_length: usize,
    /// Where it sees its arena itself.
    pub arena_base: u64,
    /// Address and value of a word in its memory, to try process_vm_readv on.
    pub probe: (u64, u64),
    /// Its context table.
    pub contexts: OwnedFd,
    /// Its arena, if it has one.
    pub arena: Option<OwnedFd>,
}

impl Peer {
    /// Probes the paths to a peer that has introduced itself over `socket`.
    pub fn meet(
        introduction: Introduction,
        socket: Socket,
        pid: i32,
        forced: Option<Forced>,
    ) -> Result<Peer> {
        let arena = match introduction.arena {
            Some(fd) if matches!(forced, None | Some(Forced::Mapped)) => {
                // No address space left, say under a limit: the other paths do.
                Memfd::adopt(fd, introduction.arena_length)
                    .and_then(|memfd| Mapping::of(&memfd, Rights::ReadWrite))
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

    /// This process as a peer of itself.
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

    /// How to get to a piece of the peer's memory.
    ///
    /// Nothing but pages of its arena is ever stored into by anybody but the peer itself. A process may be stopped inside
    /// a copy for as long as it likes; when it goes on, the owner may long have ended its right. Pages of the arena can be
    /// moved away from under it, an address of the application cannot.
    #[inline]
    pub fn way(&self, piece: Piece, direction: Direction) -> Way {
        match (piece, self.reach.forced) {
            (Piece::Null { .. }, _) => Way::Null,
            (_, Some(Forced::Ring)) => Way::Unreachable,
            (Piece::Arena { offset, length }, forced) => {
                match self.arena_pointer(offset, length) {
                    Some(pointer) if forced != Some(Forced::Cma) => Way::Pointer(pointer),
                    // Where the peer itself sees its arena: these pages stay when the application unmaps its range.
                    _ => self.kernel(self.reach.arena_base.wrapping_add(offset)),
                }
            }
            (Piece::Mapping { address, .. }, _) if self.reach.own => {
                Way::Pointer(address as *mut u8)
            }
            (Piece::Mapping { .. }, _) => Way::Unreachable,
            (Piece::Address { address, .. }, _) if self.reach.own => Way::Own(address),
            (Piece::Address { address, .. }, _) if direction == Direction::Load => {
                self.kernel(address)
            }
            (Piece::Address { .. }, _) => Way::Unreachable,
        }
    }

    #[inline]
    fn kernel(&self, address: u64) -> Way {
        if self.reach.cma && self.reach.forced != Some(Forced::Mapped) {
            Way::Kernel {
                pid: self.pid,
                address,
            }
        } else {
            Way::Unreachable
        }
    }

    fn arena_pointer(&self, offset: u64, length: usize) -> Option<*mut u8> {
        let offset = usize::try_from(offset).ok()?;
        let end = offset.checked_add(length)?;
        match self.reach.arena.as_ref()? {
            ArenaView::Mapped(mapping) if end <= mapping.length() => {
                // SAFETY: the range lies inside the mapping, just checked; offsets from the peer's context table get no further.
                Some(unsafe { mapping.base().add(offset) })
            }
            ArenaView::Own { base, length } if end <= *length => Some((base + offset) as *mut u8),
            _ => None,
        }
    }

    /// Whether large payloads in this peer's memory can be fetched by us: which paths, as bits ([`PULL_ARENA`],
    /// [`PULL_ANY`]).
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

    /// Name of the path that most operations take.
    pub fn path_name(&self) -> &'static str {
        match self.reach.forced {
            Some(Forced::Ring) => "ring",
            Some(Forced::Cma) if self.reach.cma => "cma",
            None | Some(Forced::Mapped) if self.reach.arena.is_some() => "mapped",
            None if self.reach.cma => "cma",
            _ => "ring",
        }
    }

    /// Wakes the peer's progress thread if it sleeps, for what has been published before ([`sleep`]).
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

    /// Whether the peer is known to be gone.
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Whether the peer has begun to end, which is known sooner than that it is gone: nothing answers any more, though a
    /// thread of it may still be in the midst of something.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.contexts.was_left()
    }

    /// Notes that the peer is gone, or is treated as such because it breaks the protocol.
    pub fn declare_dead(&self) {
        self.dead.store(true, Ordering::Release);
    }

    /// Address and length of what of the peer is mapped here, its context table and arena.
    pub fn shared_mappings(&self) -> Vec<(usize, usize)> {
        let mut ranges = vec![self.contexts.range()];
        if let Some(ArenaView::Mapped(mapping)) = &self.reach.arena {
            ranges.push((mapping.base() as usize, mapping.length()));
        }
        ranges
    }

    /// The connection whose end is the peer's death; None for this process itself.
    pub fn socket(&self) -> Option<&Socket> {
        match &self.line {
            Line::Socket(socket) => Some(socket),
            Line::Own(_) => None,
        }
    }
}

/// In [`Peer::pull_ability`]: pages in the arena.
pub const PULL_ARENA: u32 = 1;
/// In [`Peer::pull_ability`]: any page.
pub const PULL_ANY: u32 = 2;

fn probe(pid: i32, (address, value): (u64, u64)) -> bool {
    let mut word = [0u8; 8];
    // SAFETY: 8 writable bytes.
    let read = unsafe { process_vm::read(pid, address, word.as_mut_ptr(), 8) };
    read.is_ok() && u64::from_ne_bytes(word) == value
}

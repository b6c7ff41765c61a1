//! Registered memory: keys, regions, windows, device memory, and the arena in which registered pages live.
//!
//! Registering a private anonymous range moves its whole pages into the process's arena, a shared memory file mapped
//! over the same addresses, so that peers reach them by a memory copy. What cannot be moved (pages only partly inside
//! the region, files, stacks, huge pages, read-only memory) stays where it is: peers may read it through
//! `process_vm_readv`, and only the owner itself writes it. A record of both is kept among the keys of the context table.
//!
//! | file | has |
//! |---|---|
//! | [`region`], [`window`], [`device`], [`dmabuf`], [`advice`] | the verbs' objects |
//! | [`key`], [`place`] | keys, what they stand for, and the check of them |
//! | [`adopt`], [`restore`], [`evict`], [`fork`] | pages into the arena, out of it, to another place in it, and to a child |
//! | [`pages`] | when they may move |
//! | [`pins`], [`extents`], [`interval`], [`quarantine`] | the books: plain data structures without system calls |
//! | [`quiet`] | nobody else touches pages that change their home |
//! | [`transfer`] | moving bytes |

pub mod adopt;
pub mod advice;
pub mod arena;
pub mod device;
pub mod dmabuf;
pub mod evict;
pub(crate) mod explain;
pub mod extents;
pub mod fork;
pub mod interval;
pub mod key;
pub mod pages;
pub mod pins;
pub mod place;
#[cfg(test)]
mod private_tests;
pub mod quarantine;
pub mod quiet;
pub mod region;
pub mod restore;
pub mod transfer;
pub mod window;

use crate::planted::{self, Fault};
use crate::process::Process;
use crate::process::fence::Held;
use quarantine::Release;
use std::sync::Arc;

/// Peers that are stopped in the midst of an access.
struct Stopped(Arc<[Held]>);

impl Stopped {
    /// Says whether they have all left it.
    fn release(&self) -> Release {
        let held = self.0.clone();
        Arc::new(move || held.iter().all(Held::is_over))
    }

    /// Waits for them, and gives up those that do not go on: for memory that can be taken from them
    /// in no other way.
    fn wait_or_cut_off(&self) {
        self.0.iter().for_each(Held::wait_or_cut_off);
    }
}

/// Waits until nobody touches memory by a key that was revoked before, but for peers that are
/// stopped: those are returned.
/// Holds no lock, because a thread that serves a peer may need it.
fn fence(process: &Process) -> Option<Stopped> {
    if planted::is(Fault::DeregFence) {
        return None;
    }
    let held = process.wait_for_sections();
    (!held.is_empty()).then(|| Stopped(held.into()))
}

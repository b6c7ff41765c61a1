//! Registered memory: keys, regions, windows, device memory, and the arena that backs registered
//! pages.
//!
//! Registering a private anonymous range moves its whole pages into the process's arena, a shared
//! memory file mapped over the same addresses, so that peers reach them by a memory copy. Pages
//! that cannot be moved (those only partly inside the region, files, stacks, huge pages, read-only
//! memory) stay in place: peers may read them through `process_vm_readv`, and only the owner itself
//! writes them. The keys in the context table record both kinds.
//!
//! | file | contents |
//! |---|---|
//! | [`region`], [`window`], [`device`], [`dmabuf`], [`advice`] | the verbs' objects |
//! | [`key`], [`resolve`] | keys, their meaning, and their check |
//! | [`adopt`], [`restore`], [`evict`], [`fork`] | page moves: in, out, in the arena, to a child |
//! | [`pages`] | the rule for when pages may move |
//! | [`pins`], [`extents`], [`interval`], [`quarantine`] | data structures without system calls |
//! | [`quiet`] | keeps other threads from pages that move |
//! | [`transfer`] | moves bytes |

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
#[cfg(test)]
mod private_tests;
pub mod quarantine;
pub mod quiet;
pub mod region;
pub mod resolve;
pub mod restore;
pub mod transfer;
#[cfg(test)]
mod unallocated;
pub mod window;

use crate::fault_injection::{self, Fault};
use crate::process::Process;
use crate::process::fence::Held;
use quarantine::Release;
use std::sync::Arc;

/// Peers that are stopped inside an access.
struct Stopped(Arc<[Held]>);

impl Stopped {
    /// Returns the condition that they have all left it.
    fn release(&self) -> Release {
        let held = self.0.clone();
        Arc::new(move || held.iter().all(Held::is_over))
    }

    /// Waits for them, and cuts off those that do not go on: for memory that cannot be moved away
    /// from them.
    fn wait_or_cut_off(&self) {
        self.0.iter().for_each(Held::wait_or_cut_off);
    }
}

/// Waits until no thread touches memory by a key that was revoked before, except for stopped peers,
/// which are returned. Holds no lock, because a thread that serves a peer may need it.
fn fence(process: &Process) -> Option<Stopped> {
    if fault_injection::is(Fault::DeregFence) {
        return None;
    }
    let held = process.wait_for_sections();
    (!held.is_empty()).then(|| Stopped(held.into()))
}

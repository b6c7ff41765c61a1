//! Registered memory: keys, regions, windows, device memory, and the arena in which registered pages live.
//!
//! Registering a private anonymous range moves its whole pages into the process's arena, a shared memory file mapped
//! over the same addresses, so that peers reach them by a memory copy. What cannot be moved (pages only partly inside
//! the region, files, stacks, huge pages, read-only memory) stays where it is: peers may read it through
//! `process_vm_readv`, and only the owner itself writes it. A record of both is kept among the keys of the context table.
//!
//! | file | has |
//! |---|---|
//! | [`region`], [`window`], [`device`], [`advice`] | the verbs' objects |
//! | [`key`], [`place`] | keys, what they stand for, and the check of them |
//! | [`adopt`], [`restore`], [`evict`], [`fork`] | pages into the arena, out of it, to another place in it, and to a child |
//! | [`pins`], [`extents`], [`interval`], [`quarantine`] | the books: plain data structures without system calls |
//! | [`quiet`] | nobody else touches pages that change their home |
//! | [`transfer`] | moving bytes |

pub mod adopt;
pub mod advice;
pub mod arena;
pub mod device;
pub mod evict;
pub(crate) mod explain;
pub mod extents;
pub mod fork;
pub mod interval;
pub mod key;
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
use quarantine::Release;

/// Waits until nobody touches memory by a key that was revoked before. Holds no lock, because a thread that serves a
/// peer may need it. Returns when what the key named may be used by others, if that is not now: somebody who is stopped
/// may still write there.
fn fence(process: &Process) -> Option<Release> {
    if planted::is(Fault::DeregFence) {
        return None;
    }
    let held = process.wait_for_sections();
    (!held.is_empty()).then(|| -> Release {
        std::sync::Arc::new(move || held.iter().all(crate::process::fence::Held::is_over))
    })
}

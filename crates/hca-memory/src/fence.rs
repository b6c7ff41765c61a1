//! Fencing: waits until no access under a revoked right is in progress.
//!
//! To end a right (deregister or move a region, invalidate a window, reset or fail a queue pair,
//! revoke its access), a thread first makes the right invalid and then fences. Sections that begin
//! later see the right ended; those that began before are waited for.
//!
//! A peer that is stopped inside a section is not waited for, because it may stay stopped for ever.
//! When it goes on it can still do two things: copy from memory that it may no longer read, a copy
//! that it discards because it checks the right once more at the end; and copy into pages of the
//! local arena. So those pages are moved away from under it.

use crate::evict::evict;
use crate::peers::Held;
use crate::planted::{self, Bug};
use crate::process_memory::ProcessMemory;
use crate::quarantine::Release;
use std::sync::Arc;
use verbena_hca_os::errno::Errno;

/// Peers that are stopped inside an access.
pub(super) struct Stopped(Arc<[Held]>);

impl Stopped {
    /// Returns the condition that they have all left it.
    pub(super) fn release(&self) -> Release {
        let held = self.0.clone();
        Arc::new(move || held.iter().all(|held| held.is_over()))
    }

    /// Waits for them, and cuts off those that do not go on: for memory that cannot be moved away
    /// from them.
    pub(super) fn wait_or_cut_off(&self) {
        self.0.iter().for_each(|held| held.wait_or_cut_off());
    }
}

impl ProcessMemory {
    /// Waits for the open sections, and moves memory away that a stopped peer may be copying into.
    ///
    /// May be called with locks held that no section waits for; not inside a section.
    pub fn fence(&self) {
        for held in self.wait_for_sections() {
            let release: Release = Arc::new({
                let held = held.clone();
                move || held.is_over()
            });
            let others = || drop(self.wait_for_sections());
            match evict(self, held.key(), &others, &release) {
                // If the key is not valid any more, the thread that ended it has handled its pages.
                Ok(()) | Err(Errno::ENOENT) => (),
                Err(_) => held.wait_or_cut_off(),
            }
        }
    }

    /// Waits until every section that was open at the call has ended. Returns those of stopped
    /// peers.
    pub fn wait_for_sections(&self) -> Vec<Held> {
        if self.is_inherited() {
            return Vec::new();
        }
        self.own_marks().wait();
        let peers = self.peers();
        peers.map_or_else(Vec::new, |peers| peers.wait_for_sections())
    }

    /// Waits until no thread touches memory by a key that was revoked before, except for stopped
    /// peers, which are returned. Holds no lock, because a thread that serves a peer may need it.
    pub(super) fn fence_revoked(&self) -> Option<Stopped> {
        if planted::is(Bug::DeregFence) {
            return None;
        }
        let held = self.wait_for_sections();
        (!held.is_empty()).then(|| Stopped(held.into()))
    }
}

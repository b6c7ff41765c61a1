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

use crate::memory::evict::evict;
use crate::memory::quarantine::Release;
use crate::peer::Peer;
use crate::process::Process;
use crate::process::link::Inbound;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_hca_os::errno::Errno;
use verbena_hca_os::sync::wait_a_little;
use verbena_hca_shm::section::Stuck;

/// Time to wait for a peer's section. One lasts for a copy of a mebibyte; a peer that takes longer
/// is stopped or waits for a processor, and then costs a copy of the memory that it holds.
const TIMEOUT: Duration = Duration::from_millis(50);

/// The same where nothing can be moved.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// A section of a peer that was still open at the end of the wait.
#[derive(Clone)]
pub struct Held {
    inbound: Arc<Inbound>,
    stuck: Stuck,
}

impl Held {
    /// Returns the key of the memory that the peer may be copying into.
    pub fn key(&self) -> u32 {
        self.stuck.key
    }

    /// Returns whether the section or its process has ended.
    pub fn is_over(&self) -> bool {
        self.inbound.peer.is_dead()
            || !self
                .inbound
                .channel
                .requester_sections()
                .is_open(&self.stuck)
    }
}

impl Held {
    /// Waits longer, and finally treats the process as dead; for pages that cannot be moved away
    /// (no userfaultfd, no memory, or device memory).
    pub fn wait_or_cut_off(&self) {
        let limit = Instant::now() + LAST_TIMEOUT;
        let mut looks = 0;
        while !self.is_over() {
            if Instant::now() > limit {
                self.inbound.peer.declare_dead();
            }
            wait_a_little(&mut looks);
        }
    }
}

impl Process {
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
        let mut held = Vec::new();
        if self.is_inherited() {
            return held;
        }
        self.own_marks.wait();
        let channels = self.channels();
        for inbound in &channels.inbound {
            inbound.wait_for_sections();
            let peer = &inbound.peer;
            // This process's requests to itself are waited for below.
            if is_own(peer) {
                continue;
            }
            let sections = inbound.channel.requester_sections();
            let stuck = sections.wait(TIMEOUT, || peer.is_dead());
            held.extend(stuck.into_iter().map(|stuck| Held {
                inbound: inbound.clone(),
                stuck,
            }));
        }
        for outbound in &channels.outbound {
            outbound.wait_for_sections();
            let peer = &outbound.peer;
            if !is_own(peer) {
                // The peer only reads, and checks afterwards that the request was still valid.
                let sections = outbound.channel.responder_sections();
                let _ = sections.wait(TIMEOUT, || peer.is_dead());
            }
        }
        held
    }
}

fn is_own(peer: &Peer) -> bool {
    peer.socket().is_none()
}

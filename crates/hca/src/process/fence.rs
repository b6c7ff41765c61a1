//! Fencing: what a right allowed has ended when this returns.
//!
//! Whoever ends a right - deregisters or moves a region, invalidates a window, resets or fails a queue pair, revokes its
//! access - makes the right invalid first and then fences. Sections that begin later find the right gone; those that
//! began before are waited for.
//!
//! A peer that is stopped inside a section is not waited for, for it may stay so for ever. It can still do two things when
//! it goes on: copy from memory that is not its to read any more, which it throws away because it looks at the right once
//! more when it is done; and copy into pages of our arena. So those pages are moved away from under it.

use crate::errno::Errno;
use crate::memory::evict::evict;
use crate::memory::quarantine::Release;
use crate::path::Peer;
use crate::process::Process;
use crate::process::link::Inbound;
use crate::shm::section::Stuck;
use crate::sync::wait_a_little;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a section of a peer is waited for. One lasts for a copy of a mebibyte; a peer that takes longer is stopped, or
/// is kept waiting for a processor, and then it costs a copy of the memory that it holds.
const PATIENCE: Duration = Duration::from_millis(50);

/// The same where nothing can be moved.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// A section of a peer that was still open when patience ended.
#[derive(Clone)]
pub struct Held {
    inbound: Arc<Inbound>,
    stuck: Stuck,
}

impl Held {
    /// Key of the memory that the peer may be copying into.
    pub fn key(&self) -> u32 {
        self.stuck.key
    }

    /// Whether the section has ended, or its process.
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
    /// The pages cannot be moved away (no userfaultfd, no memory, or device memory): waits longer, and treats the process
    /// as dead in the end.
    pub fn wait_or_cut_off(&self) {
        let limit = Instant::now() + LAST_PATIENCE;
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
    /// Waits for the sections that are open, and moves away what a stopped peer may be copying into.
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
                // A key that is not valid any more: whoever ended it has seen to its pages.
                Ok(()) | Err(Errno::ENOENT) => (),
                Err(_) => held.wait_or_cut_off(),
            }
        }
    }

    /// Waits until every section that was open when this was called has ended; gives those of peers that are stopped.
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
            // Our own requests to ourselves are waited for below.
            if is_own(peer) {
                continue;
            }
            let sections = inbound.channel.requester_sections();
            let stuck = sections.wait(PATIENCE, || peer.is_dead());
            held.extend(stuck.into_iter().map(|stuck| Held {
                inbound: inbound.clone(),
                stuck,
            }));
        }
        for outbound in &channels.outbound {
            outbound.wait_for_sections();
            let peer = &outbound.peer;
            if !is_own(peer) {
                // Only ever reads, and looks afterwards whether it was still asked to.
                let sections = outbound.channel.responder_sections();
                let _ = sections.wait(PATIENCE, || peer.is_dead());
            }
        }
        held
    }
}

fn is_own(peer: &Peer) -> bool {
    peer.socket().is_none()
}

//! Waits for the access sections of peers ([`verbena_hca_memory::fence`]).

use crate::process::Inbound;
use crate::process::Process;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::peers::{Held, OpenSection, Peers};
use verbena_hca_os::sync::wait_a_little;
use verbena_hca_shm::section::{Stuck, WordUnderWay};

/// Time to wait for a peer's section. One lasts for a copy of a mebibyte; a peer that takes longer
/// is stopped or waits for a processor, and then costs a copy of the memory that it holds.
const TIMEOUT: Duration = Duration::from_millis(50);

/// The same where nothing can be moved.
const LAST_TIMEOUT: Duration = Duration::from_secs(2);

/// A section of a peer that was still open at the end of the wait.
struct HeldSection {
    inbound: Arc<Inbound>,
    stuck: Stuck,
}

impl OpenSection for HeldSection {
    fn key(&self) -> u32 {
        self.stuck.key
    }

    fn is_over(&self) -> bool {
        self.inbound.peer.is_dead()
            || !self
                .inbound
                .channel
                .requester_sections()
                .is_open(&self.stuck)
    }

    fn wait_or_cut_off(&self) {
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

impl Peers for Process {
    fn wait_for_sections(&self) -> Vec<Held> {
        let mut held: Vec<Held> = Vec::new();
        let channels = self.channels.snapshot();
        for inbound in &channels.inbound {
            inbound.wait_for_sections();
            let peer = &inbound.peer;
            // This process's requests to itself are waited for below.
            if is_own(peer) {
                continue;
            }
            let sections = inbound.channel.requester_sections();
            let stuck = sections.wait(TIMEOUT, || peer.is_dead());
            for stuck in stuck {
                let inbound = inbound.clone();
                held.push(Arc::new(HeldSection { inbound, stuck }));
            }
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

    fn with_pending_atomics(&self, action: &mut dyn FnMut(&[WordUnderWay<'_>])) {
        let channels = self.channels.snapshot();
        let words: Vec<_> = channels
            .inbound
            .iter()
            .flat_map(|inbound| inbound.channel.requester_sections().words_under_way())
            .collect();
        action(&words);
    }
}

fn is_own(peer: &Peer) -> bool {
    peer.socket().is_none()
}

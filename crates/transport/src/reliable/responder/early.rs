//! Early requests: those that arrive ahead of the expected PSN, behind a lost packet.
//!
//! The specification lets a responder drop them (9.7.5.1.3): the requester then retransmits them.
//! It also permits keeping them, because the responder's answers are the same: one NAK for the
//! first missing packet, then an acknowledgement of the last executed one. A requester that
//! retransmits only the missing packet learns from the acknowledgement that the others have
//! arrived, and one that retransmits all has sent duplicates. This needs no negotiation and no
//! private header.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use verbena_wire::Psn;
use verbena_wire::packet::{Headers, Packet};

/// Limit for all responders of a process together, so that a peer that sends gaps to thousands of
/// queue pairs does not get more memory.
const MOST_BYTES: usize = 32 << 20;
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// A request that arrived early.
#[derive(Debug)]
pub struct EarlyRequest {
    headers: Headers,
    payload: Box<[u8]>,
}

impl EarlyRequest {
    /// Returns a copy of a packet; `None` if the memory limit is reached.
    fn of(packet: &Packet<'_>) -> Option<Self> {
        reserve(weight(packet.payload)).then(|| Self {
            headers: packet.headers,
            payload: packet.payload.into(),
        })
    }

    /// Returns the packet.
    pub fn packet(&self) -> Packet<'_> {
        Packet {
            headers: self.headers,
            payload: &self.payload,
        }
    }

    fn psn(&self) -> Psn {
        self.headers.bth.psn
    }
}

/// Returns the memory that a request uses in bytes; a request without payload counts too.
fn weight(payload: &[u8]) -> usize {
    size_of::<EarlyRequest>() + payload.len()
}

/// Adds to the memory in use, unless that exceeds the limit.
fn reserve(bytes: usize) -> bool {
    let mut kept = BYTES.load(Ordering::Relaxed);
    loop {
        let more = kept + bytes;
        if more > MOST_BYTES {
            return false;
        }
        match BYTES.compare_exchange_weak(kept, more, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => kept = now,
        }
    }
}

impl Drop for EarlyRequest {
    fn drop(&mut self) {
        BYTES.fetch_sub(weight(&self.payload), Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<EarlyRequest>,
}

impl Early {
    /// Keeps a request, unless it is kept already.
    pub(super) fn keep(&mut self, packet: &Packet<'_>) {
        let psn = packet.headers.bth.psn;
        let place = self
            .waiting
            .partition_point(|kept| kept.psn().precedes(psn));
        if self
            .waiting
            .get(place)
            .is_some_and(|kept| kept.psn() == psn)
        {
            return;
        }
        if let Some(request) = EarlyRequest::of(packet) {
            self.waiting.insert(place, request);
        }
    }

    /// Returns the request with the expected PSN and discards those before it, which have been
    /// executed from another copy.
    pub(super) fn take(&mut self, expected: Psn) -> Option<EarlyRequest> {
        while self.waiting.front()?.psn().precedes(expected) {
            self.waiting.pop_front();
        }
        let is_its_turn = self.waiting.front()?.psn() == expected;
        if is_its_turn {
            self.waiting.pop_front()
        } else {
            None
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.waiting = VecDeque::new();
    }
}

//! Requests that came before their turn, behind one that was lost.
//!
//! The specification lets a responder drop them (9.7.5.1.3): the requester sends them again. It also lets it keep them, for
//! what a responder says is the same: one NAK for the first that is missing, then an acknowledgement of the last that was
//! carried out. So a requester that sends only the missing one again learns by the acknowledgement that the rest is
//! there, and one that sends everything again has sent duplicates. Nothing is agreed on and no header is private.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

use verbena_wire::Psn;
use verbena_wire::packet::{Headers, Packet};

/// What all responders of a process keep together: who sends gaps to thousands of queue pairs does not get more memory.
const MOST_BYTES: usize = 32 << 20;
static BYTES: AtomicUsize = AtomicUsize::new(0);

/// A request that came before its turn.
#[derive(Debug)]
pub struct EarlyRequest {
    headers: Headers,
    payload: Box<[u8]>,
}

impl EarlyRequest {
    /// A copy of a packet; nothing when too much is kept already.
    fn of(packet: &Packet<'_>) -> Option<Self> {
        reserve(weight(packet.payload)).then(|| Self {
            headers: packet.headers,
            payload: packet.payload.into(),
        })
    }

    /// The packet that came.
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

/// What a request takes: one without payload is not for nothing.
fn weight(payload: &[u8]) -> usize {
    size_of::<EarlyRequest>() + payload.len()
}

/// Counts bytes of a request that is kept, unless that exceeds the limit.
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

/// The early requests of a responder, by PSN.
#[derive(Debug, Default)]
pub(super) struct Early {
    waiting: VecDeque<EarlyRequest>,
}

impl Early {
    /// Keeps a request, unless it is there already.
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

    /// The request whose turn it is. What has come again meanwhile is forgotten.
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

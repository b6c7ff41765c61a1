//! The memory of plain requests that a send queue knows: the ranges that the last ones used.

use crate::process::lane_ends::OpenGate;
use std::sync::Arc;
use verbena_hca_memory::known_range::KnownRange;
use verbena_hca_memory::peer::Peer;
use verbena_hca_memory::planted::{self, Bug};
use verbena_hca_memory::resolve::AccessRequest;
use verbena_hca_shm::context_table::EndOfOwner;

/// A range of the responder's memory to which it grants writes, in its arena.
pub struct KnownTarget {
    /// The responder's process.
    pub peer: Arc<Peer>,
    /// Whether that ends.
    pub end: EndOfOwner,
    /// The gate with which the responder was found to answer, and to allow writes.
    pub gate: OpenGate,
    /// The range.
    pub range: KnownRange,
    /// Address of its first byte in this process, valid as long as `peer` is.
    pub first: usize,
}

impl KnownTarget {
    /// Returns whether the responder still answers, and allows writes.
    #[inline]
    pub fn is_open(&self) -> bool {
        (self.gate.is_unchanged() || planted::is(Bug::KnownGate))
            && !self.end.has_come()
            && !self.peer.is_dead()
    }
}

/// The memory of plain requests that a send queue knows.
pub struct KnownMemory {
    /// The range of the responder's memory that writes went to.
    pub target: Option<Box<KnownTarget>>,
    /// R_Key of the last write outside of the target, 0 if the last one was inside.
    pub missed: u32,
    /// A range of local memory that requests read.
    pub source: KnownRange,
}

impl KnownMemory {
    /// Returns an empty one, for a queue pair of a protection domain.
    pub fn new(pd: u32) -> KnownMemory {
        KnownMemory {
            target: None,
            missed: 0,
            source: KnownRange::new(AccessRequest::to_buffer(0, pd, 0)),
        }
    }

    /// Forgets the responder's memory: the queue pair has another responder, or none.
    pub fn forget_target(&mut self) {
        self.target = None;
    }
}

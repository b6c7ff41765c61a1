//! Creating queue pairs.

use crate::error::Result;
use crate::object::completion_queue::CompletionQueue;
use crate::object::domain::{ProtectionDomain, XrcDomain};
use crate::object::queue_pair::QueuePair;
use crate::object::shared_receive::SharedReceiveQueue;
use crate::qp::PairType;
use std::sync::Arc;

/// What to ask of a queue pair; start from [`PairOptions::new`].
#[derive(Clone, Copy)]
pub struct PairOptions<'a> {
    /// Its protection domain.
    pub domain: &'a Arc<ProtectionDomain>,
    /// Its type.
    pub pair_type: PairType,
    /// Where sends complete.
    pub send_completions: &'a Arc<CompletionQueue>,
    /// Where receives complete.
    pub receive_completions: &'a Arc<CompletionQueue>,
    /// Send queue depth.
    pub send_depth: u32,
    /// Receive queue depth; 0 with a shared receive queue.
    pub receive_depth: u32,
    /// Scatter/gather elements a request.
    pub segments: u32,
    /// Inline payload in bytes.
    pub inline: u32,
    /// Shared receive queue.
    pub shared: Option<&'a Arc<SharedReceiveQueue>>,
    /// XRC domain, for the receiving half of XRC.
    pub xrc: Option<&'a Arc<XrcDomain>>,
}

impl<'a> PairOptions<'a> {
    /// One completion queue for both directions, 128 deep, one segment, nothing inline.
    pub fn new(
        domain: &'a Arc<ProtectionDomain>,
        pair_type: PairType,
        completions: &'a Arc<CompletionQueue>,
    ) -> Self {
        PairOptions {
            domain,
            pair_type,
            send_completions: completions,
            receive_completions: completions,
            send_depth: 128,
            receive_depth: 128,
            segments: 1,
            inline: 0,
            shared: None,
            xrc: None,
        }
    }

    /// `ibv_create_qp(3)`.
    pub fn create(self) -> Result<QueuePair> {
        QueuePair::create(self)
    }
}

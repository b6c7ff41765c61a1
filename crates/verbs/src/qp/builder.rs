//! Creates queue pairs.

use crate::error::Result;
use crate::object::completion_queue::CompletionQueue;
use crate::object::domain::{ProtectionDomain, XrcDomain};
use crate::object::queue_pair::QueuePair;
use crate::object::shared_receive::SharedReceiveQueue;
use crate::qp::PairType;
use std::sync::Arc;

/// Options of a new queue pair; start from [`PairOptions::new`].
#[derive(Clone, Copy)]
pub struct PairOptions<'a> {
    /// Its protection domain.
    pub domain: &'a Arc<ProtectionDomain>,
    /// Its type.
    pub pair_type: PairType,
    /// Completion queue of sends.
    pub send_completions: &'a Arc<CompletionQueue>,
    /// Completion queue of receives.
    pub receive_completions: &'a Arc<CompletionQueue>,
    /// Send queue depth.
    pub send_depth: u32,
    /// Receive queue depth; 0 with a shared receive queue.
    pub receive_depth: u32,
    /// Scatter/gather elements per request.
    pub segments: u32,
    /// Maximum inline payload in bytes.
    pub inline: u32,
    /// Shared receive queue.
    pub shared: Option<&'a Arc<SharedReceiveQueue>>,
    /// XRC domain, for the XRC target.
    pub xrc: Option<&'a Arc<XrcDomain>>,
}

impl<'a> PairOptions<'a> {
    /// Returns options with one completion queue for both directions, depth 128, one segment, no
    /// inline payload.
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

    /// Creates the queue pair (`ibv_create_qp(3)`).
    ///
    /// # Errors
    ///
    /// The call fails or is not supported.
    pub fn create(self) -> Result<QueuePair> {
        QueuePair::create(self)
    }
}

//! Taking in what peers have acknowledged, before a transition that ends requests.
//!
//! An adapter of hardware processes acknowledgements without the program. So when a program learns from its peer that a
//! request was served, and goes to the error state, the request is complete and is not flushed. Here acknowledgements
//! are processed by whoever polls, and the program may not have polled since.

use crate::link;
use crate::qp::Qp;
use crate::sync::wait_a_little;
use std::sync::Arc;
use std::time::{Duration, Instant};
use verbena_abi::*;

/// How long the acknowledgement of a packet is waited for. The peer may have left it to its own next poll, or to its
/// progress thread, which comes within a few milliseconds.
const PATIENCE: Duration = Duration::from_millis(20);

impl Qp {
    /// Completes what was acknowledged, before state `to`. With none of the queue pair's locks held.
    pub(super) fn settle_before(self: &Arc<Qp>, to: ibv_qp_state) {
        let sends = matches!(self.state(), IBV_QPS_RTS | IBV_QPS_SQD | IBV_QPS_SQE);
        if to != IBV_QPS_ERR || !sends || self.sends_waiting().0 == 0 {
            return;
        }
        self.process.complete_acknowledged();
        if link::is_ethernet() {
            self.settle_packets();
        }
    }

    fn settle_packets(&self) {
        let limit = Instant::now() + PATIENCE;
        let mut looks = 0;
        while self.awaits_acknowledgement() {
            self.process.receive_packets_before_sleep();
            if Instant::now() > limit {
                return;
            }
            wait_a_little(&mut looks);
        }
    }

    fn awaits_acknowledgement(&self) -> bool {
        let send = self.lock_send();
        send.packets
            .as_ref()
            .is_some_and(|packets| packets.awaits_acknowledgement())
    }
}

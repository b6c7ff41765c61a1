//! Processes received acknowledgements before a transition that ends requests.
//!
//! A hardware adapter processes acknowledgements without the program. So if a program learns from
//! its peer that a request was served, and then enters the error state, the request is complete and
//! is not flushed. Here acknowledgements are processed by polling, and the program may not have
//! polled since.

use crate::link;
use crate::qp::Qp;
use crate::qp::send::SendQueue;
use crate::roce::receive::Packets;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use verbena_abi::*;
use verbena_hca_os::clock;
use verbena_hca_os::sync::wait_a_little;
use verbena_wire::Psn;

/// Nanoseconds to wait for the acknowledgement of a sent packet, including the first of a
/// connection. The peer may have left it to its own next poll, or to its progress thread, which
/// runs within a few milliseconds.
const TIMEOUT: u64 = 100_000_000;

/// Nanoseconds without waiting after one wait timed out: the peer of many queue pairs may be dead.
const REST: u64 = 1_000_000_000;

/// Time until which no queue pair waits.
static RESTS_UNTIL: AtomicU64 = AtomicU64::new(0);

impl Qp {
    /// Completes acknowledged requests before entering state `to`. The caller holds none of the
    /// queue pair's locks.
    pub(super) fn complete_acknowledged_before(self: &Arc<Qp>, to: ibv_qp_state) {
        if to != IBV_QPS_ERR || self.state() == IBV_QPS_ERR || self.sends_waiting().0 == 0 {
            return;
        }
        self.process.complete_acknowledged();
        if link::is_ethernet() {
            self.await_sent_packets();
        }
    }

    /// Waits for the acknowledgement of the packets sent so far, but not of packets sent from now
    /// on.
    fn await_sent_packets(&self) {
        let sent_until = |send: &SendQueue| send.packets.as_ref()?.sent_until();
        let Some(until) = sent_until(&self.lock_send()) else {
            return;
        };
        let start = clock::now();
        let mut looks = 0;
        while self.awaits_acknowledgement(until) {
            Packets::of(&*self.process).receive_before_sleep();
            let now = clock::now();
            if now < RESTS_UNTIL.load(Ordering::Relaxed) {
                return;
            }
            if now > start + TIMEOUT {
                RESTS_UNTIL.store(now + REST, Ordering::Relaxed);
                return;
            }
            wait_a_little(&mut looks);
        }
    }

    fn awaits_acknowledgement(&self, until: Psn) -> bool {
        let send = self.lock_send();
        let packets = send.packets.as_ref();
        packets.is_some_and(|packets| packets.awaits_acknowledgement(until))
    }
}

//! Congestion control in the adapter: paces queue pairs and sends congestion notifications.
//!
//! Rate and notification state belong to the queue pair: a connection is a flow. A paced flow waits
//! before its payload is requested from memory, so it occupies no buffer space needed by others.
//! Datagrams are neither paced nor notified of.

use super::load::Held;
use super::pair::Pair;
use crate::component::{Flow, Load, Sent};
use std::rc::Rc;

impl Pair {
    /// Returns the current rate limit in bytes per second.
    pub fn rate(&self) -> f64 {
        let now = self.adapter.sim.now();
        match &self.paced {
            Some(paced) => paced.reaction.borrow_mut().rate(now).0,
            None => self.adapter.network.link().rate.0,
        }
    }

    /// Handles the arrival of a marked load of `source`: notifies it, unless it was notified within
    /// the interval.
    pub(super) fn take_mark(self: &Rc<Self>, source: &Rc<Pair>) {
        let (Some(paced), Some(congestion)) = (&self.paced, &self.adapter.congestion) else {
            return;
        };
        let (now, interval) = (self.adapter.sim.now(), congestion.telling.interval);
        if paced.told.borrow_mut().marked(now, interval) {
            let tell = self.clone().tell(source.clone());
            self.adapter.sim.start(tell);
        }
    }

    /// Sends a notification to `source`, on the last lane, where it does not wait for buffer space
    /// occupied by payload.
    async fn tell(self: Rc<Self>, source: Rc<Pair>) {
        let adapter = &self.adapter;
        let Some(congestion) = &adapter.congestion else {
            return;
        };
        let (sim, network) = (&adapter.sim, &adapter.network);
        let packet = adapter.profile.engines.packet;
        let passed = adapter.send_engines.reserve(sim.now(), packet);
        sim.sleep_until(passed).await;
        let link = network.link();
        let sent = Sent {
            load: Load::single(0),
            header: link.packet_overhead.0 + congestion.telling.packet.0,
            lane: link.lanes.0 - 1,
        };
        let mut in_flight = network.packet_in_flight(self.port, source.port, sent);
        network.depart(&mut in_flight, Flow::at(sim.now())).await;
        let arrival = network.carry(&mut in_flight).await;
        let adapter = &source.adapter;
        let done = adapter.receive_engines.reserve(sim.now(), packet);
        adapter.let_go(Held::Slot(arrival.slot), done);
        sim.sleep_until(done).await;
        adapter.count(|c| c.notified += 1);
        if let Some(paced) = &source.paced {
            paced.reaction.borrow_mut().notified(sim.now());
        }
    }
}

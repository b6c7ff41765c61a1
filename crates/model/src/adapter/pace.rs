//! The rate of a flow under congestion control.

use super::model::AdapterModel;
use super::operation::Transport;
use crate::component::Load;
use crate::congestion::{Notification, Reaction};
use crate::kernel::Time;
use std::cell::{Cell, RefCell};

/// A flow's rate, and the notification state of the opposite flow.
pub(super) struct Paced {
    pub(super) reaction: RefCell<Reaction>,
    /// Earliest time of the next load.
    next: Cell<Time>,
    pub(super) told: RefCell<Notification>,
}

impl Paced {
    /// Returns the state of a queue pair, if its adapter has congestion control and its transport
    /// is connected.
    pub fn of(adapter: &AdapterModel, transport: Transport) -> Option<Paced> {
        let congestion = adapter.congestion.as_ref()?;
        (transport != Transport::Datagram).then(|| Paced {
            reaction: RefCell::new(Reaction::new(&congestion.rate, adapter.network.link().rate)),
            next: Cell::default(),
            told: RefCell::default(),
        })
    }

    /// Waits until the rate allows a load to pass.
    pub async fn pass(&self, adapter: &AdapterModel, load: Load) {
        let sim = &adapter.sim;
        // Requests and read responses may both be waiting.
        while self.next.get() > sim.now() {
            sim.sleep_until(self.next.get()).await;
        }
        let now = sim.now();
        let bytes = load.bytes + load.packets * adapter.network.link().packet_overhead.0;
        let mut reaction = self.reaction.borrow_mut();
        reaction.sent(now, bytes);
        let rate = reaction.rate(now);
        if reaction.is_limited() {
            self.next.set(now + rate.time(bytes));
        }
    }
}

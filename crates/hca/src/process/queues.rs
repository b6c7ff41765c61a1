//! The process as the adapter of completion queues ([`crate::cq`]).

use crate::cq::Adapter;
use crate::process::{Cq, Process, SeenChannels};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use verbena_hca_shm::sleep;

impl Adapter for Process {
    type View = SeenChannels;

    #[inline]
    fn poll_progress(&self, view: &mut SeenChannels) {
        Process::poll_progress(self, view);
    }

    fn queue_armed(&self) {
        self.armed_queues.fetch_add(1, Ordering::SeqCst);
        sleep::want_rings(self.memory.contexts().armed(), &self.armings);
    }

    fn queue_armed_again(&self) {
        sleep::want_rings_still(self.memory.contexts().armed(), &self.armings);
    }

    fn queue_disarmed(&self) {
        self.armed_queues.fetch_sub(1, Ordering::SeqCst);
    }

    fn number_queue(&self, queue: &Arc<Cq>) -> u32 {
        self.moderated.add(queue)
    }

    fn forget_queue(&self, number: u32) {
        self.moderated.remove(number);
    }

    fn wake_queue_at(&self, deadline: u64, number: u32) {
        if self.timers.set(deadline, number) {
            self.doorbell.ring();
        }
    }
}

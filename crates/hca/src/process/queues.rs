//! The process as the adapter of completion queues ([`crate::cq`]).

use crate::cq::{Adapter, Look, Taking};
use crate::process::{Cq, Process, SeenChannels};
use std::sync::Arc;

impl Adapter for Process {
    type View = SeenChannels;

    #[inline(always)]
    fn look(&self, view: &mut SeenChannels) -> Look {
        Process::look(self, view)
    }

    #[inline(always)]
    fn poll_lanes(&self, view: &mut SeenChannels, taking: &mut Taking<'_, Process>) {
        Process::poll_own_lanes(self, view, taking);
    }

    #[inline(always)]
    fn poll_progress(&self, view: &mut SeenChannels, taking: &mut Taking<'_, Process>) {
        Process::poll_progress(self, view, taking);
    }

    fn poll_progress_without_view(&self) {
        Process::poll_progress_on_all(self);
    }

    fn queue_armed(&self) {
        self.activity.queue_armed(self.memory.contexts());
    }

    fn queue_armed_again(&self) {
        self.activity.queue_armed_again(self.memory.contexts());
    }

    fn queue_disarmed(&self) {
        self.activity.queue_disarmed();
    }

    fn number_queue(&self, queue: &Arc<Cq>) -> u32 {
        self.moderated.add(queue)
    }

    fn forget_queue(&self, number: u32) {
        self.moderated.remove(number);
    }

    fn wake_queue_at(&self, deadline: u64, number: u32) {
        if self.timers.set(deadline, number) {
            self.activity.ring();
        }
    }
}

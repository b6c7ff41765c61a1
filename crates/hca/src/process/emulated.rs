//! The process as the thread of an emulation sees it ([`crate::emulation::thread`]).

use super::Process;
use crate::emulation::thread::{Emulated, Follower};

impl Emulated for Process {
    fn next_due(&self) -> u64 {
        match self.activity.is_stopping() {
            true => u64::MAX,
            false => self.timers.next_quiet(),
        }
    }

    fn is_awaited(&self) -> bool {
        self.activity.has_armed_queue()
    }

    fn execute_due(&self) {
        if !self.activity.is_stopping() {
            self.progress();
        }
    }

    fn follower(&self) -> &Follower {
        &self.follower
    }
}

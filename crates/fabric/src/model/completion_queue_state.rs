//! State of a completion queue: the completions that are not taken yet.

use super::waits::Waits;
use crate::completion::Completion;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// The state of a completion queue.
pub(super) struct Queue {
    pub rank: usize,
    pub depth: u32,
    completions: RefCell<VecDeque<Completion>>,
}

impl Queue {
    pub fn new(rank: usize, depth: u32) -> Rc<Queue> {
        Rc::new(Queue {
            rank,
            depth,
            completions: RefCell::default(),
        })
    }

    /// Adds a completion.
    pub fn push(&self, waits: &Waits, completion: Completion) {
        self.completions.borrow_mut().push_back(completion);
        waits.changed(self.rank);
    }

    /// Moves the oldest completions to `into`; returns their number.
    pub fn take(&self, into: &mut [Completion]) -> usize {
        let mut completions = self.completions.borrow_mut();
        let count = completions.len().min(into.len());
        for (place, completion) in into.iter_mut().zip(completions.drain(..count)) {
            *place = completion;
        }
        count
    }
}

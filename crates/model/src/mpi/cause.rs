//! Cause of a rank's wake-up: the rank responsible, and the time of its action.

use crate::kernel::Time;
use std::cell::Cell;
use std::rc::Rc;

/// An action that a rank waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cause {
    /// Rank whose processor performed it.
    pub rank: usize,
    /// When it was posted to the adapter, or passed through shared memory.
    pub at: Time,
}

/// A wake-up of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Woken {
    /// Time.
    pub at: Time,
    /// Cause.
    pub cause: Cause,
}

/// Time at which a request will have been posted.
#[derive(Debug, Clone, Default)]
pub(super) struct Posted(Rc<Cell<Time>>);

impl Posted {
    /// Sets the time.
    pub fn set(&self, now: Time) {
        self.0.set(now);
    }

    /// Returns the request as the cause of its effects.
    pub fn cause(&self, rank: usize) -> Cause {
        let at = self.0.get();
        Cause { rank, at }
    }
}

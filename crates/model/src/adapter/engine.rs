//! Processing engines: several alike, each on one piece of work at a time, taken in the order of asking.

use crate::kernel::Time;
use std::cell::RefCell;

/// A number of engines.
pub struct Engines {
    free: RefCell<Vec<Time>>,
}

impl Engines {
    /// So many.
    pub fn new(engines: u64) -> Engines {
        Engines {
            free: RefCell::new(vec![Time::ZERO; engines as usize]),
        }
    }

    /// Reserves `span` of the engine that is free first, for work that comes now; returns when it is done.
    pub fn reserve(&self, now: Time, span: Time) -> Time {
        let mut free = self.free.borrow_mut();
        let (place, _) = free
            .iter()
            .enumerate()
            .min_by_key(|(place, free)| (**free, *place))
            .expect("a profile has at least one engine");
        free[place] = now.max(free[place]) + span;
        free[place]
    }
}

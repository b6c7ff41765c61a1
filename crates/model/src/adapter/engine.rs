//! Processing engines: several alike, each on one piece of work at a time, taken in the order of asking.

use crate::kernel::Time;
use crate::profile::Count;
use std::cell::RefCell;

/// A number of engines; none of them is ever waited for if there are as many as there is work for.
pub struct Engines {
    free: Option<RefCell<Vec<Time>>>,
}

impl Engines {
    /// So many.
    pub fn new(engines: Option<Count>) -> Engines {
        Engines {
            free: engines.map(|engines| RefCell::new(vec![Time::ZERO; engines.0 as usize])),
        }
    }

    /// Reserves `span` of the engine that is free first, for work that comes now; returns when it is done.
    pub fn reserve(&self, now: Time, span: Time) -> Time {
        let Some(free) = &self.free else {
            return now + span;
        };
        let mut free = free.borrow_mut();
        let (place, _) = free
            .iter()
            .enumerate()
            .min_by_key(|(place, free)| (**free, *place))
            .expect("a profile has at least one engine");
        free[place] = now.max(free[place]) + span;
        free[place]
    }
}

//! Processing engines: identical servers, each busy with one item at a time, reserved in the order
//! of requests.

use crate::kernel::Time;
use crate::profile::Count;
use std::cell::{Cell, RefCell};

/// A number of engines, or an unlimited number for which no request waits.
pub struct Engines {
    free: Option<RefCell<Vec<Time>>>,
    busy: Cell<Time>,
}

impl Engines {
    /// Creates `engines` engines, or an unlimited number if `None`.
    pub fn new(engines: Option<Count>) -> Engines {
        Engines {
            free: engines.map(|engines| RefCell::new(vec![Time::ZERO; engines.0 as usize])),
            busy: Cell::default(),
        }
    }

    /// Reserves `span` of the first free engine for work that arrives now; returns when it ends.
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
        self.busy.set(self.busy.get() + span);
        free[place]
    }

    /// Returns the mean time in use of an engine; `None` if there are any number.
    pub fn busy(&self) -> Option<Time> {
        let number = self.free.as_ref()?.borrow().len() as u64;
        Some(Time(self.busy.get().0 / number))
    }
}

//! The time for which a benchmark may wait for undisturbed processors.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Maximum waiting time of a benchmark: this plus a share of its duration so far.
const LEAST_WAIT: Duration = Duration::from_millis(100);
const WAITING_SHARE: f64 = 0.05;

/// The waiting time of a benchmark so far.
#[derive(Debug)]
pub struct WaitingBudget {
    begun: Instant,
    waited: Cell<Duration>,
}

impl Default for WaitingBudget {
    fn default() -> WaitingBudget {
        WaitingBudget {
            begun: Instant::now(),
            waited: Cell::default(),
        }
    }
}

impl WaitingBudget {
    /// Returns whether it has waited as long as it may.
    pub fn is_over(&self) -> bool {
        self.waited.get() > LEAST_WAIT + self.begun.elapsed().mul_f64(WAITING_SHARE)
    }

    /// Adds a time that was waited.
    pub fn add(&self, waited: Duration) {
        self.waited.set(self.waited.get() + waited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_ends_after_its_limit() {
        let budget = WaitingBudget::default();
        assert!(!budget.is_over());
        budget.add(LEAST_WAIT * 2);
        assert!(budget.is_over());
    }
}

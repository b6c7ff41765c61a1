//! The time by which the software is behind its deadlines: it begins earlier by the usual one.

use std::sync::atomic::{AtomicU64, Ordering};
use verbena_emulation::lateness::Side;

/// Largest lead, in nanoseconds: a preempted thread says nothing about the usual.
const LARGEST: u64 = 1000;

/// Nanoseconds by which the median moves.
const STEP: u64 = 4;

/// Nanoseconds by which a request's deadlines are early.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lead {
    /// The arrival of its data.
    pub arrival: u64,
    /// Its completion.
    pub completion: u64,
}

/// The median of times in nanoseconds, followed in small steps.
pub struct Usual(AtomicU64);

/// No time yet.
const UNKNOWN: u64 = u64::MAX;

static ARRIVAL: Usual = Usual::unknown();
static COMPLETION: Usual = Usual::unknown();

impl Usual {
    /// Returns one that knows no time.
    pub const fn unknown() -> Usual {
        Usual(AtomicU64::new(UNKNOWN))
    }

    /// Returns the median so far.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|one| *one != UNKNOWN)
    }

    /// Moves towards a time, from `first` on; far ones count as much as near ones.
    pub fn follow(&self, time: u64, first: u64, largest: u64) {
        let now = self.get().unwrap_or(first);
        let next = match time > now {
            true => (now + (time - now).min(STEP)).min(largest),
            false => now - (now - time).min(STEP),
        };
        self.0.store(next, Ordering::Relaxed);
    }
}

/// Returns the present leads.
pub fn now() -> Lead {
    Lead {
        arrival: ARRIVAL.get().unwrap_or(0),
        completion: COMPLETION.get().unwrap_or(0),
    }
}

/// Notes the nanoseconds from a deadline until it was noticed.
pub fn follow(side: Side, behind: u64) {
    match side {
        Side::Arrival => ARRIVAL.follow(behind, 0, LARGEST),
        Side::Completion => COMPLETION.follow(behind, 0, LARGEST),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_time_is_near_the_median_whatever_the_extremes_are() {
        let usual = Usual::unknown();
        for turn in 0..1000 {
            let time = if turn % 10 == 0 {
                1 << 40
            } else {
                150 + turn % 3
            };
            usual.follow(time, 0, LARGEST);
        }
        assert!(
            (145..165).contains(&usual.get().unwrap()),
            "{:?}",
            usual.get()
        );
    }
}

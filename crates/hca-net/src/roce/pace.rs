//! How often polls check the sockets. A check is a system call of a microsecond, and a
//! communication-bound program polls several queues in turn: UCX checks four, and MPI libraries
//! call UCX a hundred times before they check anything else.
//!
//! After a check that found nothing, polls skip the check for a fraction of the time without
//! packets so far. So a packet is found late by at most that fraction of the wait, and by at most
//! `MOST`.

use std::sync::atomic::{AtomicU64, Ordering};

/// Divisor of the time without packets.
const PART: u64 = 32;
/// Longest time between two checks, in nanoseconds.
const MOST: u64 = 10_000;

/// Schedule of the checks. All times are of [`verbena_hca_os::clock::now`].
#[derive(Default)]
pub struct Pace {
    found_at: AtomicU64,
    look_at: AtomicU64,
}

impl Pace {
    /// Returns whether a poll must check now.
    #[inline]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.look_at.load(Ordering::Relaxed)
    }

    /// Records the end of a check and whether it found anything.
    #[inline]
    pub fn looked(&self, now: u64, found: bool) {
        if found {
            self.found_at.store(now, Ordering::Relaxed);
            self.look_at.store(now, Ordering::Relaxed);
        } else {
            let idle = now.saturating_sub(self.found_at.load(Ordering::Relaxed));
            let rest = (idle / PART).min(MOST);
            self.look_at.store(now + rest, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_found_within_a_fraction_of_its_wait() {
        for comes_after in [100, 5_000, 64_000, 10_000_000] {
            let pace = Pace::default();
            pace.looked(1_000_000, true);
            let comes_at = 1_000_000 + comes_after;
            let found_at = (1_000_000..)
                .step_by(10)
                .find(|now| {
                    let found = *now >= comes_at;
                    let due = pace.is_due(*now);
                    if due {
                        pace.looked(*now, found);
                    }
                    due && found
                })
                .unwrap();
            let late = found_at - comes_at;
            assert!(
                late <= (comes_after / PART).min(MOST) + 10,
                "{late} of {comes_after}"
            );
        }
    }

    #[test]
    fn idle_polls_rarely_look_for_packets() {
        let pace = Pace::default();
        pace.looked(0, true);
        let polls = (0..10_000_000).step_by(50);
        let looks = polls
            .filter(|now| {
                let due = pace.is_due(*now);
                if due {
                    pace.looked(*now, false);
                }
                due
            })
            .count();
        assert!((1_000..1_500).contains(&looks), "{looks} of 200000");
    }
}

//! How fast a processor runs at this moment (rule 5: trim by load state, never by value).
//!
//! The other hardware thread of a core takes up to half of it. On a virtual machine that thread may be a neighbour's, and
//! nothing in the guest tells of it; so a short computation, which needs nothing but the core, is timed beside what is
//! measured. Blocks of samples during which it was slow, or of a rate during which the system gave the processor to another
//! program, are set aside and counted, whatever their values.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Slower than the undisturbed pace by more than this, a processor shares its core. Clock rates vary by less on a machine
/// that is at work.
pub const DISTURBED: f64 = 1.15;
/// About a microsecond.
const ROUNDS: u64 = 800;
/// Being put aside by the system for a moment is no change of pace.
const TRIES: usize = 3;

/// Four chains of additions that depend on each other, as wide as a core is.
#[inline(never)]
fn compute(seed: u64) -> u64 {
    let mut chains = [seed, 1, 2, 3];
    for round in 0..ROUNDS {
        chains[0] = chains[0].wrapping_add(chains[1] ^ round);
        chains[1] = chains[1].wrapping_add(chains[2] ^ round);
        chains[2] = chains[2].wrapping_add(chains[3] ^ round);
        chains[3] = chains[3].wrapping_add(chains[0] ^ round);
    }
    chains[0] ^ chains[3]
}

/// Ticks of the computation now, by a clock that `now` reads.
pub fn pace(now: impl Fn() -> u64) -> u64 {
    let once = || {
        let start = now();
        black_box(compute(black_box(start)));
        now().saturating_sub(start)
    };
    (0..TRIES).map(|_| once()).min().unwrap_or(0)
}

/// How often the system has put this thread aside for another so far (proc(5), nonvoluntary_ctxt_switches). `None` where
/// it does not tell.
pub fn preemptions() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

/// Ticks of the computation on an undisturbed processor: the fastest seen during `spell`.
pub fn undisturbed(spell: Duration, now: impl Fn() -> u64) -> u64 {
    let start = Instant::now();
    let mut fastest = pace(&now);
    while start.elapsed() < spell {
        fastest = fastest.min(pace(&now));
    }
    fastest
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn the_fastest_of_the_tries_counts() {
        // Readings come in pairs; the second try takes least.
        let readings = Cell::new(
            [0, 50, 100, 130, 200, 290]
                .into_iter()
                .collect::<Vec<u64>>(),
        );
        let now = || {
            let mut left = readings.take();
            let first = left.remove(0);
            readings.set(left);
            first
        };
        assert_eq!(pace(now), 30);
    }

    #[test]
    fn the_system_counts_preemptions() {
        let before = preemptions().expect("Linux tells");
        assert!(preemptions().is_some_and(|after| after >= before));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_is_no_panic() {
        assert_eq!(pace(|| 7), 0);
        let time = Cell::new(100u64);
        assert_eq!(
            pace(|| {
                time.set(time.get() - 1);
                time.get()
            }),
            0
        );
    }
}

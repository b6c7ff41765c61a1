//! Measures the current speed of a processor (rule 5).
//!
//! The second hardware thread of a core can take up to half of its throughput. On a virtual machine
//! that thread may belong to another guest, and no interface in this guest reports it. Therefore a
//! short computation that depends on the core alone is timed between measurements. The report
//! states how often it was slow; no sample is removed for it.

use crate::clock::Clock;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Ratio to the undisturbed pace above which a processor shares its core: the computation then
/// takes 1.2 to 2 times as long, and within 3 % at one clock rate on an exclusive core.
pub const DISTURBED: f64 = 1.08;
/// Takes about a third of a microsecond.
const ROUNDS: u64 = 320;
/// Several attempts, because a single preemption is no change of pace.
const TRIES: usize = 3;

/// Computes eight independent chains, more than a core can issue at once, so that instructions of
/// the other thread delay this one. The chains rotate because the compiler does not vectorise
/// rotations.
#[inline(never)]
fn compute(seed: u64) -> u64 {
    let mut chains = [seed, 1, 2, 3, 4, 5, 6, 7];
    for round in 0..ROUNDS {
        for chain in &mut chains {
            *chain = (*chain ^ round).rotate_left(1);
        }
    }
    chains.iter().fold(0, |all, chain| all ^ chain)
}

/// Returns the time of the computation in ticks of `now`.
fn pace(now: impl Fn() -> u64) -> u64 {
    let start = now();
    black_box(compute(black_box(start)));
    now().saturating_sub(start)
}

/// Returns whether every attempt at the computation takes more than `limit` ticks. At full speed
/// the first attempt decides, after a third of a microsecond.
pub fn slower_than(limit: f64, now: impl Fn() -> u64) -> bool {
    (0..TRIES).all(|_| pace(&now) as f64 > limit)
}

/// Returns the undisturbed time of the computation in ticks: the first percentile of the attempts
/// during `spell`. The minimum is not used because single attempts may be faster than the
/// processor's sustained speed.
pub fn undisturbed(spell: Duration, now: impl Fn() -> u64) -> u64 {
    let start = Instant::now();
    let mut tries = vec![pace(&now)];
    while start.elapsed() < spell {
        tries.push(pace(&now));
    }
    let hundredth = tries.len() / 100;
    *tries.select_nth_unstable(hundredth).1
}

/// The undisturbed pace in nanoseconds by number of busy processors: frequency boost decreases as
/// more processors are busy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Paces(Vec<(usize, f64)>);

impl Paces {
    /// Returns the same pace for any number of busy processors.
    pub fn constant(nanos: f64) -> Paces {
        Paces(vec![(1, nanos)])
    }

    /// Measures with 1, 2, 4... up to `cores` busy processors, for `spell` each.
    pub fn measure(cores: usize, spell: Duration, clock: &Clock) -> Paces {
        let powers = std::iter::successors(Some(1usize), |number| number.checked_mul(2));
        let numbers = powers.take_while(|&number| number < cores).chain([cores]);
        let together = |number: usize| {
            let one = || undisturbed(spell, || clock.now());
            std::thread::scope(|scope| {
                // If the system refuses more threads, fewer processors are busy.
                let other = || std::thread::Builder::new().spawn_scoped(scope, one).ok();
                let others: Vec<_> = (1..number).filter_map(|_| other()).collect();
                let mine = one();
                let others = others.into_iter().filter_map(|other| other.join().ok());
                // The fastest counts: threads on cores that are shared all the time show no
                // undisturbed pace.
                others.fold(mine, u64::min)
            })
        };
        let nanos = |number| together(number) as f64 * clock.nanos_per_tick;
        Paces(numbers.map(|number| (number, nanos(number))).collect())
    }

    /// Returns the pace with this many busy processors; above the largest number measured, the pace
    /// at that number.
    pub fn of(&self, processors: usize) -> Option<f64> {
        let enough = self.0.iter().find(|(number, _)| *number >= processors);
        enough.or(self.0.last()).map(|(_, nanos)| *nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn one_attempt_at_full_speed_suffices() {
        // Readings come in pairs; the second attempt is the fastest.
        let readings = [0, 50, 100, 130, 200, 290];
        let next = Cell::new(0);
        let now = || {
            next.set(next.get() + 1);
            readings[next.get() - 1]
        };
        assert!(!slower_than(30.0, now));
        assert_eq!(next.get(), 4, "no third try");
        next.set(0);
        assert!(slower_than(29.0, now));
    }

    #[test]
    fn the_pace_is_that_of_the_same_number_of_threads() {
        let paces = Paces(vec![(1, 300.0), (2, 310.0), (4, 330.0)]);
        assert_eq!(
            [1, 2, 3, 4, 9].map(|n| paces.of(n)),
            [300.0, 310.0, 330.0, 330.0, 330.0].map(Some)
        );
        assert_eq!(Paces::constant(7.0).of(64), Some(7.0));
        assert_eq!(Paces::default().of(1), None);
    }

    #[test]
    fn every_thread_count_up_to_the_cores_is_measured() {
        let paces = Paces::measure(3, Duration::from_micros(100), &Clock::system());
        let numbers: Vec<usize> = paces.0.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(paces.0.iter().all(|(_, nanos)| *nanos > 0.0));
    }

    #[test]
    fn a_stopped_or_decreasing_clock_does_not_panic() {
        assert!(!slower_than(0.0, || 7));
        let time = Cell::new(100u64);
        assert!(!slower_than(0.0, || {
            time.set(time.get() - 1);
            time.get()
        }));
    }
}

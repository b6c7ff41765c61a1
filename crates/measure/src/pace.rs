//! How fast a processor runs at this moment (rule 5).
//!
//! The other hardware thread of a core takes up to half of it. On a virtual machine that thread may be a neighbour's, and
//! nothing in the guest tells of it; so a short computation, which needs nothing but the core, is timed beside what is
//! measured. How often it was slow is said beside the figure; nothing is removed for it.

use crate::clock::Clock;
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Slower than the undisturbed pace by more than this, a processor shares its core: the computation then takes 1.2 to 2 times
/// as long, and on a core of its own within 3 %, at one clock rate.
pub const DISTURBED: f64 = 1.08;
/// About a third of a microsecond.
const ROUNDS: u64 = 320;
/// Being put aside by the system for a moment is no change of pace.
const TRIES: usize = 3;

/// Eight chains that do not depend on each other, more than a core can begin at once: what another thread begins is missed
/// here. Rotations, for those of several chains are not made into one instruction.
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

/// Ticks of the computation now, by a clock that `now` reads.
fn pace(now: impl Fn() -> u64) -> u64 {
    let start = now();
    black_box(compute(black_box(start)));
    now().saturating_sub(start)
}

/// Whether the computation takes more than `limit` ticks now, however often it is tried. On a processor at full speed
/// that takes a third of a microsecond.
pub fn slower_than(limit: f64, now: impl Fn() -> u64) -> bool {
    (0..TRIES).all(|_| pace(&now) as f64 > limit)
}

/// Ticks of the computation on an undisturbed processor: what only one in a hundred tries during `spell` took less than.
/// Single tries may be faster than a processor is for long.
pub fn undisturbed(spell: Duration, now: impl Fn() -> u64) -> u64 {
    let start = Instant::now();
    let mut tries = vec![pace(&now)];
    while start.elapsed() < spell {
        tries.push(pace(&now));
    }
    let hundredth = tries.len() / 100;
    *tries.select_nth_unstable(hundredth).1
}

/// The undisturbed pace in nanoseconds by how many processors are at work: one that raises its clock rate does so less
/// when others work, too.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Paces(Vec<(usize, f64)>);

impl Paces {
    /// The same whoever works.
    pub fn constant(nanos: f64) -> Paces {
        Paces(vec![(1, nanos)])
    }

    /// Measures with 1, 2, 4... up to `cores` processors at work, for `spell` each.
    pub fn measure(cores: usize, spell: Duration, clock: &Clock) -> Paces {
        let powers = std::iter::successors(Some(1usize), |number| number.checked_mul(2));
        let numbers = powers.take_while(|&number| number < cores).chain([cores]);
        let together = |number: usize| {
            let one = || undisturbed(spell, || clock.now());
            std::thread::scope(|scope| {
                // Where the system gives no more threads, fewer are at work.
                let other = || std::thread::Builder::new().spawn_scoped(scope, one).ok();
                let others: Vec<_> = (1..number).filter_map(|_| other()).collect();
                let mine = one();
                let others = others.into_iter().filter_map(|other| other.join().ok());
                // The fastest: those that a neighbour disturbed all the time tell nothing.
                others.fold(mine, u64::min)
            })
        };
        let nanos = |number| together(number) as f64 * clock.nanos_per_tick;
        Paces(numbers.map(|number| (number, nanos(number))).collect())
    }

    /// With so many at work; with more than were measured, as with the most.
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
    fn one_try_at_full_speed_is_enough() {
        // Readings come in pairs; the second try takes least.
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
    fn the_pace_is_that_of_as_many_at_work() {
        let paces = Paces(vec![(1, 300.0), (2, 310.0), (4, 330.0)]);
        assert_eq!(
            [1, 2, 3, 4, 9].map(|n| paces.of(n)),
            [300.0, 310.0, 330.0, 330.0, 330.0].map(Some)
        );
        assert_eq!(Paces::constant(7.0).of(64), Some(7.0));
        assert_eq!(Paces::default().of(1), None);
    }

    #[test]
    fn every_number_up_to_the_cores_is_measured() {
        let paces = Paces::measure(3, Duration::from_micros(100), &Clock::system());
        let numbers: Vec<usize> = paces.0.iter().map(|(number, _)| *number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(paces.0.iter().all(|(_, nanos)| *nanos > 0.0));
    }

    #[test]
    fn a_clock_that_stands_still_or_goes_back_is_no_panic() {
        assert!(!slower_than(0.0, || 7));
        let time = Cell::new(100u64);
        assert!(!slower_than(0.0, || {
            time.set(time.get() - 1);
            time.get()
        }));
    }
}

//! Deterministic pseudo-random numbers. Each user has its own sequence, so that other users' draws
//! do not change it. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number
//! generators", OOPSLA 2014 (SplitMix64).

use std::cell::Cell;

/// A sequence of pseudo-random numbers.
#[derive(Debug, Clone)]
pub struct Draws(Cell<u64>);

impl Draws {
    /// Creates sequence number `number`.
    pub fn new(number: usize) -> Draws {
        Draws(Cell::new(mixed(number as u64)))
    }

    fn next(&self) -> u64 {
        let next = self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.0.set(next);
        mixed(next)
    }

    /// Returns a number below `number`, which must not be zero.
    pub fn below(&self, number: usize) -> usize {
        (self.next() % number as u64) as usize
    }

    /// Returns true with the given probability.
    pub fn happens(&self, probability: f64) -> bool {
        let share = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        share < probability
    }
}

fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_uniform_and_reproducible() {
        let drawn = |number| {
            let draws = Draws::new(number);
            (0..7000).map(|_| draws.below(7)).collect::<Vec<_>>()
        };
        assert_eq!(drawn(3), drawn(3));
        assert_ne!(drawn(3), drawn(4));
        for value in 0..7 {
            let times = drawn(3).iter().filter(|one| **one == value).count();
            assert!((900..1100).contains(&times), "{value} came {times} times");
        }
    }

    #[test]
    fn certain_events_happen_and_impossible_ones_do_not() {
        let draws = Draws::new(0);
        assert!((0..1000).all(|_| draws.happens(1.0)));
        assert!(!(0..1000).any(|_| draws.happens(0.0)));
        let times = (0..10_000).filter(|_| draws.happens(0.2)).count();
        assert!((1900..2100).contains(&times), "{times} of 10,000");
    }
}

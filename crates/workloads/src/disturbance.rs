//! Stretches in which a processor was not all ours (rule 5: trim by load state, never by value).

use crate::context::Context;
use std::time::Duration;
use verbena_fabric::Fabric;
use verbena_measure::{pace, preemption::preemptions};

/// Because blocks are set aside, at most so many for each that is wanted are measured, unless that takes longer than
/// [`PATIENCE`].
const ATTEMPTS: u32 = 4;
const PATIENCE: Duration = Duration::from_millis(120);

/// Between two looks at the processor. Long against a look, which takes a third of a microsecond. A neighbour at work takes part of
/// a core for spells of 10 us to a millisecond and leaves it for others of a quarter to two milliseconds.
const SLICE: Duration = Duration::from_micros(25);
/// A piece of a block of a rate: longer than a slice, for it begins and ends with nothing on the way.
const PIECE: Duration = Duration::from_micros(150);

/// Looks whether this processor runs at its full speed.
pub struct Watch<'a, F> {
    fabric: &'a F,
    /// Ticks from which on it does not; `None` where nobody knows what full speed is, as in virtual time.
    limit: Option<f64>,
}

impl<'a, F: Fabric> Watch<'a, F> {
    /// For points with so many processes at work. More than there are cores disturb each other always; then nothing is set
    /// aside.
    pub fn new(context: &Context<'a, F>, processes: usize) -> Watch<'a, F> {
        let nanos_per_tick = context.fabric.clock().nanos_per_tick;
        let crowded = context.options.cores.is_some_and(|cores| processes > cores);
        let pace = context.options.paces.of(processes);
        let limit = pace.filter(|_| !crowded);
        Watch {
            fabric: context.fabric,
            limit: limit.map(|nanos| nanos / nanos_per_tick * pace::DISTURBED),
        }
    }

    /// How many blocks of this length are measured at most to get `blocks`.
    pub fn attempts(&self, blocks: u32, length: Duration) -> u32 {
        let affordable = PATIENCE.as_nanos() / length.as_nanos().max(1);
        let affordable = u32::try_from(affordable).unwrap_or(u32::MAX);
        match self.limit {
            Some(_) => (blocks * ATTEMPTS).min(affordable).max(blocks),
            None => blocks,
        }
    }

    /// How many samples of so many nanoseconds each lie between two looks, of a block of `samples`.
    pub fn slice(&self, nanos: f64, samples: u64) -> u64 {
        match self.limit {
            Some(_) => ((SLICE.as_nanos() as f64 / nanos).ceil() as u64).clamp(1, samples),
            None => samples,
        }
    }

    /// Into how many pieces a block of a rate, of so many nanoseconds, is cut, of at least `least` nanoseconds each.
    pub fn pieces(&self, nanos: f64, least: f64) -> usize {
        match self.limit {
            Some(_) => (nanos / least.max(PIECE.as_nanos() as f64))
                .floor()
                .max(1.0) as usize,
            None => 1,
        }
    }

    /// How often the system put this process aside so far. Where nothing is set aside, nobody asks.
    pub fn preemptions(&self) -> u64 {
        self.limit.map_or(0, |_| preemptions())
    }

    /// Whether something shares this processor's core now.
    pub fn is_disturbed(&self) -> bool {
        let slow = |limit| pace::slower_than(limit, || self.fabric.now().0);
        self.limit.is_some_and(slow)
    }
}

/// By slice, whether this processor was disturbed, from the looks before and after each. Of a neighbour that comes and goes
/// within a slice two looks may tell nothing; so those before and after them count, too.
pub fn between(looks: &[bool]) -> Vec<bool> {
    let slices = 0..looks.len().saturating_sub(1);
    let around = |slice: usize| slice.saturating_sub(1)..(slice + 3).min(looks.len());
    slices
        .map(|slice| looks[around(slice)].contains(&true))
        .collect()
}

/// By slice, whether any process's processor was disturbed. One that did not look says nothing.
pub fn in_any<'a>(told: impl Iterator<Item = &'a [bool]>) -> Vec<bool> {
    let mut any = Vec::new();
    for disturbed in told {
        any.resize(any.len().max(disturbed.len()), false);
        for (any, &disturbed) in any.iter_mut().zip(disturbed) {
            *any |= disturbed;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_speaks_for_two_slices_on_either_side() {
        let looks = |at: usize| (0..7).map(|i| i == at).collect::<Vec<bool>>();
        assert_eq!(between(&looks(3)), [false, true, true, true, true, false]);
        assert_eq!(between(&looks(0)), [true, true, false, false, false, false]);
        assert_eq!(between(&[true]), []);
        assert_eq!(between(&[]), []);
    }

    #[test]
    fn one_disturbed_processor_is_enough() {
        let told: [&[bool]; 3] = [&[false, true], &[], &[true, false, false]];
        assert_eq!(in_any(told.into_iter()), [true, true, false]);
        assert!(in_any([].into_iter()).is_empty());
    }
}

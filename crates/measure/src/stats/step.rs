//! Steps in a history of runs (rule 21): points where a figure changed its level and stayed there.
//! Comparing only the last two runs cannot distinguish a step from a single disturbed run.
//!
//! Binary segmentation on logarithms: the split that leaves the values closest to two levels is a
//! step if Welch's test, corrected for the number of splits tried, finds different levels, and if
//! they differ by more than the noise threshold; then both sides are searched. A level has at least
//! three runs, so a single spike is none. In a longer level the extremes are replaced by their
//! neighbours, so that a spike does not hide a step either.

use crate::sample::Sample;
use crate::stats::welch;

/// Fewest runs of a level.
const LEVEL: usize = 3;
/// Probability of reporting a step where there is none, over all splits of a segment.
const FALSE_ALARM: f64 = 0.01;

/// Fewest runs in which a step can be found.
pub const LEAST_RUNS: usize = 2 * LEVEL;

/// A change of level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Index of the first value of the new level.
    pub at: usize,
    /// Median of the level before.
    pub before: f64,
    /// Median of the level after.
    pub after: f64,
}

/// Returns the steps in `values`, which are in order of time, each larger than `threshold`
/// (relative); none if a value is not positive and finite.
pub fn steps(values: &[f64], threshold: f64) -> Vec<Step> {
    if values
        .iter()
        .any(|value| !(value.is_finite() && *value > 0.0))
    {
        return Vec::new();
    }
    let mut splits = Vec::new();
    search(values, 0, threshold, &mut splits);
    splits.sort_unstable();
    let mut ends = splits.clone();
    ends.push(values.len());
    let mut start = 0;
    let mut found: Vec<Step> = Vec::new();
    for (i, &at) in splits.iter().enumerate() {
        let (before, after) = (median(&values[start..at]), median(&values[at..ends[i + 1]]));
        found.push(Step { at, before, after });
        start = at;
    }
    found
}

fn search(values: &[f64], offset: usize, threshold: f64, splits: &mut Vec<usize>) {
    let Some(at) = best_split(values) else {
        return;
    };
    let (left, right) = values.split_at(at);
    let tried = (values.len() + 1 - LEAST_RUNS) as f64;
    let p = welch::p_value_of_ratio(&tamed(left), &tamed(right));
    let differ = p.is_some_and(|p| p * tried <= FALSE_ALARM);
    let large = (median(right) / median(left) - 1.0).abs() > threshold;
    if differ && large {
        splits.push(offset + at);
        search(left, offset, threshold, splits);
        search(right, offset + at, threshold, splits);
    }
}

/// Returns the split after which the values lie closest to the medians of their sides. Distances
/// are not squared, so that a spike does not attract the split.
fn best_split(values: &[f64]) -> Option<usize> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let spread = |part: &[f64]| {
        let middle = median(part);
        part.iter().map(|value| (value - middle).abs()).sum::<f64>()
    };
    let left_over = |at: usize| {
        let (left, right) = logs.split_at(at);
        spread(left) + spread(right)
    };
    (LEVEL..(values.len() + 1).saturating_sub(LEVEL))
        .min_by(|a, b| left_over(*a).total_cmp(&left_over(*b)))
}

/// Returns the values of a level in order; if there are more than three, the smallest and the
/// largest are replaced by their neighbours.
fn tamed(values: &[f64]) -> Vec<f64> {
    let mut tamed = values.to_vec();
    tamed.sort_by(f64::total_cmp);
    if let [first, second, .., before, last] = &mut tamed[..]
        && values.len() > LEVEL
    {
        (*first, *last) = (*second, *before);
    }
    tamed
}

fn median(values: &[f64]) -> f64 {
    Sample::new(values.to_vec()).map_or(f64::NAN, |sample| sample.median())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Levels with this many runs each and noise of 1 %.
    fn history(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut noise = move || 1.0 + 0.01 * ((0..4).map(|_| random.unit()).sum::<f64>() - 2.0);
        levels
            .iter()
            .flat_map(|&(runs, level)| vec![level; runs])
            .map(|level| level * noise())
            .collect()
    }

    #[test]
    fn planted_steps_are_found_at_their_positions() {
        for seed in 0..50 {
            let values = history(&[(8, 500.0), (6, 560.0), (7, 450.0)], seed);
            let at: Vec<usize> = steps(&values, 0.05).iter().map(|step| step.at).collect();
            assert_eq!(at, [8, 14], "{values:?}");
        }
    }

    #[test]
    fn noise_spikes_and_small_steps_are_not_steps() {
        for seed in 0..200 {
            assert_eq!(steps(&history(&[(20, 500.0)], seed), 0.05), []);
            let mut spiked = history(&[(20, 500.0)], seed);
            spiked[11] *= 3.0;
            assert_eq!(steps(&spiked, 0.05), []);
            assert_eq!(steps(&history(&[(9, 500.0), (9, 515.0)], seed), 0.05), []);
        }
    }

    #[test]
    fn step_search_handles_hostile_histories() {
        for values in [&[][..], &[1.0], &[1.0, 9.0], &[1.0, 1.0, 9.0, 9.0, 9.0]] {
            assert_eq!(steps(values, 0.05), []);
        }
        assert_eq!(steps(&[7.0; 40], 0.05), []);
        let exact = steps(&[2.0, 2.0, 2.0, 3.0, 3.0, 3.0], 0.05);
        assert_eq!((exact.len(), exact[0].at, exact[0].after), (1, 3, 3.0));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(steps(&[1.0, 1.0, 1.0, 2.0, 2.0, wrong], 0.05), []);
        }
    }
}

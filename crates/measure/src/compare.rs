//! Comparing two runs (rule 20): equal keys only, ratio of medians with a bootstrap interval over launches, false
//! discoveries controlled over all keys (Benjamini and Hochberg), and an effect above the noise threshold. A change
//! counts when all three agree, so that equal runs stay silent.

use crate::sample::Sample;
use crate::stats::{bootstrap, interval::Interval, welch};
use serde::{Deserialize, Serialize};

/// Which way a metric gets better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Times, memory.
    Lower,
    /// Rates.
    Higher,
}

/// One key in both runs: a figure a launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// What is compared: benchmark, parameters and metric.
    pub key: String,
    /// Which way it gets better.
    pub better: Better,
    /// The first run's launches.
    pub a: Vec<f64>,
    /// The second's.
    pub b: Vec<f64>,
    /// The smallest relative effect that counts.
    pub threshold: f64,
}

/// What became of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// No change that counts.
    Same,
    /// Changed for the better.
    Improved,
    /// Changed for the worse.
    Regressed,
    /// Too few launches, or figures that cannot be compared.
    Undecided,
}

/// A compared key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Median of the first run's launches.
    pub a: f64,
    /// Median of the second's.
    pub b: f64,
    /// b over a.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// p-value before the control of false discoveries.
    pub p: Option<f64>,
    /// The threshold used.
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
}

/// Launches a side below which nothing is called.
pub const LEAST_LAUNCHES: usize = 3;
/// Share of false ones among the changes reported.
const FALSE_DISCOVERIES: f64 = 0.01;

/// Compares all keys.
pub fn compare(pairs: &[Paired], seed: u64) -> Vec<Change> {
    let mut changes: Vec<Change> = pairs.iter().map(|pair| measure(pair, seed)).collect();
    let limit = discovery_limit(&changes);
    for (change, pair) in changes.iter_mut().zip(pairs) {
        change.verdict = verdict(change, pair.better, limit);
    }
    changes
}

fn measure(pair: &Paired, seed: u64) -> Change {
    let median = |values: &[f64]| Sample::new(values.to_vec()).map_or(f64::NAN, |s| s.median());
    let (a, b) = (median(&pair.a), median(&pair.b));
    let enough = pair.a.len().min(pair.b.len()) >= LEAST_LAUNCHES;
    Change {
        key: pair.key.clone(),
        a,
        b,
        ratio: b / a,
        interval: if enough {
            bootstrap::ratio_of_medians(&pair.a, &pair.b, seed)
        } else {
            None
        },
        p: if enough {
            welch::p_value_of_ratio(&pair.a, &pair.b)
        } else {
            None
        },
        threshold: pair.threshold,
        verdict: Verdict::Undecided,
    }
}

/// Benjamini and Hochberg: the largest p-value that may count.
fn discovery_limit(changes: &[Change]) -> f64 {
    let mut values: Vec<f64> = changes.iter().filter_map(|change| change.p).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mut passing = values
        .iter()
        .enumerate()
        .filter(|(i, p)| **p <= FALSE_DISCOVERIES * (*i as f64 + 1.0) / count);
    passing.next_back().map_or(-1.0, |(_, p)| *p)
}

fn verdict(change: &Change, better: Better, limit: f64) -> Verdict {
    let (Some(interval), Some(p)) = (change.interval, change.p) else {
        return Verdict::Undecided;
    };
    let excluded = interval.low > 1.0 || interval.high < 1.0;
    let large = (change.ratio - 1.0).abs() > change.threshold;
    if !(excluded && large && p <= limit) {
        return Verdict::Same;
    }
    match (better, change.ratio > 1.0) {
        (Better::Lower, true) | (Better::Higher, false) => Verdict::Regressed,
        _ => Verdict::Improved,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// A run of 60 keys with 5 launches each; launches differ by about 2 %, as on a quiet machine.
    fn run(seed: u64, slowed: Option<usize>) -> Vec<Vec<f64>> {
        let mut random = Random::new(seed);
        (0..60)
            .map(|key| {
                let level = 1000.0 * (1.0 + key as f64);
                let factor = if slowed == Some(key) { 1.1 } else { 1.0 };
                let noise = |r: &mut Random| {
                    // The sum of four uniform numbers is near enough to a bell.
                    1.0 + 0.02 * ((0..4).map(|_| r.unit()).sum::<f64>() - 2.0)
                };
                (0..5)
                    .map(|_| level * factor * noise(&mut random))
                    .collect()
            })
            .collect()
    }

    fn compared(a: Vec<Vec<f64>>, b: Vec<Vec<f64>>) -> Vec<Change> {
        let pairs: Vec<Paired> = a
            .into_iter()
            .zip(b)
            .enumerate()
            .map(|(i, (a, b))| Paired {
                key: i.to_string(),
                better: Better::Lower,
                a,
                b,
                threshold: 0.05,
            })
            .collect();
        compare(&pairs, 1)
    }

    #[test]
    fn equal_runs_are_silent_twenty_times() {
        for i in 0..20 {
            let changes = compared(run(i, None), run(1000 + i, None));
            let flagged: Vec<_> = changes
                .iter()
                .filter(|c| c.verdict != Verdict::Same)
                .collect();
            assert!(flagged.is_empty(), "repetition {i}: {flagged:?}");
        }
    }

    #[test]
    fn a_planted_tenth_is_found_twenty_times_and_nothing_else() {
        for i in 0..20 {
            let slowed = (i as usize * 7) % 60;
            let changes = compared(run(i, None), run(1000 + i, Some(slowed)));
            for (key, change) in changes.iter().enumerate() {
                let expected = if key == slowed {
                    Verdict::Regressed
                } else {
                    Verdict::Same
                };
                assert_eq!(change.verdict, expected, "repetition {i}: {change:?}");
            }
        }
    }

    #[test]
    fn one_launch_decides_nothing() {
        let pair = Paired {
            key: "k".into(),
            better: Better::Higher,
            a: vec![1.0],
            b: vec![9.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair], 1)[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn direction_matters() {
        let pair = Paired {
            key: "k".into(),
            better: Better::Higher,
            a: vec![1.0, 1.01, 0.99, 1.0, 1.0],
            b: vec![2.0, 2.01, 1.99, 2.0, 2.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair], 1)[0].verdict, Verdict::Improved);
    }
}

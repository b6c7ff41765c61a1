//! Compares two runs (rule 20): equal keys only, ratio of medians with an interval over launches,
//! controlled false discovery rate (Benjamini and Hochberg), and an effect above the noise
//! threshold. A change counts only if all of these agree, so that comparing equal runs reports
//! nothing.
//!
//! A change in an adapter affects a whole benchmark, all sizes of a curve rather than one.
//! Therefore whole curves, of which there are tens, are tested first: by the level of their
//! launches, and by the best values of both runs (`floors`), which are known well even if some
//! launches were disturbed. Then follow the points of the curves that changed and, with a much
//! stricter limit, all other points, of which there are hundreds.

mod curve;
mod discovery;

use crate::sample::Sample;
use crate::stats::interval::Interval;
use crate::stats::moderate::Prior;
use crate::stats::welch::{Difference, difference};
use serde::{Deserialize, Serialize};

/// The direction in which a metric improves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Times, memory.
    Lower,
    /// Rates.
    Higher,
}

/// One key in both runs, with one figure per launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Paired {
    /// The compared key: benchmark, parameters and metric.
    pub key: String,
    /// The curve this point belongs to.
    pub curve: String,
    /// The direction of improvement.
    pub better: Better,
    /// The first run's launches; NaN for a launch that does not count.
    pub a: Vec<f64>,
    /// The second run's launches.
    pub b: Vec<f64>,
    /// The best of each launch of the first run: the best slice of a rate, otherwise the figure.
    pub best_a: Vec<f64>,
    /// The same for the second run.
    pub best_b: Vec<f64>,
    /// The smallest relative effect that counts.
    pub threshold: f64,
}

impl Paired {
    /// Returns the best values as times, so that less is better.
    fn times(&self) -> [Vec<f64>; 2] {
        let time = |value: &f64| match self.better {
            Better::Lower => *value,
            Better::Higher => 1.0 / value,
        };
        [&self.best_a, &self.best_b].map(|side| side.iter().map(time).collect())
    }

    /// Returns whether the best launches differ in the same direction as `ratio`: a change in the
    /// adapter shows in them, a disturbance of some launches does not.
    fn has_moved_at_best(&self, ratio: f64) -> bool {
        let best = |side: &[f64]| {
            let counting = counting(side).into_iter();
            match self.better {
                Better::Lower => counting.min_by(f64::total_cmp),
                Better::Higher => counting.max_by(f64::total_cmp),
            }
        };
        let (Some(a), Some(b)) = (best(&self.best_a), best(&self.best_b)) else {
            return false;
        };
        let apart = b / a;
        (apart - 1.0).abs() > self.threshold && (apart > 1.0) == (ratio > 1.0)
    }
}

/// The result of comparing a key.
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

/// A compared key or curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Number of points: one for a key, all of them for a curve.
    pub points: usize,
    /// Median of the first run's launches; for a curve relative to the level of both runs, which is
    /// 1.
    pub a: f64,
    /// The same for the second run.
    pub b: f64,
    /// `b / a`.
    pub ratio: f64,
    /// 95 % interval of the ratio.
    pub interval: Option<Interval>,
    /// p-value before the control of false discoveries; for a curve, of its two tests combined.
    pub p: Option<f64>,
    /// The threshold used.
    pub threshold: f64,
    /// The verdict.
    pub verdict: Verdict,
}

impl Change {
    /// Returns whether the verdict is better or worse.
    fn has_changed(&self) -> bool {
        matches!(self.verdict, Verdict::Improved | Verdict::Regressed)
    }
}

/// The comparison of two runs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// The curves of more than one point, in order of first appearance.
    pub curves: Vec<Change>,
    /// The points, in the order given.
    pub points: Vec<Change>,
}

/// Launches per side below which every key is undecided.
pub const LEAST_LAUNCHES: usize = 3;
/// False discovery rate among the reported curves, and the probability that equal runs yield one.
const FALSE_CURVES: f64 = 0.03;
/// The same among the points of curves that changed.
const FALSE_WITHIN: f64 = 0.05;
/// The same among all other points.
const FALSE_POINTS: f64 = 0.01;

/// Compares all keys.
pub fn compare(pairs: &[Paired]) -> Comparison {
    let mut points = measure(pairs);
    let groups = curve::groups(pairs);
    let mut curves = curve::measure(&groups, pairs);
    discovery::judge(&mut curves, |at| pairs[groups[at][0]].better, FALSE_CURVES);
    // Points of changed curves form a separate family: with so many true discoveries among
    // them, false ones elsewhere would pass.
    let (moved, still): (Vec<usize>, Vec<usize>) =
        (0..groups.len()).partition(|&group| curves[group].has_changed());
    for group in moved {
        discovery::judge_some(&mut points, &groups[group], pairs, FALSE_WITHIN);
    }
    let others: Vec<usize> = still
        .iter()
        .flat_map(|&group| groups[group].clone())
        .collect();
    discovery::judge_some(&mut points, &others, pairs, FALSE_POINTS);
    for group in still {
        keep_those_that_went_further(&mut points, &groups[group], pairs);
    }
    for (curve, group) in curves.iter().zip(&groups) {
        if let [alone] = group[..] {
            points[alone].verdict = curve.verdict;
        }
    }
    for (point, pair) in points.iter_mut().zip(pairs) {
        if point.has_changed() && !pair.has_moved_at_best(point.ratio) {
            point.verdict = Verdict::Same;
        }
    }
    curves.retain(|curve| curve.points > 1);
    Comparison { curves, points }
}

/// Discards changes of single points that are no larger than the largest deviation of any launch of
/// their curve. If launches of a point fall on one of two levels, five on one level are
/// occasionally compared with five on the other.
fn keep_those_that_went_further(points: &mut [Change], group: &[usize], pairs: &[Paired]) {
    let strays = curve::stray(group.iter().map(|&at| &pairs[at]));
    for &at in group {
        if points[at].has_changed() && points[at].ratio.ln().abs() <= strays {
            points[at].verdict = Verdict::Same;
        }
    }
}

/// Computes the figures of the keys, informed by the noise of all keys together, without verdicts.
fn measure(pairs: &[Paired]) -> Vec<Change> {
    let own = |pair: &Paired| {
        let (a, b) = (counting(&pair.a), counting(&pair.b));
        let enough = a.len().min(b.len()) >= LEAST_LAUNCHES;
        difference(&a, &b).filter(|_| enough)
    };
    let differences: Vec<Option<Difference>> = pairs.iter().map(own).collect();
    let prior = Prior::of(&differences.iter().copied().flatten().collect::<Vec<_>>());
    let informed = differences.into_iter().map(|difference| {
        let inform = |own| prior.map_or(own, |prior| prior.inform(own));
        difference.map(inform)
    });
    let change = |(pair, difference): (&Paired, Option<Difference>)| {
        let side = |values: &[f64]| median(&counting(values)).unwrap_or(f64::NAN);
        let (a, b) = (side(&pair.a), side(&pair.b));
        Change {
            key: pair.key.clone(),
            points: 1,
            a,
            b,
            ratio: b / a,
            interval: difference.map(|difference| difference.interval()),
            p: difference.map(|difference| difference.p_value()),
            threshold: pair.threshold,
            verdict: Verdict::Undecided,
        }
    };
    pairs.iter().zip(informed).map(change).collect()
}

/// Returns the launches that count.
fn counting(values: &[f64]) -> Vec<f64> {
    values
        .iter()
        .copied()
        .filter(|value| !value.is_nan())
        .collect()
}

fn median(values: &[f64]) -> Option<f64> {
    Sample::new(values.to_vec()).map(|sample| sample.median())
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
                    // The sum of four uniform numbers approximates a normal distribution.
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
                curve: i.to_string(),
                better: Better::Lower,
                best_a: a.clone(),
                best_b: b.clone(),
                a,
                b,
                threshold: 0.05,
            })
            .collect();
        compare(&pairs).points
    }

    #[test]
    fn equal_runs_show_no_changes() {
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
    fn only_a_planted_slowdown_of_a_tenth_is_found() {
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
    fn one_launch_is_undecided() {
        let pair = Paired {
            key: "k".into(),
            curve: "k".into(),
            better: Better::Higher,
            a: vec![1.0],
            b: vec![9.0],
            best_a: vec![1.0],
            best_b: vec![9.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair]).points[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn the_better_direction_decides_the_verdict() {
        let pair = Paired {
            key: "k".into(),
            curve: "k".into(),
            better: Better::Higher,
            a: vec![1.0, 1.01, 0.99, 1.0, 1.0],
            b: vec![2.0, 2.01, 1.99, 2.0, 2.0],
            best_a: vec![1.0, 1.01, 0.99, 1.0, 1.0],
            best_b: vec![2.0, 2.01, 1.99, 2.0, 2.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair]).points[0].verdict, Verdict::Improved);
    }
}

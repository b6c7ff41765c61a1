//! Comparing two runs (rule 20): equal keys only, ratio of medians with an interval over launches, false discoveries
//! controlled (Benjamini and Hochberg), and an effect above the noise threshold. A change counts when all agree, so that
//! equal runs stay silent.
//!
//! What changes an adapter changes a benchmark: all sizes of a curve, not one of them. So whole curves are tested first, of which
//! there are tens; then the points of those that changed; and, much more strictly, all other points, of which there are
//! hundreds.

use crate::sample::Sample;
use crate::stats::interval::Interval;
use crate::stats::moderate::Prior;
use crate::stats::welch::{Difference, difference};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    /// The curve that it is a point of.
    pub curve: String,
    /// Which way it gets better.
    pub better: Better,
    /// The first run's launches; no number for one that does not count.
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

/// A compared key, or a compared curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// The key.
    pub key: String,
    /// Points that it is of: one, or all of a curve.
    pub points: usize,
    /// Median of the first run's launches; of a curve in the middle between both runs.
    pub a: f64,
    /// Median of the second's; likewise.
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

/// Two runs compared.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Comparison {
    /// The curves of more than one point, in the order of first appearance.
    pub curves: Vec<Change>,
    /// The points, as they were given.
    pub points: Vec<Change>,
}

/// Launches a side below which nothing is called.
pub const LEAST_LAUNCHES: usize = 3;
/// Share of false ones among the curves reported, and the chance that equal runs have one.
const FALSE_CURVES: f64 = 0.04;
/// The same among the points of curves that changed.
const FALSE_WITHIN: f64 = 0.05;
/// The same among all other points.
const FALSE_POINTS: f64 = 0.01;

/// Compares all keys.
pub fn compare(pairs: &[Paired]) -> Comparison {
    let mut points = measure(pairs);
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, pair) in pairs.iter().enumerate() {
        members.entry(&pair.curve).or_default().push(at);
    }
    // A curve of one point is that point, tested as a curve: it has no others to speak for it.
    let mut groups: Vec<Vec<usize>> = members.into_values().collect();
    groups.sort_by_key(|group| group[0]);
    let shifts: Vec<Paired> = groups
        .iter()
        .map(|group| shift(&group.iter().map(|&at| &pairs[at]).collect::<Vec<_>>()))
        .collect();
    let mut curves = measure(&shifts);
    let limit = discovery_limit(curves.iter(), FALSE_CURVES);
    for ((curve, pair), group) in curves.iter_mut().zip(&shifts).zip(&groups) {
        curve.points = group.len();
        curve.verdict = verdict(curve, pair.better, limit);
    }
    let changed = |curve: &Change| matches!(curve.verdict, Verdict::Improved | Verdict::Regressed);
    // Points of curves that changed are judged among themselves: as many true discoveries beside them would let others pass.
    let (moved, still): (Vec<usize>, Vec<usize>) =
        (0..groups.len()).partition(|&group| changed(&curves[group]));
    let unmoved = still.iter().map(|&group| &groups[group]);
    let families = moved
        .iter()
        .map(|&group| (groups[group].clone(), FALSE_WITHIN));
    let families: Vec<(Vec<usize>, f64)> = families
        .chain([(unmoved.flatten().copied().collect(), FALSE_POINTS)])
        .collect();
    for (family, share) in families {
        let limit = discovery_limit(family.iter().map(|&at| &points[at]), share);
        for at in family {
            points[at].verdict = verdict(&points[at], pairs[at].better, limit);
        }
    }
    for (curve, group) in curves.iter().zip(&groups) {
        if let [alone] = group[..] {
            points[alone].verdict = curve.verdict;
        }
    }
    curves.retain(|curve| curve.points > 1);
    Comparison { curves, points }
}

/// A curve's points as one figure a launch: how far the launch lies from where both runs are, in the middle of the points.
/// Those that a launch lacks say nothing.
fn shift(points: &[&Paired]) -> Paired {
    let first = points[0];
    let most = |of: fn(&Paired) -> usize| points.iter().map(|p| of(p)).max().unwrap_or(0);
    let launches = [most(|p| p.a.len()), most(|p| p.b.len())];
    let whole = points
        .iter()
        .filter(|p| [p.a.len(), p.b.len()] == launches)
        .filter(|p| p.a.iter().chain(&p.b).all(|v| v.is_nan() || *v > 0.0));
    let middle = |values: &[f64]| median(&counting(values));
    let levels = whole.filter_map(|p| Some((*p, (middle(&p.a)? * middle(&p.b)?).sqrt())));
    let levels: Vec<(&Paired, f64)> = levels.collect();
    let side = |of: fn(&Paired) -> &[f64], count: usize| -> Vec<f64> {
        let launch = |at: usize| {
            levels
                .iter()
                .map(move |(p, level)| (of(p)[at] / level).ln())
                .filter(|shift| !shift.is_nan())
        };
        let middles = (0..count).map(|at| median(&launch(at).collect::<Vec<f64>>()));
        middles
            .map(|middle| middle.map_or(f64::NAN, f64::exp))
            .collect()
    };
    Paired {
        key: first.curve.clone(),
        a: side(|p| &p.a, launches[0]),
        b: side(|p| &p.b, launches[1]),
        ..first.clone()
    }
}

/// Figures of the keys, each with what all together tell of the noise; no verdicts yet.
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

/// Launches that count.
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

/// Benjamini and Hochberg: the largest p-value that may count when this share of false discoveries is allowed.
fn discovery_limit<'a>(changes: impl Iterator<Item = &'a Change>, share: f64) -> f64 {
    let mut values: Vec<f64> = changes.filter_map(|change| change.p).collect();
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mut passing = values
        .iter()
        .enumerate()
        .filter(|(i, p)| **p <= share * (*i as f64 + 1.0) / count);
    passing.next_back().map_or(-1.0, |(_, p)| *p)
}

fn verdict(change: &Change, better: Better, limit: f64) -> Verdict {
    let Some(p) = change.p else {
        return Verdict::Undecided;
    };
    let large = (change.ratio - 1.0).abs() > change.threshold;
    if !(large && p <= limit) {
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
                curve: i.to_string(),
                better: Better::Lower,
                a,
                b,
                threshold: 0.05,
            })
            .collect();
        compare(&pairs).points
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
            curve: "k".into(),
            better: Better::Higher,
            a: vec![1.0],
            b: vec![9.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair]).points[0].verdict, Verdict::Undecided);
    }

    #[test]
    fn direction_matters() {
        let pair = Paired {
            key: "k".into(),
            curve: "k".into(),
            better: Better::Higher,
            a: vec![1.0, 1.01, 0.99, 1.0, 1.0],
            b: vec![2.0, 2.01, 1.99, 2.0, 2.0],
            threshold: 0.05,
        };
        assert_eq!(compare(&[pair]).points[0].verdict, Verdict::Improved);
    }
}

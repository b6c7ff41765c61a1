//! Curves: tests all points of a benchmark that differ only in numeric parameters as one unit.

use super::{Better, Change, LEAST_LAUNCHES, Paired, counting, median};
use crate::stats::floors::{self, Best};
use crate::stats::moderate::Prior;
use crate::stats::welch::Difference;
use std::collections::BTreeMap;

/// Groups the keys into curves, in order of first appearance. A single point is a separate curve.
pub(super) fn groups(pairs: &[Paired]) -> Vec<Vec<usize>> {
    let mut members: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, pair) in pairs.iter().enumerate() {
        members.entry(&pair.curve).or_default().push(at);
    }
    let mut groups: Vec<Vec<usize>> = members.into_values().collect();
    groups.sort_by_key(|group| group[0]);
    groups
}

/// Computes the figures of the curves, without verdicts.
pub(super) fn measure(groups: &[Vec<usize>], pairs: &[Paired]) -> Vec<Change> {
    let shifts = groups
        .iter()
        .map(|group| shift(&group.iter().map(|&at| &pairs[at]).collect::<Vec<_>>()));
    let mut curves = super::measure(&shifts.collect::<Vec<Paired>>());
    for ((curve, best), group) in curves.iter_mut().zip(at_best(groups, pairs)).zip(groups) {
        curve.points = group.len();
        curve.heed(best);
    }
    curves
}

impl Change {
    /// Adds the second test, of the best launches. Two tests per curve double the p-value; the
    /// figures reported are those of the test with the smaller p-value.
    fn heed(&mut self, best: Option<Difference>) {
        let Some(best) = best else { return };
        let (of_launches, of_best) = (self.p.unwrap_or(1.0), best.p_value());
        if of_best < of_launches {
            (self.a, self.b) = ((-best.mean / 2.0).exp(), (best.mean / 2.0).exp());
            self.ratio = best.mean.exp();
            self.interval = Some(best.interval());
        }
        self.p = Some((2.0 * of_best.min(of_launches)).min(1.0));
    }
}

/// Returns the shift of each curve's best values (`None` for single points and curves with too few
/// launches), informed by the noise of all curves together.
fn at_best(groups: &[Vec<usize>], pairs: &[Paired]) -> Vec<Option<Difference>> {
    let own = |group: &Vec<usize>| {
        let sides: Vec<[Vec<f64>; 2]> = group.iter().map(|&at| pairs[at].times()).collect();
        let points: Vec<Best> = sides.iter().map(|[a, b]| Best { a, b }).collect();
        let enough = |one: &Best| one.a.len().min(one.b.len()) >= LEAST_LAUNCHES;
        let difference = match points.len() > 1 && points.iter().all(enough) {
            true => floors::difference(&points)?,
            false => return None,
        };
        // As the ratio of the figures: for rates, the inverse of the ratio of the times.
        Some(match pairs[group[0]].better {
            Better::Lower => difference,
            Better::Higher => Difference {
                mean: -difference.mean,
                ..difference
            },
        })
    };
    let differences: Vec<Option<Difference>> = groups.iter().map(own).collect();
    let prior = Prior::of(&differences.iter().copied().flatten().collect::<Vec<_>>());
    let inform = |own| prior.map_or(own, |prior: Prior| prior.inform(own));
    differences.into_iter().map(|one| one.map(inform)).collect()
}

/// Returns the largest deviation of any launch of these points from the median of its run, as a
/// logarithm.
pub(super) fn stray<'a>(points: impl Iterator<Item = &'a Paired>) -> f64 {
    let of_side = |side: &[f64]| {
        let middle = median(&counting(side)).unwrap_or(f64::NAN);
        let each = counting(side).into_iter();
        each.fold(0.0, |most: f64, value| {
            most.max((value / middle).ln().abs())
        })
    };
    points.fold(0.0, |most, point| {
        most.max(of_side(&point.a)).max(of_side(&point.b))
    })
}

/// Reduces a curve to one figure per launch: the median over the points of the launch's ratio to
/// the common level of both runs. Points that the launch lacks are skipped.
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

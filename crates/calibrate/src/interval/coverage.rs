//! The share of the points of left-out sources that the intervals of the other sources hold.

use super::{Intervals, Subject};
use crate::residual::{Basis, FigureKind, Residuals, SizeClass};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The share of left-out points that 80 % intervals shall hold.
pub const TARGET: (f64, f64) = (0.7, 0.9);

/// The share of left-out points within intervals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Coverage {
    /// The points, e.g. `latency, up to 64 B`.
    pub class: String,
    /// Number of points.
    pub points: usize,
    /// Number of sources.
    pub sources: usize,
    /// Share of the points within the 80 % interval.
    pub held: f64,
    /// Mean over sources of the share of their points within it.
    pub held_by_source: f64,
    /// Share of the points within the wide interval.
    pub held_wide: f64,
    /// Median factor of the 80 % intervals.
    pub factor: f64,
}

/// A left-out point: its source, whether the two intervals hold it, and the factor.
type Tried<'a> = (&'a str, bool, bool, f64);

impl Coverage {
    fn of(class: String, tried: &[Tried<'_>]) -> Coverage {
        let mut sources: BTreeMap<&str, Vec<bool>> = BTreeMap::new();
        for (source, is_held, _, _) in tried {
            sources.entry(source).or_default().push(*is_held);
        }
        let share = |held: &[bool]| {
            held.iter().filter(|held| **held).count() as f64 / held.len().max(1) as f64
        };
        let all = |held: fn(&Tried<'_>) -> bool| share(&tried.iter().map(held).collect::<Vec<_>>());
        let mut factors: Vec<f64> = tried.iter().map(|one| one.3).collect();
        factors.sort_by(f64::total_cmp);
        let of_sources: f64 = sources.values().map(|held| share(held)).sum();
        Coverage {
            class,
            points: tried.len(),
            sources: sources.len(),
            held: all(|one| one.1),
            held_by_source: of_sources / sources.len().max(1) as f64,
            held_wide: all(|one| one.2),
            factor: factors.get(factors.len() / 2).copied().unwrap_or(f64::NAN),
        }
    }
}

impl Intervals {
    /// Leaves each source out in turn, and returns the share of its points that the intervals from
    /// the other sources hold: of all points first, then by kind of figure and size.
    pub fn coverage(&self, basis: Basis) -> Vec<Coverage> {
        let mut classes: BTreeMap<(FigureKind, SizeClass), Vec<Tried<'_>>> = BTreeMap::new();
        let mut all = Vec::new();
        for curve in &self.curves {
            for point in &curve.points {
                let Some(ratio) = point.log_ratio(basis) else {
                    continue;
                };
                let size = SizeClass::of(point.bytes);
                let Some(interval) =
                    self.without(&subject(curve, size, basis), Some(&curve.source))
                else {
                    continue;
                };
                let within = |factor: f64| ratio.abs() <= factor.ln();
                let tried = (
                    curve.source.as_str(),
                    within(interval.factor),
                    within(interval.wide_factor),
                    interval.factor,
                );
                all.push(tried);
                classes.entry((curve.figure, size)).or_default().push(tried);
            }
        }
        let classes = classes.into_iter();
        let classes = classes
            .map(|((figure, size), tried)| Coverage::of(format!("{figure}, {size}"), &tried));
        std::iter::once(Coverage::of("all".to_owned(), &all))
            .chain(classes)
            .collect()
    }

    /// Leaves each source out in turn, and returns the share of the ratios between it and the
    /// others that the spread of the others' ratios holds.
    pub fn ratio_coverage(&self, basis: Basis) -> Coverage {
        let mut tried = Vec::new();
        for curve in &self.curves {
            for size in SizeClass::ALL {
                let subject = subject(curve, size, basis);
                let Some(ratio) = self.ratio_without(&subject, Some(&curve.source)) else {
                    continue;
                };
                for difference in self.differences_from(curve, size, basis) {
                    let is_held = difference.abs() <= ratio.factor.ln();
                    tried.push((curve.source.as_str(), is_held, is_held, ratio.factor));
                }
            }
        }
        Coverage::of("ratio of two systems".to_owned(), &tried)
    }

    /// Returns the differences of the log ratios of a curve's points and those of other sources
    /// with the same figure and size.
    fn differences_from(&self, curve: &Residuals, size: SizeClass, basis: Basis) -> Vec<f64> {
        let others = self.curves.iter().filter(|other| {
            other.source != curve.source
                && (other.figure, other.layer) == (curve.figure, curve.layer)
        });
        let points = || {
            let points = curve.points.iter();
            points.filter(move |point| SizeClass::of(point.bytes) == size)
        };
        let mut found = Vec::new();
        for other in others {
            for point in points() {
                let same = other.points.iter().find(|one| one.bytes == point.bytes);
                let same = same.and_then(|one| one.log_ratio(basis));
                if let (Some(one), Some(other)) = (point.log_ratio(basis), same) {
                    found.push(one - other);
                }
            }
        }
        found
    }
}

fn subject(curve: &Residuals, size: SizeClass, basis: Basis) -> Subject {
    Subject {
        figure: curve.figure,
        layer: curve.layer,
        size,
        adapter: Some(curve.adapter.clone()),
        basis,
        stand_in: None,
    }
}

/// Returns the coverage of blind and anchored intervals as a table.
pub fn text(intervals: &Intervals) -> String {
    let mut out = format!(
        "{:<44} {:>7} {:>8} {:>8} {:>10} {:>8} {:>7}\n",
        "80 % intervals, one source left out",
        "points",
        "sources",
        "held, %",
        "by source",
        "wide, %",
        "factor"
    );
    for basis in Basis::ALL {
        let ratio = intervals.ratio_coverage(basis);
        for one in intervals.coverage(basis).into_iter().chain([ratio]) {
            let _ = writeln!(
                out,
                "  {:<8} {:<33} {:>7} {:>8} {:>8.1} {:>10.1} {:>8.1} {:>7.2}",
                basis.word(),
                one.class,
                one.points,
                one.sources,
                100.0 * one.held,
                100.0 * one.held_by_source,
                100.0 * one.held_wide,
                one.factor
            );
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::curve;
    use super::*;

    #[test]
    fn a_left_out_source_beyond_all_others_is_not_held() {
        let sources = [("a", 1.3), ("b", 1.3), ("c", 1.3), ("d", 1.3), ("e", 3.0)];
        let curves = sources.map(|(source, ratio)| curve(source, "connectx5", &[ratio; 4]));
        let intervals = Intervals::of(curves.to_vec());
        let coverage = intervals.coverage(Basis::Blind);
        assert_eq!(coverage[0].class, "all");
        assert_eq!((coverage[0].points, coverage[0].sources), (20, 5));
        assert!((coverage[0].held - 0.8).abs() < 1e-9, "{coverage:?}");
        assert_eq!(coverage[1].class, "latency, up to 64 B");
        assert_eq!(intervals.coverage(Basis::Anchored)[0].points, 15);
        assert!(text(&intervals).contains("ratio of two systems"));
    }
}

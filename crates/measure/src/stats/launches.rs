//! A figure over launches (rules 7 and 8): its interval, and whether the launches agree on one
//! level at all. Samples of one launch are not independent, but launches are; so the relevant
//! spread is that of the launches, which includes that of the samples.

use crate::sample::Sample;
use crate::stats::interval::{Interval, of_quantile};
use serde::{Deserialize, Serialize};

/// Smallest ratio between two groups of launches.
const APART: f64 = 1.15;
/// Smallest ratio of the gap between the groups to the spread within both together, on logarithms.
const CLEAR: f64 = 2.0;

/// Returns the interval of the median over launches: with eight or more from order statistics, at
/// 95 %; with fewer from the smallest to the largest, which contains the median in 94 % of cases
/// with five, 88 with four and 75 with three. `None` for one launch.
pub fn interval(launches: &Sample) -> Option<Interval> {
    let range = (launches.count() > 1).then(|| Interval {
        low: launches.min(),
        high: launches.max(),
    });
    of_quantile(launches, 0.5).or(range)
}

/// Launches on two levels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Levels {
    /// Number of launches on the lower level.
    pub below: usize,
    /// Number of launches on the upper level.
    pub above: usize,
    /// Median of the upper level over that of the lower one.
    pub ratio: f64,
}

/// Returns the two levels, if the launches have them.
pub fn levels(launches: &Sample) -> Option<Levels> {
    let [below, above] = split(launches)?;
    Some(Levels {
        below: below.count(),
        above: above.count(),
        ratio: above.median() / below.median(),
    })
}

/// Returns the launches of the lower and of the upper level, if there are two: the widest gap
/// between neighbours must be most of their spread.
pub fn split(launches: &Sample) -> Option<[Sample; 2]> {
    let values = launches.values();
    if launches.min() <= 0.0 || values.len() < 3 {
        return None;
    }
    let gap = |at: usize| (values[at] / values[at - 1]).ln();
    let at = (1..values.len()).max_by(|a, b| gap(*a).total_cmp(&gap(*b)))?;
    let within = (launches.max() / launches.min()).ln() - gap(at);
    if gap(at) <= APART.ln() || gap(at) < CLEAR * within {
        return None;
    }
    let [below, above] = [&values[..at], &values[at..]].map(|of| Sample::new(of.to_vec()));
    Some([below?, above?])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(values: &[f64]) -> Sample {
        Sample::new(values.to_vec()).unwrap()
    }

    #[test]
    fn one_deviating_launch_is_detected() {
        // From a real run: the median hides the outlying launch, and a mean would lie on neither
        // level.
        let found = levels(&sample(&[1845.0, 234.0, 255.0, 235.0, 257.0])).unwrap();
        assert_eq!((found.below, found.above), (4, 1));
        assert!((found.ratio - 7.5).abs() < 0.1, "{found:?}");
        let two = levels(&sample(&[100.0, 101.0, 140.0, 141.0, 139.0])).unwrap();
        assert_eq!((two.below, two.above), (2, 3));
        let [near, far] = split(&sample(&[347.0, 137.0, 138.0, 346.0, 136.0])).unwrap();
        assert_eq!((near.count(), near.median()), (3, 137.0));
        assert_eq!((far.count(), far.median()), (2, 346.5));
    }

    #[test]
    fn a_wide_spread_is_not_two_levels() {
        assert_eq!(levels(&sample(&[100.0, 112.0, 125.0, 140.0, 157.0])), None);
        assert_eq!(levels(&sample(&[100.0, 101.0, 102.0, 104.0, 110.0])), None);
        assert_eq!(levels(&sample(&[1.0, 9.0])), None);
        assert_eq!(levels(&sample(&[0.0, 0.0, 9.0])), None);
    }

    #[test]
    fn the_interval_contains_the_median() {
        assert_eq!(interval(&sample(&[1.0])), None);
        let of = |values: &[f64]| interval(&sample(values)).map(|i| (i.low, i.high));
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((1.0, 3.0)));
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        let (low, high) = of(&twenty).unwrap();
        assert!(low <= 10.5 && 10.5 <= high && high - low < 12.0);
    }
}

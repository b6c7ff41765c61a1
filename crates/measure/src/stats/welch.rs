//! Welch's test of two means with unequal variances, on logarithms; its p-value feeds the control
//! of false discoveries (rule 20). From eight values per side it becomes Yuen's test, of means
//! without the outermost fifth at either end: on a shared machine one launch in ten is disturbed,
//! and one such launch would hide any change (K. K. Yuen, Biometrika 61, 1974). Trimming affects
//! the test only; every figure keeps all its values.

use crate::sample::Sample;
use crate::stats::interval::Interval;
use crate::stats::special::{student95, two_sided};

/// With fewer values per side, none is trimmed.
const ENOUGH_TO_TRIM: usize = 8;

/// One side of the test: the trimmed mean, its squared standard error, and the number of values
/// left.
struct Side {
    mean: f64,
    error: f64,
    left: f64,
}

impl Side {
    fn of(values: &[f64]) -> Option<Side> {
        let sample = Sample::new(values.iter().map(|value| value.ln()).collect())?;
        let count = sample.count();
        let trimmed = if count < ENOUGH_TO_TRIM { 0 } else { count / 5 };
        let kept = sample.values()[trimmed..count - trimmed].to_vec();
        let (low, high) = (kept[0], kept[kept.len() - 1]);
        // For the spread, trimmed values count as their neighbours (winsorised).
        let tamed = sample.values().iter().map(|value| value.clamp(low, high));
        let deviation = Sample::new(tamed.collect())?.standard_deviation()?;
        let left = kept.len() as f64;
        Some(Side {
            mean: Sample::new(kept)?.mean(),
            error: deviation.powi(2) * (count as f64 - 1.0) / (left * (left - 1.0)),
            left,
        })
    }
}

/// The difference of the means of the logarithms of two sides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The second mean less the first.
    pub mean: f64,
    /// Squared standard error.
    pub variance: f64,
    /// Degrees of freedom of the standard error.
    pub freedom: f64,
}

impl Difference {
    /// Returns the two-sided p-value of no difference. Without variance, 1 if the means are equal
    /// and 0 otherwise.
    pub fn p_value(&self) -> f64 {
        match (self.variance == 0.0, self.mean == 0.0) {
            (true, true) => 1.0,
            (true, false) => 0.0,
            _ => two_sided(self.mean / self.variance.sqrt(), self.freedom),
        }
    }

    /// Returns the 95 % interval of the ratio.
    pub fn interval(&self) -> Interval {
        let half = student95(self.freedom) * self.variance.sqrt();
        Interval {
            low: (self.mean - half).exp(),
            high: (self.mean + half).exp(),
        }
    }
}

/// Returns the difference of two sides with separate variances. `None` if a side has fewer than two
/// values or one that is not positive.
pub fn difference(a: &[f64], b: &[f64]) -> Option<Difference> {
    let (a, b) = (Side::of(a)?, Side::of(b)?);
    let variance = a.error + b.error;
    let each = a.error.powi(2) / (a.left - 1.0) + b.error.powi(2) / (b.left - 1.0);
    let freedom = match each > 0.0 {
        true => variance.powi(2) / each,
        false => a.left + b.left - 2.0,
    };
    Some(Difference {
        mean: b.mean - a.mean,
        variance,
        freedom,
    })
}

/// Returns the two-sided p-value of equal means of the logarithms.
pub fn p_value_of_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    difference(a, b).map(|difference| difference.p_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_launch_does_not_hide_a_change() {
        let noise = [0.99, 1.0, 1.01, 0.995, 1.005, 1.0, 0.99, 1.01, 1.0, 1.0];
        let mut before = noise.map(|x| 200.0 * x);
        let after = noise.map(|x| 220.0 * x);
        before[3] = 400.0;
        assert!(p_value_of_ratio(&before, &after).unwrap() < 1e-6);
        // With few values nothing is trimmed, and the disturbed launch counts.
        assert!(p_value_of_ratio(&before[..5], &after[..5]).unwrap() > 0.05);
    }

    #[test]
    fn the_false_positive_rate_is_the_nominal_one() {
        let mut random = crate::random::Random::new(3);
        let mut side = || -> Vec<f64> {
            let bell = |r: &mut crate::random::Random| (0..12).map(|_| r.unit()).sum::<f64>() - 6.0;
            (0..10).map(|_| (0.02 * bell(&mut random)).exp()).collect()
        };
        let called = (0..4000).filter(|_| p_value_of_ratio(&side(), &side()).unwrap() < 0.05);
        let share = called.count() as f64 / 4000.0;
        assert!((0.03..0.065).contains(&share), "{share}");
    }

    #[test]
    fn the_test_handles_hostile_samples() {
        assert_eq!(p_value_of_ratio(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[0.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[2.0, 2.0]), Some(1.0));
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[3.0, 3.0]), Some(0.0));
        assert!(p_value_of_ratio(&[1.0, 1.0], &[1.0, 1.01]).unwrap() > 0.05);
    }
}

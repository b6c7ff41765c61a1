//! Classifies and counts outliers; none is removed (rule 22). Tukey's fences: 1.5 and 3
//! interquartile ranges.

use crate::sample::Sample;
use crate::stats::quantile::nearest_rank;
use serde::{Deserialize, Serialize};

/// Counts of outliers by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Outliers {
    /// More than 3 interquartile ranges below the first quartile.
    pub low_severe: u64,
    /// 1.5 to 3 below.
    pub low_mild: u64,
    /// 1.5 to 3 above the third quartile.
    pub high_mild: u64,
    /// More than 3 above.
    pub high_severe: u64,
}

/// Classifies a sample; if the quartiles are equal, every value that differs is severe.
pub fn classify(sample: &Sample) -> Outliers {
    let (q1, q3) = (nearest_rank(sample, 0.25), nearest_rank(sample, 0.75));
    let distance = q3 - q1;
    let mut outliers = Outliers::default();
    for &value in sample.values() {
        if value < q1 - 3.0 * distance {
            outliers.low_severe += 1;
        } else if value < q1 - 1.5 * distance {
            outliers.low_mild += 1;
        } else if value > q3 + 3.0 * distance {
            outliers.high_severe += 1;
        } else if value > q3 + 1.5 * distance {
            outliers.high_mild += 1;
        }
    }
    outliers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spike_is_a_severe_outlier_and_is_kept() {
        let mut values: Vec<f64> = (0..100).map(|i| 100.0 + f64::from(i % 7)).collect();
        values.push(1e6);
        let sample = Sample::new(values).unwrap();
        assert_eq!(classify(&sample).high_severe, 1);
        assert_eq!(sample.max(), 1e6);
    }

    #[test]
    fn equal_values_have_no_outliers() {
        assert_eq!(
            classify(&Sample::new(vec![5.0; 9]).unwrap()),
            Outliers::default()
        );
        assert_eq!(
            classify(&Sample::new(vec![5.0]).unwrap()),
            Outliers::default()
        );
    }
}

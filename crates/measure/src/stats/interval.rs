//! Confidence intervals of a quantile from order statistics (rule 7).

use crate::sample::Sample;

/// Two-sided 95 %.
const Z95: f64 = 1.959_964;

/// An interval that contains a value with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Returns half the width relative to `value`; infinite for 0.
    pub fn relative_half_width(&self, value: f64) -> f64 {
        ((self.high - self.low) / 2.0 / value).abs()
    }
}

/// Returns the interval of the p-quantile: the order statistics whose ranks are two-sided binomial
/// bounds (normal approximation). `None` if the sample is too small for both ranks to exist, e.g.
/// the median of fewer than 6.
pub fn of_quantile(sample: &Sample, p: f64) -> Option<Interval> {
    let n = sample.count() as f64;
    let spread = Z95 * (n * p * (1.0 - p)).sqrt();
    let low = (n * p - spread).floor();
    let high = (n * p + spread).ceil() + 1.0;
    if low < 1.0 || high > n {
        return None;
    }
    let values = sample.values();
    Some(Interval {
        low: values[low as usize - 1],
        high: values[high as usize - 1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn small_samples_have_no_interval() {
        for n in 1..=5 {
            let sample = Sample::new((0..n).map(f64::from).collect()).unwrap();
            assert_eq!(of_quantile(&sample, 0.5), None, "n = {n}");
        }
    }

    #[test]
    fn the_interval_has_its_nominal_coverage() {
        let mut random = Random::new(7);
        let mut covered = 0;
        for _ in 0..1000 {
            let values = (0..101).map(|_| random.unit().powi(3)).collect();
            let interval = of_quantile(&Sample::new(values).unwrap(), 0.5).unwrap();
            covered += usize::from(interval.low <= 0.125 && 0.125 <= interval.high);
        }
        assert!((930..=985).contains(&covered), "{covered} of 1000");
    }
}

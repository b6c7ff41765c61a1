//! Confidence intervals: of a quantile from order statistics, of a mean over launches (rule 7).

use crate::sample::Sample;

/// Two-sided 95 %.
const Z95: f64 = 1.959_964;

/// An interval that holds a value with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Half its width relative to `value`; infinite for 0.
    pub fn relative_half_width(&self, value: f64) -> f64 {
        ((self.high - self.low) / 2.0 / value).abs()
    }
}

/// Of the p-quantile: the order statistics whose ranks are two-sided binomial bounds (normal approximation). `None`
/// where the sample is too small for both ranks to exist, e.g. the median of fewer than 6.
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

/// Of the mean, by Student's t, for independent values such as one figure a launch. `None` for fewer than two.
pub fn of_mean(sample: &Sample) -> Option<Interval> {
    let deviation = sample.standard_deviation()?;
    let half = student95(sample.count() - 1) * deviation / (sample.count() as f64).sqrt();
    let mean = sample.mean();
    Some(Interval {
        low: mean - half,
        high: mean + half,
    })
}

/// Student's t for two-sided 95 %: the textbook table, then its expansion around the normal distribution.
fn student95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => TABLE[freedom - 1],
        _ => {
            let v = freedom as f64;
            Z95 + (Z95.powi(3) + Z95) / (4.0 * v)
                + (5.0 * Z95.powi(5) + 16.0 * Z95.powi(3) + 3.0 * Z95) / (96.0 * v * v)
        }
    }
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
        assert_eq!(of_mean(&Sample::new(vec![1.0]).unwrap()), None);
    }

    #[test]
    fn the_median_is_covered_as_often_as_promised() {
        let mut random = Random::new(7);
        let mut covered = 0;
        for _ in 0..1000 {
            let values = (0..101).map(|_| random.unit().powi(3)).collect();
            let interval = of_quantile(&Sample::new(values).unwrap(), 0.5).unwrap();
            covered += usize::from(interval.low <= 0.125 && 0.125 <= interval.high);
        }
        assert!((930..=985).contains(&covered), "{covered} of 1000");
    }

    #[test]
    fn student_joins_smoothly() {
        assert!((student95(30) - 2.042).abs() < 0.003);
        assert!(student95(11) < student95(10));
    }
}

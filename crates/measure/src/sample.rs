//! Sorted samples, the invariant that the statistics rely on.

/// At least one finite number, sorted.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample(Vec<f64>);

impl Sample {
    /// Sorts values in any order; `None` if there are none or one is not finite.
    pub fn new(mut values: Vec<f64>) -> Option<Sample> {
        if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        Some(Sample(values))
    }

    /// Returns the values in ascending order.
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Returns the number of values.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the smallest value.
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// Returns the largest value.
    pub fn max(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Returns the mean; summation is compensated, so that a long run of large values keeps
    /// deviations under a nanosecond (rule 23).
    pub fn mean(&self) -> f64 {
        let first = self.0[0];
        let mut sum = 0.0;
        let mut lost = 0.0;
        for value in &self.0 {
            let term = (value - first) - lost;
            let next = sum + term;
            lost = (next - sum) - term;
            sum = next;
        }
        first + sum / self.0.len() as f64
    }

    /// Returns the sample standard deviation; `None` for one value.
    pub fn standard_deviation(&self) -> Option<f64> {
        if self.0.len() < 2 {
            return None;
        }
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        Some((squares / (self.0.len() - 1) as f64).sqrt())
    }

    /// Returns the middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        let half = self.0.len() / 2;
        if self.0.len() % 2 == 1 {
            self.0[half]
        } else {
            (self.0[half - 1] + self.0[half]) / 2.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_and_nonfinite_samples_are_refused() {
        assert_eq!(Sample::new(vec![]), None);
        assert_eq!(Sample::new(vec![1.0, f64::NAN]), None);
        assert_eq!(Sample::new(vec![f64::INFINITY]), None);
    }

    #[test]
    fn deviations_below_a_nanosecond_are_kept() {
        let sample = Sample::new(vec![1e9, 1e9 + 0.25, 1e9 + 0.5]).unwrap();
        assert!((sample.mean() - (1e9 + 0.25)).abs() < 1e-6);
        assert!((sample.standard_deviation().unwrap() - 0.25).abs() < 1e-6);
    }

    #[test]
    fn samples_of_one_and_two_values_have_statistics() {
        let one = Sample::new(vec![7.0]).unwrap();
        assert_eq!(
            (one.median(), one.mean(), one.standard_deviation()),
            (7.0, 7.0, None)
        );
        let two = Sample::new(vec![3.0, 1.0]).unwrap();
        assert_eq!((two.median(), two.min(), two.max()), (2.0, 1.0, 3.0));
    }

    #[test]
    fn equal_values_have_no_spread() {
        let sample = Sample::new(vec![0.1; 1000]).unwrap();
        assert_eq!(sample.standard_deviation(), Some(0.0));
        assert_eq!(sample.mean(), 0.1);
    }
}

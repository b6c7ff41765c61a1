//! The stopping rule (rule 9): sampling ends when the interval of the median is narrow enough or
//! the cap is reached; the result records which.

use crate::sample::Sample;
use crate::stats::interval;

/// Target for the relative half-width.
pub const TARGET: f64 = 0.02;

/// The precision of the median.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// Relative half-width of the 95 % interval; `None` for too few samples.
    pub half_width: Option<f64>,
    /// Whether it is within the target.
    pub converged: bool,
}

/// Judges a sample against `target`.
pub fn judge(sample: &Sample, target: f64) -> Convergence {
    let half_width = interval::of_quantile(sample, 0.5)
        .map(|interval| interval.relative_half_width(sample.median()))
        .filter(|width| width.is_finite());
    Convergence {
        half_width,
        converged: half_width.is_some_and(|width| width <= target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_samples_never_converge() {
        let sample = Sample::new(vec![1.0, 1.0, 1.0]).unwrap();
        assert_eq!(
            judge(&sample, TARGET),
            Convergence {
                half_width: None,
                converged: false
            }
        );
    }

    #[test]
    fn many_equal_samples_converge() {
        let sample = Sample::new(vec![3.0; 50]).unwrap();
        assert!(judge(&sample, TARGET).converged);
        let zeros = Sample::new(vec![0.0; 50]).unwrap();
        assert!(!judge(&zeros, TARGET).converged);
    }
}

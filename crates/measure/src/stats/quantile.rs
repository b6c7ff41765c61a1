//! Nearest-rank percentiles (rule 6).

use crate::sample::Sample;

/// Samples that must lie beyond a percentile for it to be reported (rule 6).
const BEYOND: f64 = 10.0;

/// Returns the p-quantile by nearest rank, for any sample size; p within [0, 1].
pub fn nearest_rank(sample: &Sample, p: f64) -> f64 {
    let count = sample.count();
    // A product that should be whole may round up slightly; that must not change the rank.
    let rank = (p * count as f64 - 1e-9).ceil().max(1.0) as usize;
    sample.values()[rank.min(count) - 1]
}

/// Returns the p-quantile if at least ten samples lie beyond it, otherwise `None`. Quantiles up to
/// the median are always returned.
pub fn supported(sample: &Sample, p: f64) -> Option<f64> {
    let beyond = sample.count() as f64 * (1.0 - p) + 1e-9;
    (p <= 0.5 || beyond >= BEYOND).then(|| nearest_rank(sample, p))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(n: usize) -> Sample {
        Sample::new((1..=n).map(|i| i as f64).collect()).unwrap()
    }

    #[test]
    fn quantile_ranks_are_exact() {
        let sample = counted(100);
        assert_eq!(nearest_rank(&sample, 0.5), 50.0);
        assert_eq!(nearest_rank(&sample, 0.9), 90.0);
        assert_eq!(nearest_rank(&sample, 0.0), 1.0);
        assert_eq!(nearest_rank(&sample, 1.0), 100.0);
    }

    #[test]
    fn unsupported_percentiles_are_none() {
        assert_eq!(supported(&counted(99), 0.9), None);
        assert_eq!(supported(&counted(100), 0.9), Some(90.0));
        assert_eq!(supported(&counted(999), 0.99), None);
        assert_eq!(supported(&counted(1000), 0.99), Some(990.0));
        assert_eq!(supported(&counted(10_000), 0.999), Some(9990.0));
        assert_eq!(supported(&counted(1), 0.5), Some(1.0));
    }
}

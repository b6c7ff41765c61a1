//! Estimates noise from many keys at once (rule 20). Five launches per side determine the variance
//! of a figure only to about a half, and a test on them alone must allow for that. But hundreds of
//! figures were measured in the same launches. A scaled inverse chi-squared prior is fitted to the
//! distribution of their variances, and each variance is shrunk towards the typical one, the more
//! so the more alike the variances are (G. K. Smyth, Statistical Applications in Genetics and
//! Molecular Biology 3, 2004). A figure that varies far more than the others keeps its own
//! variance.

use crate::sample::Sample;
use crate::stats::special::{digamma, incomplete_beta, trigamma, trigamma_inverse};
use crate::stats::welch::Difference;

/// Fewer keys do not determine the distribution of the variances.
const ENOUGH: usize = 10;
/// Upper limit of half the degrees of freedom, where the variance is practically known.
const MOST: f64 = 500.0;
/// Variances above the middle are clamped to this many deviations.
const FARTHEST: f64 = 2.5;

/// The noise of the keys: the typical variance, and the degrees of freedom of that estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    variance: f64,
    freedom: f64,
    keys: f64,
}

impl Prior {
    /// Fits the prior to these keys; `None` if there are too few.
    pub fn of(differences: &[Difference]) -> Option<Prior> {
        let known = differences.iter().filter(|one| one.variance > 0.0);
        let known: Vec<&Difference> = known.collect();
        if known.len() < ENOUGH {
            return None;
        }
        let logs = known.iter().map(|one| {
            let half = one.freedom / 2.0;
            one.variance.ln() - digamma(half) + half.ln()
        });
        // Clamped, so that one figure with two levels does not make all others seem unlike each
        // other.
        let logs = tamed(logs.collect())?;
        let expected = known.iter().map(|one| trigamma(one.freedom / 2.0));
        let expected = expected.sum::<f64>() / known.len() as f64;
        let excess = logs.standard_deviation()?.powi(2) - expected;
        // Without excess the variances differ no more than by chance.
        let half = match excess > 0.0 {
            true => trigamma_inverse(excess).min(MOST),
            false => MOST,
        };
        Some(Prior {
            variance: (logs.mean() + digamma(half) - half.ln()).exp(),
            freedom: 2.0 * half,
            keys: known.len() as f64,
        })
    }

    /// Returns the difference with its variance informed by the prior.
    pub fn inform(&self, own: Difference) -> Difference {
        if self.is_unlike(&own) {
            return own;
        }
        let freedom = own.freedom + self.freedom;
        Difference {
            variance: (own.freedom * own.variance + self.freedom * self.variance) / freedom,
            freedom,
            ..own
        }
    }

    /// Returns whether so large a variance is not expected among this many keys, by the upper tail
    /// of the F distribution.
    fn is_unlike(&self, own: &Difference) -> bool {
        let ratio = own.variance / self.variance;
        let share = self.freedom / (self.freedom + own.freedom * ratio);
        incomplete_beta(share, self.freedom / 2.0, own.freedom / 2.0) < 1.0 / self.keys
    }
}

/// Clamps values far above the middle.
fn tamed(values: Vec<f64>) -> Option<Sample> {
    let sample = Sample::new(values)?;
    let middle = sample.median();
    let below = sample.values().iter().filter(|value| **value <= middle);
    // The lower half gives the spread unaffected by far values.
    let spread = Sample::new(below.map(|value| middle - value).collect())?.median() * 1.4826;
    let limit = middle + FARTHEST * spread;
    Sample::new(
        sample
            .values()
            .iter()
            .map(|value| value.min(limit))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::stats::welch::difference;

    fn sides(random: &mut Random, noise: f64) -> Difference {
        let mut side = || -> Vec<f64> {
            let mut bell = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            (0..5).map(|_| (noise * bell()).exp()).collect()
        };
        difference(&side(), &side()).unwrap()
    }

    #[test]
    fn similar_keys_share_their_noise_estimate() {
        let mut random = Random::new(1);
        let keys: Vec<Difference> = (0..200).map(|_| sides(&mut random, 0.02)).collect();
        let prior = Prior::of(&keys).unwrap();
        // The variance of the difference of two means of five.
        let expected = 0.02f64.powi(2) * 2.0 / 5.0;
        assert!((prior.variance / expected - 1.0).abs() < 0.2, "{prior:?}");
        assert!(prior.freedom > 30.0, "{prior:?}");
        let unlike = sides(&mut random, 0.5);
        assert_eq!(prior.inform(unlike), unlike);
    }

    #[test]
    fn dissimilar_keys_keep_their_own_noise_estimate() {
        let mut random = Random::new(2);
        let mut noise = |i: i32| sides(&mut random, 0.001 * 3f64.powi(i % 7));
        let keys: Vec<Difference> = (0..200).map(&mut noise).collect();
        let prior = Prior::of(&keys).unwrap();
        assert!(prior.freedom < 3.0, "{prior:?}");
    }

    #[test]
    fn few_or_constant_keys_give_no_prior() {
        let still = Difference {
            mean: 0.0,
            variance: 0.0,
            freedom: 8.0,
        };
        assert_eq!(Prior::of(&[]), None);
        assert_eq!(Prior::of(&[still; 100]), None);
        assert_eq!(
            Prior::of(
                &[Difference {
                    variance: 1.0,
                    ..still
                }; 9]
            ),
            None
        );
        let equal = Prior::of(
            &[Difference {
                variance: 1.0,
                ..still
            }; 50],
        )
        .unwrap();
        assert!(equal.inform(still).variance.is_finite());
    }
}

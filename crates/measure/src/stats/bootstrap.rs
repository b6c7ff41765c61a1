//! The bootstrap over launches (rule 20): the launches are what is independent, so they are what is resampled.

use crate::random::Random;
use crate::sample::Sample;
use crate::stats::interval::Interval;

/// Resamples drawn.
const ROUNDS: usize = 2000;

/// 95 % interval of the ratio median(b) / median(a). `None` if either has fewer than two launches or a median of zero.
pub fn ratio_of_medians(a: &[f64], b: &[f64], seed: u64) -> Option<Interval> {
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let mut random = Random::new(seed);
    let ratios: Option<Vec<f64>> = (0..ROUNDS)
        .map(|_| {
            let below = resampled_median(a, &mut random)?;
            let above = resampled_median(b, &mut random)?;
            (below != 0.0).then_some(above / below)
        })
        .collect();
    let sorted = Sample::new(ratios?)?;
    let at = |p: f64| sorted.values()[((ROUNDS as f64 * p) as usize).min(ROUNDS - 1)];
    Some(Interval {
        low: at(0.025),
        high: at(0.975),
    })
}

fn resampled_median(values: &[f64], random: &mut Random) -> Option<f64> {
    let drawn = (0..values.len())
        .map(|_| values[random.below(values.len())])
        .collect();
    Sample::new(drawn).map(|sample| sample.median())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_launches_give_a_point() {
        let interval = ratio_of_medians(&[2.0; 5], &[3.0; 5], 1).unwrap();
        assert_eq!((interval.low, interval.high), (1.5, 1.5));
    }

    #[test]
    fn too_few_or_not_numbers_give_none() {
        assert_eq!(ratio_of_medians(&[1.0], &[1.0, 2.0], 1), None);
        assert_eq!(ratio_of_medians(&[0.0, 0.0], &[1.0, 2.0], 1), None);
        assert_eq!(ratio_of_medians(&[f64::NAN, 1.0], &[1.0, 2.0], 1), None);
    }

    #[test]
    fn the_seed_decides() {
        let (a, b) = ([1.0, 1.1, 0.9, 1.2], [1.3, 1.0, 1.1, 1.4]);
        assert_eq!(ratio_of_medians(&a, &b, 3), ratio_of_medians(&a, &b, 3));
    }
}

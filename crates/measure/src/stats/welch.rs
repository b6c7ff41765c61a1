//! Welch's test of two means with unequal spread, on logarithms: its p-value feeds the control of false discoveries
//! (rule 20). From eight values a side it is Yuen's: of means without the outermost fifth at either end, for on a shared
//! machine a launch in ten is disturbed, and one such launch would hide any change (K. K. Yuen, Biometrika 61, 1974). The
//! values stay in every figure; only the test is told not to be swayed.

use crate::sample::Sample;

/// Fewer values a side are all used.
const ENOUGH_TO_TRIM: usize = 8;

/// A side of the test: the mean of what is not trimmed, its squared standard error, and how many are left.
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
        // The spread counts what is trimmed as its neighbours (winsorised).
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

/// Two-sided p-value that the means of the logarithms are equal. `None` for fewer than two values a side or a value that
/// is not positive. Two sides without any spread give 1 when equal and 0 when not.
pub fn p_value_of_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let (a, b) = (Side::of(a)?, Side::of(b)?);
    let difference = b.mean - a.mean;
    let variance = a.error + b.error;
    if variance == 0.0 {
        return Some(if difference == 0.0 { 1.0 } else { 0.0 });
    }
    let freedom = variance.powi(2)
        / (a.error.powi(2) / (a.left - 1.0) + b.error.powi(2) / (b.left - 1.0))
            .max(f64::MIN_POSITIVE);
    let t = difference / variance.sqrt();
    Some(incomplete_beta(
        freedom / (freedom + t * t),
        freedom / 2.0,
        0.5,
    ))
}

/// The regularised incomplete beta function by its continued fraction (Lentz's method; Abramowitz and Stegun 26.5.8).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    const TINY: f64 = 1e-300;
    let (mut f, mut c, mut d) = (1.0, 1.0, 0.0);
    for i in 0..300 {
        let m = f64::from(i / 2);
        let numerator = match i {
            0 => 1.0,
            i if i % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        d = 1.0 + numerator * d;
        d = 1.0 / if d.abs() < TINY { TINY } else { d };
        c = 1.0 + numerator / c;
        c = if c.abs() < TINY { TINY } else { c };
        f *= c * d;
        if (c * d - 1.0).abs() < 1e-12 {
            break;
        }
    }
    (front * (f - 1.0)).clamp(0.0, 1.0)
}

/// The logarithm of the gamma function for positive arguments (Lanczos' approximation, g = 7).
fn ln_gamma(x: f64) -> f64 {
    const G: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = G[0]
        + G[1..]
            .iter()
            .enumerate()
            .map(|(i, g)| g / (x + i as f64 + 1.0))
            .sum::<f64>();
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn textbook_values() {
        // t = 2.228 with 10 degrees of freedom is the two-sided 5 % point.
        let p = incomplete_beta(10.0 / (10.0 + 2.228f64.powi(2)), 5.0, 0.5);
        assert!((p - 0.05).abs() < 1e-4, "{p}");
        assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-10);
    }

    #[test]
    fn a_disturbed_launch_does_not_hide_a_change() {
        let noise = [0.99, 1.0, 1.01, 0.995, 1.005, 1.0, 0.99, 1.01, 1.0, 1.0];
        let mut before = noise.map(|x| 200.0 * x);
        let after = noise.map(|x| 220.0 * x);
        before[3] = 400.0;
        assert!(p_value_of_ratio(&before, &after).unwrap() < 1e-6);
        // With few values nothing is trimmed, and the disturbed one counts.
        assert!(p_value_of_ratio(&before[..5], &after[..5]).unwrap() > 0.05);
    }

    #[test]
    fn equal_sides_are_called_different_as_rarely_as_they_should_be() {
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
    fn hostile_sides() {
        assert_eq!(p_value_of_ratio(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[0.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[2.0, 2.0]), Some(1.0));
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[3.0, 3.0]), Some(0.0));
        assert!(p_value_of_ratio(&[1.0, 1.0], &[1.0, 1.01]).unwrap() > 0.05);
    }
}

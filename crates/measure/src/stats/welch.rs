//! Welch's test of two means with unequal spread, on logarithms: its p-value feeds the control of false discoveries
//! (rule 20).

use crate::sample::Sample;

/// Two-sided p-value that the means of the logarithms are equal. `None` for fewer than two values a side or a value that
/// is not positive. Two sides without any spread give 1 when equal and 0 when not.
pub fn p_value_of_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    let logs = |values: &[f64]| Sample::new(values.iter().map(|value| value.ln()).collect());
    let (a, b) = (logs(a)?, logs(b)?);
    let (va, vb) = (
        a.standard_deviation()?.powi(2),
        b.standard_deviation()?.powi(2),
    );
    let (na, nb) = (a.count() as f64, b.count() as f64);
    let difference = b.mean() - a.mean();
    let variance = va / na + vb / nb;
    if variance == 0.0 {
        return Some(if difference == 0.0 { 1.0 } else { 0.0 });
    }
    let freedom = variance.powi(2)
        / ((va / na).powi(2) / (na - 1.0) + (vb / nb).powi(2) / (nb - 1.0)).max(f64::MIN_POSITIVE);
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
    fn hostile_sides() {
        assert_eq!(p_value_of_ratio(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[0.0, 1.0], &[1.0, 2.0]), None);
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[2.0, 2.0]), Some(1.0));
        assert_eq!(p_value_of_ratio(&[2.0, 2.0], &[3.0, 3.0]), Some(0.0));
        assert!(p_value_of_ratio(&[1.0, 1.0], &[1.0, 1.01]).unwrap() > 0.05);
    }
}

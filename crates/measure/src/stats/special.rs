//! Special functions for significance tests.

/// Returns the regularised incomplete beta function by its continued fraction (Lentz's method;
/// Abramowitz and Stegun 26.5.8).
pub fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
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

/// Returns the logarithm of the gamma function for positive arguments (Lanczos' approximation, g =
/// 7).
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

/// Returns Student's t for a two-sided p-value of 5 %, by bisection.
pub fn student95(freedom: f64) -> f64 {
    let beyond = |t: f64| two_sided(t, freedom) > 0.05;
    let (mut low, mut high) = (1.0, 2.0);
    while beyond(high) && high < 1e6 {
        high *= 2.0;
    }
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        match beyond(middle) {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Returns the two-sided p-value of Student's t.
pub fn two_sided(t: f64, freedom: f64) -> f64 {
    incomplete_beta(freedom / (freedom + t * t), freedom / 2.0, 0.5)
}

/// Returns the derivative of the logarithm of the gamma function, for positive arguments
/// (Abramowitz and Stegun 6.3.18).
pub fn digamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 6.0 {
        below -= 1.0 / x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    below + x.ln() - 0.5 / x - square * (1.0 / 12.0 - square * (1.0 / 120.0 - square / 252.0))
}

/// Returns the derivative of [`digamma`] (Abramowitz and Stegun 6.4.12).
pub fn trigamma(mut x: f64) -> f64 {
    let mut below = 0.0;
    while x < 6.0 {
        below += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = 1.0 / 6.0 - square * (1.0 / 30.0 - square * (1.0 / 42.0 - square / 30.0));
    below + 1.0 / x + square / 2.0 + series * square / x
}

/// Returns the argument at which [`trigamma`] has this positive value, by bisection.
pub fn trigamma_inverse(value: f64) -> f64 {
    let (mut low, mut high) = (1e-6f64, 1e6f64);
    for _ in 0..80 {
        let middle = (low * high).sqrt();
        match trigamma(middle) > value {
            true => low = middle,
            false => high = middle,
        }
    }
    (low * high).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_functions_match_textbook_values() {
        // t = 2.228 with 10 degrees of freedom is the two-sided 5 % point.
        assert!((two_sided(2.228, 10.0) - 0.05).abs() < 1e-4);
        assert!((student95(10.0) - 2.228).abs() < 1e-3);
        assert!((student95(1.0) - 12.706).abs() < 1e-2);
        assert!((ln_gamma(5.0) - 24f64.ln()).abs() < 1e-10);
        // Euler's constant, and pi squared over six.
        assert!((digamma(1.0) + 0.577_215_665).abs() < 1e-6);
        assert!((trigamma(1.0) - 1.644_934_067).abs() < 1e-6);
        for x in [0.3, 1.0, 4.0, 700.0] {
            assert!((trigamma_inverse(trigamma(x)) / x - 1.0).abs() < 1e-6);
        }
    }
}

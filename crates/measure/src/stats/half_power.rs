//! Peak and N½: the message size at which bandwidth reaches half of its peak (Hockney's half-power
//! point).

/// Peak bandwidth with its size, and N½.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfPower {
    /// The size at the peak.
    pub peak_size: f64,
    /// The peak.
    pub peak: f64,
    /// The size at half of it, interpolated between neighbours on a logarithmic size axis; the
    /// smallest size if that already reaches half.
    pub half_size: f64,
}

/// Computes N½ from (size, bandwidth) points in any order; `None` if there are none, or if one is
/// not positive and finite.
pub fn half_power(points: &[(f64, f64)]) -> Option<HalfPower> {
    let valid = |v: f64| v.is_finite() && v > 0.0;
    if points.is_empty() || points.iter().any(|&(x, y)| !valid(x) || !valid(y)) {
        return None;
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    let &(peak_size, peak) = sorted.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let half = peak / 2.0;
    let first = sorted.iter().position(|&(_, y)| y >= half)?;
    let half_size = match first {
        0 => sorted[0].0,
        i => {
            let ((x0, y0), (x1, y1)) = (sorted[i - 1], sorted[i]);
            let share = (half - y0) / (y1 - y0);
            (x0.ln() + share * (x1.ln() - x0.ln())).exp()
        }
    };
    Some(HalfPower {
        peak_size,
        peak,
        half_size,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hockneys_curve_gives_its_own_parameter() {
        // r(n) = r_inf * n / (n + n_half), sampled at powers of two.
        let points: Vec<(f64, f64)> = (0..24)
            .map(|i| f64::from(1 << i))
            .map(|n| (n, 1e9 * n / (n + 1000.0)))
            .collect();
        let found = half_power(&points).unwrap();
        assert!(
            (found.half_size / 1000.0 - 1.0).abs() < 0.03,
            "{}",
            found.half_size
        );
    }

    #[test]
    fn half_power_handles_hostile_points() {
        assert_eq!(half_power(&[]), None);
        assert_eq!(half_power(&[(1.0, 0.0)]), None);
        assert_eq!(half_power(&[(8.0, f64::NAN)]), None);
        assert_eq!(half_power(&[(8.0, 5.0)]).unwrap().half_size, 8.0);
    }
}

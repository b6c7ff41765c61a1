//! Peak and N½: the message size at which bandwidth reaches half of its peak (Hockney's half-power
//! point).

/// Peak bandwidth with its size, and N½.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HalfPower {
    /// The size at the peak.
    pub peak_size: f64,
    /// The peak.
    pub peak: f64,
    /// The size at half of it.
    pub half: HalfSize,
}

/// The size at which half of the peak is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum HalfSize {
    /// Interpolated between close neighbours on a logarithmic size axis.
    At(f64),
    /// Between these sizes, which are too far apart to interpolate.
    Between(f64, f64),
    /// At most the smallest size.
    UpTo(f64),
}

/// Largest ratio of neighbouring sizes to interpolate between.
const CLOSE: f64 = 4.0;

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
    let half = match first {
        0 => HalfSize::UpTo(sorted[0].0),
        i => {
            let ((x0, y0), (x1, y1)) = (sorted[i - 1], sorted[i]);
            let share = (half - y0) / (y1 - y0);
            match x1 / x0 <= CLOSE {
                true => HalfSize::At((x0.ln() + share * (x1.ln() - x0.ln())).exp()),
                false => HalfSize::Between(x0, x1),
            }
        }
    };
    Some(HalfPower {
        peak_size,
        peak,
        half,
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
            matches!(found.half, HalfSize::At(size) if (size / 1000.0 - 1.0).abs() < 0.03),
            "{found:?}"
        );
    }

    #[test]
    fn half_power_handles_hostile_points() {
        assert_eq!(half_power(&[]), None);
        assert_eq!(half_power(&[(1.0, 0.0)]), None);
        assert_eq!(half_power(&[(8.0, f64::NAN)]), None);
    }

    #[test]
    fn the_half_needs_sizes_around_it() {
        let half = |points: &[(f64, f64)]| half_power(points).unwrap().half;
        assert_eq!(half(&[(8.0, 5.0)]), HalfSize::UpTo(8.0));
        let far = [(8.0, 5.0), (8192.0, 80.0), (16384.0, 90.0)];
        assert_eq!(half(&far), HalfSize::Between(8.0, 8192.0));
        let close = [(2048.0, 40.0), (4096.0, 50.0), (8192.0, 90.0)];
        assert!(matches!(half(&close), HalfSize::At(size) if (2048.0..4096.0).contains(&size)));
    }
}

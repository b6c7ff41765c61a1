//! Knees: the point of a curve over a capacity (queue pairs, pages) where its behaviour changes
//! because a cache overflows.
//!
//! Three models are fitted over the logarithm of the capacity and compared by the Bayesian
//! information criterion: one level (no knee); two levels with a step between neighbours (a cache
//! accessed cyclically, where one entry too many always misses); a level and then a rising line (a
//! cache accessed at random). The knee of a step lies between two points; repeated measurements
//! between them narrow it.

/// A knee.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Knee {
    /// Best estimate of the largest capacity that still fits.
    pub at: f64,
    /// Lower limit of the knee, inclusive.
    pub low: f64,
    /// Upper limit of the knee, exclusive.
    pub high: f64,
    /// Level before the knee.
    pub before: f64,
    /// Level after it (for a rising line, the last point).
    pub after: f64,
}

/// Smallest difference between two levels, relative to the lower one, that counts as a knee.
const LEAST_EFFECT: f64 = 0.15;

/// Finds the knee of (capacity, value) points; `None` if there is none, there are fewer than five
/// points, or a value is not usable.
pub fn find(points: &[(f64, f64)]) -> Option<Knee> {
    let mut sorted: Vec<(f64, f64)> = points.to_vec();
    if sorted
        .iter()
        .any(|&(x, y)| !(x > 0.0 && x.is_finite() && y.is_finite()))
    {
        return None;
    }
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
    if sorted.len() < 5 {
        return None;
    }
    let n = sorted.len() as f64;
    let scale: f64 = sorted.iter().map(|p| p.1.abs()).sum::<f64>() / n;
    // A curve without noise would make the criterion infinite; no measurement is more precise than
    // 0.1 %.
    let floor = (scale * 1e-3).powi(2) * n;
    let criterion =
        |squares: f64, parameters: f64| n * ((squares + floor) / n).ln() + parameters * n.ln();
    let flat = criterion(level(&sorted).1, 1.0);
    let step = best_step(&sorted);
    let hinge = best_hinge(&sorted);
    let step_score = criterion(step.squares, 3.0);
    let hinge_score = criterion(hinge.squares, 3.0);
    let (knee, score) = if step_score <= hinge_score {
        (step.knee, step_score)
    } else {
        (hinge.knee, hinge_score)
    };
    // A cache that overflows makes operations slower; a falling curve has no knee.
    let effect = (knee.after - knee.before) / knee.before.abs().max(f64::MIN_POSITIVE);
    (score < flat && effect > LEAST_EFFECT).then_some(knee)
}

struct Fit {
    knee: Knee,
    squares: f64,
}

/// Returns the mean and the sum of squares around it.
fn level(points: &[(f64, f64)]) -> (f64, f64) {
    let mean = points.iter().map(|p| p.1).sum::<f64>() / points.len() as f64;
    (mean, points.iter().map(|p| (p.1 - mean).powi(2)).sum())
}

fn best_step(points: &[(f64, f64)]) -> Fit {
    let fits = (1..points.len()).map(|split| {
        let (left, right) = points.split_at(split);
        let ((before, below), (after, above)) = (level(left), level(right));
        let (low, high) = (left[split - 1].0, right[0].0);
        let knee = Knee {
            at: (low * high).sqrt(),
            low,
            high,
            before,
            after,
        };
        Fit {
            knee,
            squares: below + above,
        }
    });
    least(fits)
}

fn best_hinge(points: &[(f64, f64)]) -> Fit {
    // Each point is tried as the corner, with a level before it and a line through it after it.
    let fits = (1..points.len() - 1).map(|corner| {
        let (left, right) = points.split_at(corner + 1);
        let (before, below) = level(left);
        let x0 = points[corner].0.ln();
        let (mut xy, mut xx) = (0.0, 0.0);
        for &(x, y) in right {
            xy += (x.ln() - x0) * (y - before);
            xx += (x.ln() - x0).powi(2);
        }
        let slope = if xx > 0.0 { xy / xx } else { 0.0 };
        let above: f64 = right
            .iter()
            .map(|&(x, y)| (y - before - slope * (x.ln() - x0)).powi(2))
            .sum();
        let after = before + slope * (points[points.len() - 1].0.ln() - x0);
        let at = points[corner].0;
        let knee = Knee {
            at,
            low: at,
            high: points[corner + 1].0,
            before,
            after,
        };
        Fit {
            knee,
            squares: below + above,
        }
    });
    least(fits)
}

fn least(fits: impl Iterator<Item = Fit>) -> Fit {
    fits.min_by(|a, b| a.squares.total_cmp(&b.squares))
        .expect("five points have splits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn a_step_is_bracketed_by_its_neighbours() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]
            .map(|x| (x, if x <= 37.0 { 1000.0 } else { 1600.0 }))
            .to_vec();
        let knee = find(&points).unwrap();
        assert_eq!((knee.low, knee.high), (32.0, 64.0));
        assert_eq!((knee.before, knee.after), (1000.0, 1600.0));
    }

    #[test]
    fn noise_has_no_knee() {
        let mut random = Random::new(5);
        for _ in 0..200 {
            let points: Vec<(f64, f64)> = (0..12)
                .map(|i| (f64::from(1 << i), 1000.0 + 20.0 * random.unit()))
                .collect();
            assert_eq!(find(&points), None);
        }
    }

    #[test]
    fn a_falling_curve_has_no_knee() {
        let points: Vec<(f64, f64)> = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
            .map(|x| (x, if x < 3.0 { 1600.0 } else { 1000.0 }))
            .to_vec();
        assert_eq!(find(&points), None);
    }

    #[test]
    fn a_hinge_is_found_at_its_corner() {
        let points: Vec<(f64, f64)> = (0..14)
            .map(|i| f64::from(1 << i))
            .map(|x| (x, 500.0 + 300.0 * (x / 64.0).ln().max(0.0)))
            .collect();
        let knee = find(&points).unwrap();
        assert!((32.0..=128.0).contains(&knee.at), "{knee:?}");
    }

    #[test]
    fn knee_search_handles_hostile_points() {
        assert_eq!(find(&[]), None);
        assert_eq!(find(&[(1.0, 5.0); 5]), None);
        assert_eq!(
            find(&[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0), (3.0, 1.0), (4.0, 9.0)]),
            None
        );
        assert_eq!(find(&[(1.0, f64::NAN); 6]), None);
    }
}

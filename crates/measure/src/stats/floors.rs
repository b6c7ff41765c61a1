//! Compares the best values of two runs. Disturbances make a program slower and never faster, so
//! the best of several launches varies far less than their mean on a machine that is not quiet (J.
//! Chen and J. Revels, Robust benchmarking in noisy environments, 2016), and the median over many
//! points varies less than one point. The jackknife estimates the error: each launch is left out
//! once, so a result that depends on a single launch has a large variance.

use crate::sample::Sample;
use crate::stats::welch::Difference;

/// A point in two runs: the best time of each launch, in any unit; NaN where it was not measured.
#[derive(Debug, Clone, Copy)]
pub struct Best<'a> {
    /// The first run's launches.
    pub a: &'a [f64],
    /// The second run's launches.
    pub b: &'a [f64],
}

/// The launch left out of the two runs, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    OfFirst(usize),
    OfSecond(usize),
}

impl Best<'_> {
    /// Returns the logarithm of the ratio of the second run's best to the first run's.
    fn apart(&self, without: Without) -> Option<f64> {
        let best = |launches: &[f64], left_out: Option<usize>| {
            let counting = launches.iter().enumerate();
            let counting = counting.filter(|(at, value)| Some(*at) != left_out && !value.is_nan());
            counting.map(|(_, value)| *value).min_by(f64::total_cmp)
        };
        let (of_first, of_second) = match without {
            Without::Nothing => (None, None),
            Without::OfFirst(at) => (Some(at), None),
            Without::OfSecond(at) => (None, Some(at)),
        };
        let ratio = best(self.b, of_second)? / best(self.a, of_first)?;
        (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
    }
}

fn middle(points: &[Best<'_>], without: Without) -> Option<f64> {
    let apart: Vec<f64> = points.iter().filter_map(|one| one.apart(without)).collect();
    Some(Sample::new(apart)?.median())
}

/// Returns the median over the points of the difference between the runs' best values, as a
/// logarithm, with its variance by jackknife. `None` for fewer than two launches per side, or if no
/// point has a best value in both.
pub fn difference(points: &[Best<'_>]) -> Option<Difference> {
    let first = points.iter().map(|one| one.a.len()).max()?;
    let second = points.iter().map(|one| one.b.len()).max()?;
    if first.min(second) < 2 {
        return None;
    }
    let spread = |without: &dyn Fn(usize) -> Without, launches: usize| {
        let each: Option<Vec<f64>> = (0..launches)
            .map(|at| middle(points, without(at)))
            .collect();
        let each = Sample::new(each?)?;
        let squares = each.values().iter().map(|one| (one - each.mean()).powi(2));
        Some(squares.sum::<f64>() * (launches as f64 - 1.0) / launches as f64)
    };
    Some(Difference {
        mean: middle(points, Without::Nothing)?,
        variance: spread(&Without::OfFirst, first)? + spread(&Without::OfSecond, second)?,
        freedom: (first + second - 2) as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: [f64; 5] = [200.0, 201.0, 200.5, 202.0, 200.2];

    fn of(a: &[f64], b: &[f64]) -> Difference {
        difference(&[Best { a, b }; 3]).unwrap()
    }

    #[test]
    fn disturbed_launches_do_not_hide_a_change() {
        let disturbed = [330.0, 220.0, 221.0, 410.0, 220.4];
        let found = of(&QUIET, &disturbed);
        assert!((found.mean - 1.1f64.ln()).abs() < 1e-9);
        assert!(found.p_value() < 1e-9, "{found:?}");
    }

    #[test]
    fn one_deviating_launch_is_not_significant() {
        let lucky = [200.0, 250.0, 251.0, 250.5, 252.0];
        let found = of(&lucky, &[250.0, 251.0, 250.2, 252.0, 250.4]);
        assert!(found.mean > 0.2 && found.p_value() > 0.1, "{found:?}");
    }

    #[test]
    fn evidence_of_points_is_combined() {
        let slower = QUIET.map(|time| 1.1 * time);
        let odd = Best {
            a: &QUIET,
            b: &[f64::NAN; 5],
        };
        let moved = Best {
            a: &QUIET,
            b: &slower,
        };
        let still = Best {
            a: &QUIET,
            b: &QUIET,
        };
        let mean = |points: &[Best<'_>]| difference(points).unwrap().mean;
        assert!(mean(&[moved, moved, still, odd]) > 0.09);
        assert_eq!(mean(&[moved, still, still, odd]), 0.0);
        assert_eq!(difference(&[odd]), None);
        assert_eq!(difference(&[]), None);
        assert_eq!(
            difference(&[Best {
                a: &[1.0],
                b: &QUIET
            }]),
            None
        );
        assert_eq!(
            difference(&[Best {
                a: &[0.0; 5],
                b: &QUIET
            }]),
            None
        );
    }
}

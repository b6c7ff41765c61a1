//! Identifiability: how well measurements determine the parameters fitted to them.
//!
//! Near the best fit the residuals are linear in the parameters; their derivatives' normal matrix
//! is the inverse of the covariance. A parameter without weight in it has no visible effect. Two
//! parameters are inseparable if their estimates are almost perfectly correlated, or if the
//! direction in which the residuals hardly change connects them: the data determine only a
//! combination of them.

use super::fit::{Fit, Free, eliminate, normal};

/// Correlation above which two parameters count as inseparable.
const INSEPARABLE: f64 = 0.95;
/// Threshold below which a parameter counts as unseen: change of the residuals over its whole
/// range, root mean square relative to the residual unit.
const UNSEEN: f64 = 1e-3;
/// Ridge that keeps the matrix invertible when two parameters are equivalent.
const RIDGE: f64 = 1e-9;

/// Two parameters that the data cannot separate.
#[derive(Debug, Clone, PartialEq)]
pub struct Inseparable {
    /// First parameter.
    pub one: String,
    /// Second parameter.
    pub other: String,
    /// Correlation of their estimates, -1 to 1.
    pub correlation: f64,
}

/// Identifiability of the parameters.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Identified {
    /// Standard error of each parameter in its unit; `None` for an unseen one.
    pub errors: Vec<Option<f64>>,
    /// Inseparable pairs.
    pub inseparable: Vec<Inseparable>,
    /// Parameters without effect on the measurements.
    pub unseen: Vec<String>,
}

/// Analyses a fit. The residuals are in units of the expected noise.
pub fn identify(free: &[Free], fit: &Fit) -> Identified {
    let size = free.len();
    let rows = fit.jacobian.len().max(1) as f64;
    let matrix = normal(&fit.jacobian, size);
    let seen: Vec<bool> = (0..size)
        .map(|c| (matrix[c][c] / rows).sqrt() > UNSEEN)
        .collect();
    let kept: Vec<usize> = (0..size).filter(|&c| seen[c]).collect();
    let scale = kept.iter().map(|&c| matrix[c][c]).fold(0.0, f64::max);
    let reduced: Vec<Vec<f64>> = kept
        .iter()
        .map(|&a| {
            kept.iter()
                .map(|&b| matrix[a][b] + if a == b { RIDGE * scale } else { 0.0 })
                .collect()
        })
        .collect();
    let covariance: Vec<Vec<f64>> = (0..kept.len())
        .map(|column| {
            let mut unit = vec![0.0; kept.len()];
            unit[column] = 1.0;
            eliminate(reduced.clone(), unit)
        })
        .collect();
    let mut identified = Identified {
        errors: vec![None; size],
        ..Identified::default()
    };
    for (place, &parameter) in kept.iter().enumerate() {
        let deviation = covariance[place][place].max(0.0).sqrt() * fit.rms().max(f64::MIN_POSITIVE);
        identified.errors[parameter] =
            Some(free[parameter].span_of(fit.values[parameter], deviation));
        for (other_place, &other) in kept.iter().enumerate().skip(place + 1) {
            let correlation = covariance[place][other_place]
                / (covariance[place][place] * covariance[other_place][other_place]).sqrt();
            if correlation.abs() >= INSEPARABLE {
                identified.inseparable.push(Inseparable {
                    one: free[parameter].path.clone(),
                    other: free[other].path.clone(),
                    correlation,
                });
            }
        }
    }
    identified.unseen = (0..size)
        .filter(|&c| !seen[c])
        .map(|c| free[c].path.clone())
        .collect();
    identified
}

#[cfg(test)]
mod tests {
    use super::super::fit::fit;
    use super::*;

    fn free(path: &str) -> Free {
        Free {
            path: path.into(),
            low: 1.0,
            high: 100.0,
            start: 10.0,
        }
    }

    #[test]
    fn summands_are_inseparable_and_unused_parameters_unseen() {
        let parameters = [free("a"), free("b"), free("slope"), free("stranger")];
        let residuals = |v: &[f64]| -> Vec<f64> {
            [0.0, 1.0, 2.0, 5.0]
                .iter()
                .map(|x| (v[0] + v[1] + v[2] * x) / (30.0 + 7.0 * x) - 1.0)
                .collect()
        };
        let found = fit(&parameters, &residuals, 40, 1);
        let told = identify(&parameters, &found);
        let pairs: Vec<_> = told
            .inseparable
            .iter()
            .map(|p| (p.one.as_str(), p.other.as_str()))
            .collect();
        assert_eq!(pairs, [("a", "b")]);
        assert_eq!(told.unseen, ["stranger"]);
        assert!((found.values[2] - 7.0).abs() < 0.1, "{found:?}");
    }
}

//! Least squares within bounds: the Levenberg-Marquardt method on parameters scaled to their
//! bounds.
//!
//! A parameter with positive bounds is fitted by its logarithm, others linearly; both become
//! coordinates from 0 to 1. Derivatives are central differences over a wide step, because a model
//! in whole picoseconds is a step function at small scale.

use verbena_model::profile::{Overrides, Recorded};
use verbena_reproduce::workers::in_order;

/// A value to fit, within its physical bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Free {
    /// `profile.section.key`.
    pub path: String,
    /// Lower bound.
    pub low: f64,
    /// Upper bound.
    pub high: f64,
    /// Initial value.
    pub start: f64,
}

impl Free {
    /// Returns the parameter of a profile's value.
    ///
    /// # Panics
    ///
    /// If the value has no bounds.
    pub(crate) fn of(recorded: &Recorded) -> Free {
        let (low, high) = recorded.bounds.expect("a value to fit has bounds");
        Free {
            path: recorded.path.clone(),
            low,
            high,
            start: recorded.value,
        }
    }

    /// Returns the changes of profiles that give the parameters these values.
    pub(crate) fn overrides(free: &[Free], values: &[f64]) -> Overrides {
        let each = free.iter().zip(values);
        each.fold(Overrides::none(), |all, (free, value)| {
            all.with(&free.path, *value)
        })
    }

    fn logarithmic(&self) -> bool {
        self.low > 0.0
    }

    /// Returns the coordinate of a value, 0 at the lower and 1 at the upper bound.
    fn coordinate(&self, value: f64) -> f64 {
        let value = value.clamp(self.low, self.high);
        match self.logarithmic() {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        }
    }

    /// Converts a span of coordinates around `value` to the value's unit.
    pub(super) fn span_of(&self, value: f64, coordinates: f64) -> f64 {
        match self.logarithmic() {
            true => value * (self.high / self.low).ln() * coordinates,
            false => (self.high - self.low) * coordinates,
        }
    }

    pub(super) fn value(&self, coordinate: f64) -> f64 {
        let at = coordinate.clamp(0.0, 1.0);
        match self.logarithmic() {
            true => self.low * (self.high / self.low).powf(at),
            false => self.low + at * (self.high - self.low),
        }
    }
}

/// Result of a fit.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The fitted values, in the order of the parameters.
    pub values: Vec<f64>,
    /// The residuals at these values.
    pub residuals: Vec<f64>,
    /// Derivatives of the residuals by the coordinates, one row per residual.
    pub jacobian: Vec<Vec<f64>>,
    /// Number of steps that reduced the error.
    pub steps: usize,
}

impl Fit {
    /// Returns the root mean square of the residuals.
    pub fn rms(&self) -> f64 {
        (sum_of_squares(&self.residuals) / self.residuals.len().max(1) as f64).sqrt()
    }
}

/// Half the distance of a central difference, in coordinates.
const STEP: f64 = 0.01;
/// The search ends after a step that reduces the sum of squares by less than this share.
const ENOUGH: f64 = 1e-4;

/// Fits the parameters. `residuals` returns the weighted differences for a set of values. Makes at
/// most `most` steps on `threads` threads; the result does not depend on the number of threads.
pub fn fit(
    free: &[Free],
    residuals: &(impl Fn(&[f64]) -> Vec<f64> + Sync),
    most: usize,
    threads: usize,
) -> Fit {
    let values_at = |at: &[f64]| -> Vec<f64> {
        free.iter()
            .zip(at)
            .map(|(free, &at)| free.value(at))
            .collect()
    };
    let mut at: Vec<f64> = free.iter().map(|f| f.coordinate(f.start)).collect();
    let mut now = residuals(&values_at(&at));
    let mut damping = 1e-2;
    let mut steps = 0;
    let mut jacobian = derive(&at, &values_at, residuals, threads);
    'search: for _ in 0..most {
        let before = sum_of_squares(&now);
        loop {
            let step = solve(&jacobian, &now, &at, damping);
            let next: Vec<f64> = at
                .iter()
                .zip(&step)
                .map(|(at, step)| (at + step).clamp(0.0, 1.0))
                .collect();
            let there = residuals(&values_at(&next));
            if sum_of_squares(&there) < before {
                (at, now) = (next, there);
                damping = (damping / 5.0).max(1e-9);
                steps += 1;
                break;
            }
            damping *= 5.0;
            if damping > 1e4 {
                break 'search;
            }
        }
        jacobian = derive(&at, &values_at, residuals, threads);
        if sum_of_squares(&now) > before * (1.0 - ENOUGH) {
            break;
        }
    }
    Fit {
        values: values_at(&at),
        residuals: now,
        jacobian,
        steps,
    }
}

fn sum_of_squares(residuals: &[f64]) -> f64 {
    residuals.iter().map(|r| r * r).sum()
}

fn derive(
    at: &[f64],
    values_at: &(impl Fn(&[f64]) -> Vec<f64> + Sync),
    residuals: &(impl Fn(&[f64]) -> Vec<f64> + Sync),
    threads: usize,
) -> Vec<Vec<f64>> {
    let columns: Vec<Vec<f64>> = in_order(threads, at.len(), |column| {
        let (here, mut moved) = (at[column], at.to_vec());
        let (below, above) = ((here - STEP).max(0.0), (here + STEP).min(1.0));
        moved[column] = below;
        let low = residuals(&values_at(&moved));
        moved[column] = above;
        let high = residuals(&values_at(&moved));
        let slopes = low.iter().zip(&high);
        slopes
            .map(|(low, high)| (high - low) / (above - below))
            .collect()
    });
    let rows = columns.first().map_or(0, Vec::len);
    (0..rows)
        .map(|row| columns.iter().map(|column| column[row]).collect())
        .collect()
}

/// Returns the step of the damped normal equations, without the coordinates that are at a bound and
/// would leave it.
fn solve(jacobian: &[Vec<f64>], residuals: &[f64], at: &[f64], damping: f64) -> Vec<f64> {
    let size = at.len();
    let gradient: Vec<f64> = (0..size)
        .map(|c| {
            jacobian
                .iter()
                .zip(residuals)
                .map(|(row, r)| row[c] * r)
                .sum()
        })
        .collect();
    let stuck: Vec<bool> = (0..size)
        .map(|c| at[c] <= 0.0 && gradient[c] > 0.0 || at[c] >= 1.0 && gradient[c] < 0.0)
        .collect();
    let mut matrix = normal(jacobian, size);
    let scale = (0..size)
        .map(|c| matrix[c][c])
        .fold(0.0, f64::max)
        .max(1e-12);
    let mut right: Vec<f64> = gradient.iter().map(|g| -g).collect();
    for c in 0..size {
        matrix[c][c] += damping * matrix[c][c].max(1e-3 * scale);
        if stuck[c] {
            right[c] = 0.0;
            matrix[c].fill(0.0);
            matrix.iter_mut().for_each(|row| row[c] = 0.0);
            matrix[c][c] = 1.0;
        }
    }
    eliminate(matrix, right)
}

pub(super) fn normal(jacobian: &[Vec<f64>], size: usize) -> Vec<Vec<f64>> {
    (0..size)
        .map(|a| {
            (0..size)
                .map(|b| jacobian.iter().map(|row| row[a] * row[b]).sum())
                .collect()
        })
        .collect()
}

/// Solves a symmetric positive system by elimination with pivots; a direction without weight is not
/// changed.
pub(super) fn eliminate(mut matrix: Vec<Vec<f64>>, mut right: Vec<f64>) -> Vec<f64> {
    let size = right.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|&a, &b| matrix[a][column].abs().total_cmp(&matrix[b][column].abs()))
            .unwrap_or(column);
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        if matrix[column][column].abs() < 1e-14 {
            continue;
        }
        for row in column + 1..size {
            let factor = matrix[row][column] / matrix[column][column];
            if factor != 0.0 {
                let (above, below) = matrix.split_at_mut(row);
                let pairs = below[0].iter_mut().zip(&above[column]).skip(column);
                pairs.for_each(|(here, pivot)| *here -= factor * pivot);
                right[row] -= factor * right[column];
            }
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|c| matrix[row][c] * solution[c]).sum();
        if matrix[row][row].abs() >= 1e-14 {
            solution[row] = (right[row] - known) / matrix[row][row];
        }
    }
    solution
}

#[cfg(test)]
mod tests {
    use super::*;

    fn free(path: &str, low: f64, high: f64, start: f64) -> Free {
        Free {
            path: path.into(),
            low,
            high,
            start,
        }
    }

    #[test]
    fn the_fit_finds_a_line_and_a_rate() {
        let parameters = [
            free("latency", 100.0, 5000.0, 4000.0),
            free("rate", 0.1, 10.0, 8.0),
        ];
        let sizes = [1.0, 64.0, 1024.0, 4096.0, 65536.0];
        let truth = |size: f64| 900.0 + size / 1.5;
        let residuals = |v: &[f64]| -> Vec<f64> {
            sizes
                .iter()
                .map(|&size| (v[0] + size / v[1]) / truth(size) - 1.0)
                .collect()
        };
        for threads in [1, 2] {
            let found = fit(&parameters, &residuals, 50, threads);
            assert!((found.values[0] / 900.0 - 1.0).abs() < 1e-3, "{found:?}");
            assert!((found.values[1] / 1.5 - 1.0).abs() < 1e-3, "{found:?}");
        }
    }

    #[test]
    fn the_fit_stays_within_bounds() {
        let parameters = [free("x", 0.0, 2.0, 1.0)];
        let found = fit(&parameters, &|v: &[f64]| vec![v[0] - 5.0], 20, 1);
        assert_eq!(found.values, [2.0]);
    }
}

//! Measured curves: the choice of their anchor, and the comparison of the rest.

use super::{Anchor, AnchorError, LARGEST, Settings, Unit, figure, meaning};
use serde::{Deserialize, Serialize};
use std::fmt;
use verbena_model::profile::System;

/// Size from which a latency is chosen: the shortest message of every tool that is not empty.
const LATENCY: u64 = 8;
/// Size from which a rate is chosen: a cache line.
const RATE: u64 = 64;
/// Largest compared message in bytes: longer ones have the same bandwidth.
const COMPARED: u64 = 1 << 20;
/// Relative error above which a point does not fit.
const MISFIT: f64 = 0.15;
/// Number of points that a warning names.
const NAMED: usize = 6;

/// Figures of a benchmark by message size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCurve {
    /// The benchmark.
    pub benchmark: String,
    /// How it was measured.
    #[serde(default)]
    pub settings: Settings,
    /// Unit of the figures.
    pub unit: Unit,
    /// Bytes of a message, and the figure; by size.
    pub points: Vec<(u64, f64)>,
}

impl MeasuredCurve {
    /// Returns its anchor; `None` if no message is short enough.
    pub fn anchor(&self) -> Option<Anchor> {
        let (bytes, figure) = self.points[chosen(self.unit, &self.points)?];
        Some(Anchor {
            benchmark: self.benchmark.clone(),
            bytes,
            figure,
            unit: self.unit,
            settings: self.settings.clone(),
        })
    }

    /// Returns its operation's name.
    pub(super) fn key(&self) -> Option<(Unit, &'static str)> {
        let transport = self.settings.transport.as_deref();
        let (unit, operation) = meaning(&self.benchmark, transport)?;
        Some((unit, operation.name()))
    }
}

/// Returns the index of a curve's anchor: the smallest message of at least 8 B for a latency, of at
/// least 64 B for a rate, or the largest below; `None` if no message has from 1 to [`LARGEST`] B.
pub fn chosen(unit: Unit, points: &[(u64, f64)]) -> Option<usize> {
    let least = match unit {
        Unit::Micros => LATENCY,
        Unit::Megabytes => RATE,
    };
    let sizes = points.iter().map(|(bytes, _)| *bytes).enumerate();
    let usable = sizes.filter(|(_, bytes)| (1..=LARGEST).contains(bytes));
    let rank = |bytes: u64| match bytes >= least {
        true => bytes - least,
        false => LARGEST + (least - bytes),
    };
    usable
        .min_by_key(|(_, bytes)| rank(*bytes))
        .map(|(index, _)| index)
}

/// How far an anchored model is from the rest of a curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Residual {
    /// The benchmark.
    pub benchmark: String,
    /// Bytes of a message, and the relative error of the anchored model: model over measured, less
    /// one. The anchor is not included.
    pub errors: Vec<(u64, f64)>,
}

impl Residual {
    /// Returns the mean absolute error; zero without points.
    pub fn mean(&self) -> f64 {
        let sum: f64 = self.errors.iter().map(|(_, error)| error.abs()).sum();
        sum / self.errors.len().max(1) as f64
    }

    /// Returns a warning that names the points which do not fit; `None` if all do.
    pub fn warning(&self) -> Option<String> {
        let misfits = self.errors.iter().filter(|(_, error)| error.abs() > MISFIT);
        let misfits: Vec<_> = misfits.collect();
        if misfits.is_empty() {
            return None;
        }
        let named: Vec<_> = misfits
            .iter()
            .take(NAMED)
            .map(|(bytes, error)| format!("{bytes} B {:+.0} %", error * 100.0))
            .collect();
        let more = match misfits.len() - named.len() {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        Some(format!(
            "the anchored model does not fit {} of {} other points of {}: {}{more}",
            misfits.len(),
            self.errors.len(),
            self.benchmark,
            named.join(", ")
        ))
    }
}

impl fmt::Display for Residual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (benchmark, points) = (&self.benchmark, self.errors.len());
        let mean = self.mean() * 100.0;
        write!(
            f,
            "{benchmark}: {points} other points, mean error {mean:.1} %"
        )
    }
}

/// Compares an anchored model with the points of a curve that are not its anchor.
///
/// # Errors
///
/// If the model has no such figure.
pub fn compare(system: &System, curve: &MeasuredCurve) -> Result<Residual, AnchorError> {
    let anchor = chosen(curve.unit, &curve.points);
    let mut errors = Vec::new();
    for (index, &(bytes, measured)) in curve.points.iter().enumerate() {
        if Some(index) != anchor && bytes <= COMPARED {
            let model = figure(system, (&curve.benchmark, &curve.settings), bytes)?;
            errors.push((bytes, model / measured - 1.0));
        }
    }
    Ok(Residual {
        benchmark: curve.benchmark.clone(),
        errors,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_short_message_of_a_curve_is_its_anchor() {
        let at = |unit, sizes: &[u64]| {
            let points: Vec<_> = sizes.iter().map(|size| (*size, 1.0)).collect();
            chosen(unit, &points).map(|index| sizes[index])
        };
        assert_eq!(at(Unit::Micros, &[0, 1, 2, 4, 8, 16]), Some(8));
        assert_eq!(at(Unit::Micros, &[2, 64, 16]), Some(16));
        assert_eq!(at(Unit::Micros, &[0, 1, 4]), Some(4));
        assert_eq!(at(Unit::Megabytes, &[2, 64, 128]), Some(64));
        assert_eq!(at(Unit::Megabytes, &[2, 32]), Some(32));
        assert_eq!(at(Unit::Megabytes, &[65536]), None);
        assert_eq!(at(Unit::Micros, &[0]), None);
    }

    #[test]
    fn a_warning_names_the_points_that_do_not_fit() {
        let mut residual = Residual {
            benchmark: "latency.write".to_owned(),
            errors: vec![(16, 0.1), (4096, 0.31), (8192, -0.5)],
        };
        let warning = residual.warning().expect("two do not fit");
        assert!(warning.ends_with("4096 B +31 %, 8192 B -50 %"), "{warning}");
        residual.errors.truncate(1);
        assert_eq!(residual.warning(), None);
    }
}

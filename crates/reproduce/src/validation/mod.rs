//! Published curves that are not used for fitting, computed from the profiles: the accuracy of the
//! models' predictions.
//!
//! A curve is data (`papers/validation/`, with the rule for its inclusion): system, benchmark,
//! options and figures. The relative error of a point is model over published, less one; that of a
//! curve is the mean of its points' absolute errors.

mod load;

pub use load::{Curve, Source, ValidationError, shipped};

use crate::bench::{Bandwidth, Operation, Ranks, bandwidth, mpi_latency};
use crate::suite::Suite;
use crate::workers::in_order;
use serde::Serialize;
use std::fmt::Write;
use verbena_model::adapter::{Kind, Placement, Transport};
use verbena_model::profile::{Error, Library, Overrides, System};

/// The shipped curves could not be computed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The data cannot be read.
    #[error(transparent)]
    Data(#[from] ValidationError),
    /// The profiles do not contain the system.
    #[error(transparent)]
    Profile(#[from] Error),
}

/// Number of matching points from which measurements count as the curve itself, not as a
/// coincidence.
const SAME: usize = 3;

/// A computed curve.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Validated {
    /// The published curve.
    pub curve: Curve,
    /// The model's figure for each point.
    pub model: Vec<f64>,
}

impl Validated {
    /// Returns the relative error of each point.
    pub fn errors(&self) -> Vec<f64> {
        let pairs = self.model.iter().zip(&self.curve.points);
        pairs
            .map(|(model, (_, published))| model / published - 1.0)
            .collect()
    }

    /// Returns the mean of the absolute errors.
    pub fn mean(&self) -> f64 {
        let errors = self.errors();
        errors.iter().map(|error| error.abs()).sum::<f64>() / errors.len() as f64
    }

    /// Returns bytes and error of the point with the largest error.
    pub fn worst(&self) -> (u64, f64) {
        let points = self.curve.points.iter().map(|(bytes, _)| *bytes);
        let worst = points.zip(self.errors());
        worst
            .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))
            .unwrap_or((0, f64::NAN))
    }
}

/// Returns a curve's figure on a system.
///
/// # Panics
///
/// If the suite has no such benchmark: the data come with the program.
pub fn figure(system: &System, curve: &Curve, bytes: u64) -> f64 {
    if curve.benchmark == "mpi.latency" {
        return mpi_latency(system, Ranks::Apart, bytes);
    }
    if curve.is_of_datagrams() {
        return datagrams(system, curve, bytes);
    }
    let name = verbena_workloads::find(&curve.benchmark).map(|benchmark| benchmark.name);
    let name = name.unwrap_or_else(|| panic!("the suite has a benchmark {}", curve.benchmark));
    let mut suite = Suite::new(system, name).size(bytes);
    if let Some(inline) = curve.inline {
        suite = suite.inline(inline);
    }
    if let Some(transport) = &curve.transport {
        suite = suite.transport(transport);
    }
    if let Some(every) = curve.signal_every {
        suite = suite.signal_every(every);
    }
    suite.figure()
}

/// Returns the rate of sent datagrams, 10^6 bytes a second: the suite's streams use connections.
fn datagrams(system: &System, curve: &Curve, bytes: u64) -> f64 {
    let placement = match bytes <= u64::from(curve.inline.unwrap_or(0)) {
        true => Placement::Inline,
        false => Placement::Reference,
    };
    let stream = Bandwidth {
        transport: Transport::Datagram,
        signal_every: curve.signal_every.unwrap_or(1),
        ..Bandwidth::of(Operation::new(Kind::Send, bytes, placement))
    };
    bandwidth(system, stream).sent
}

/// Computes curves on `threads` threads; the result does not depend on their number.
///
/// # Errors
///
/// Returns an error if a system or a profile value is invalid.
pub fn validate(
    library: &Library,
    curves: &[Curve],
    threads: usize,
) -> Result<Vec<Validated>, Error> {
    let systems = curves.iter().map(|curve| {
        let settings = curve.profile.iter();
        let overrides = settings.fold(Overrides::none(), |all, (path, value)| {
            all.with(path, *value)
        });
        library.with(&overrides)?.system(&curve.system)
    });
    let systems = systems.collect::<Result<Vec<_>, Error>>()?;
    let points: Vec<(usize, u64)> = curves
        .iter()
        .enumerate()
        .flat_map(|(number, curve)| curve.points.iter().map(move |(bytes, _)| (number, *bytes)))
        .collect();
    let figures = in_order(threads, points.len(), |index| {
        let (number, bytes) = points[index];
        figure(&systems[number], &curves[number], bytes)
    });
    let mut figures = figures.into_iter();
    Ok(curves
        .iter()
        .map(|curve| Validated {
            curve: curve.clone(),
            model: figures.by_ref().take(curve.points.len()).collect(),
        })
        .collect())
}

/// Computes the shipped curves, in the order of their sources.
///
/// # Errors
///
/// Returns [`Failure`] if the data cannot be read or a system is not in the library.
pub fn of_shipped(library: &Library, threads: usize) -> Result<Vec<Validated>, Failure> {
    let sources = shipped()?.into_iter();
    let curves: Vec<_> = sources.flat_map(|source| source.curves).collect();
    Ok(validate(library, &curves, threads)?)
}

/// Returns the validation curve that the measurements match, if any. Measurements are `(bytes,
/// figure)` in `unit`.
pub fn is_validation<'a>(
    curves: &'a [Curve],
    unit: &str,
    measured: &[(u64, f64)],
) -> Option<&'a Curve> {
    curves.iter().find(|curve| {
        let among = |point: &&(u64, f64)| {
            let same = |m: &(u64, f64)| m.0 == point.0 && (m.1 / point.1 - 1.0).abs() < 1e-3;
            measured.iter().any(same)
        };
        curve.unit == unit && curve.points.iter().filter(among).count() >= SAME
    })
}

/// Returns the errors of each curve, one line each.
pub fn text(validated: &[Validated]) -> String {
    let mut out = String::new();
    for result in validated {
        let (bytes, worst) = result.worst();
        let _ = writeln!(
            out,
            "{:<32} {:<16} {:>3} points, mean error {:>5.1} %, worst {:+.1} % at {bytes} B",
            result.curve.id,
            result.curve.system,
            result.curve.points.len(),
            result.mean() * 100.0,
            worst * 100.0
        );
    }
    out
}

/// Returns the mean and the worst error over all curves, in a sentence.
pub fn summary(validated: &[Validated]) -> String {
    let mean = validated.iter().map(Validated::mean).sum::<f64>() / validated.len().max(1) as f64;
    let worst = validated
        .iter()
        .map(Validated::worst)
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    format!(
        "Mean error on {} held-out curves: {:.1} %; worst point: {:+.1} %.",
        validated.len(),
        mean * 100.0,
        worst.map_or(f64::NAN, |(_, error)| error * 100.0)
    )
}

//! Fits a system's profiles to measurements of it.
//!
//! The caller may select any value with physical bounds; the default is all fitted values of the
//! system's own profiles. The residual of a measurement is the logarithm of predicted over measured
//! in units of the expected noise. The result states how well each value is known and which values
//! the data cannot separate.

mod fit;
mod identifiability;
mod measured;
mod observation;
mod overlay;
mod table;

pub use fit::{Fit, Free, fit};
pub use identifiability::{Identified, Inseparable, identify};
pub use observation::{Observation, Quantity};
pub(crate) use overlay::string as quoted;
pub use overlay::{Overlay, overlay};
pub use table::text;
pub(crate) use table::{limits, values};

use std::collections::HashMap;
use verbena_model::profile::{Error, Library, Recorded, System, Tag};
use verbena_reproduce::validation::{self, ValidationError};

/// Input of a calibration.
#[derive(Debug, Clone)]
pub struct Task<'a> {
    /// Initial profiles.
    pub library: &'a Library,
    /// Name of the system.
    pub system: &'a str,
    /// Paths to fit; if empty, all fitted values that the system uses.
    pub free: Vec<String>,
    /// Measurements.
    pub observations: &'a [Observation],
    /// Expected relative noise of a measurement.
    pub noise: f64,
    /// Maximum number of search steps.
    pub steps: usize,
    /// Number of threads; does not affect the result.
    pub threads: usize,
}

/// Result of a calibration.
#[derive(Debug, Clone)]
pub struct Calibrated {
    /// The parameters.
    pub free: Vec<Free>,
    /// Unit of each parameter.
    pub units: Vec<String>,
    /// The fit.
    pub fit: Fit,
    /// Identifiability of the parameters.
    pub identified: Identified,
    /// The fitted system's prediction for each observation.
    pub predicted: Vec<f64>,
}

/// Reason why a calibration cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    /// A profile is invalid.
    #[error(transparent)]
    Profile(#[from] Error),
    /// A parameter does not exist or has no bounds.
    #[error("{path}: {reason}")]
    Parameter {
        /// The parameter's path.
        path: String,
        /// The problem.
        reason: &'static str,
    },
    /// There are measurements of message passing, but the system has no MPI library.
    #[error("the system {0} names no mpi, but there are measurements of message passing")]
    NoMessagePassing(String),
    /// The measurements are validation data.
    #[error(
        "the measurements are the validation curve {0} of papers/validation, which must not be \
         fitted to"
    )]
    Validation(String),
    /// The validation data cannot be read.
    #[error(transparent)]
    ValidationData(#[from] ValidationError),
    /// There are fewer measurements than parameters.
    #[error(
        "{observations} measurements do not determine {parameters} values; name fewer with --fit, \
         or measure more sizes"
    )]
    TooFew {
        /// Measurements that the models can predict.
        observations: usize,
        /// Values to fit.
        parameters: usize,
    },
}

/// Fits the chosen parameters to the measurements.
///
/// # Errors
///
/// Returns [`Unfit`] if a profile or parameter is invalid, if the measurements are validation data
/// or fewer than the parameters, or if they need an MPI library that the system lacks.
pub fn calibrate(task: &Task<'_>) -> Result<Calibrated, Unfit> {
    refuse_validation(task.observations)?;
    let chosen = chosen(task)?;
    let passing = task.observations.iter().any(Observation::passes_messages);
    if passing && task.library.system(task.system)?.mpi.is_none() {
        return Err(Unfit::NoMessagePassing(task.system.to_owned()));
    }
    if task.observations.len() < chosen.len() || task.observations.is_empty() {
        return Err(Unfit::TooFew {
            observations: task.observations.len(),
            parameters: chosen.len(),
        });
    }
    let free: Vec<Free> = chosen.iter().map(Free::of).collect();
    let with = |values: &[f64]| -> Result<System, Error> {
        let overrides = Free::overrides(&free, values);
        task.library.with(&overrides)?.system(task.system)
    };
    // Every value stays within its bounds, so any error shows at the start.
    let start: Vec<f64> = free.iter().map(|f| f.start).collect();
    with(&start)?;
    let residuals = |values: &[f64]| -> Vec<f64> {
        let system = with(values).expect("values within bounds make a sound profile");
        predict(&system, task.observations)
            .iter()
            .zip(task.observations)
            .map(|(predicted, o)| (predicted / o.figure).ln() / task.noise)
            .collect()
    };
    let fit = fit(&free, &residuals, task.steps, task.threads);
    let system = with(&fit.values)?;
    let predicted = predict(&system, task.observations);
    Ok(Calibrated {
        identified: identify(&free, &fit),
        units: chosen.iter().map(|r| r.unit.clone()).collect(),
        free,
        fit,
        predicted,
    })
}

/// Refuses validation data: the models must not be fitted to the data that judge them.
fn refuse_validation(observations: &[Observation]) -> Result<(), Unfit> {
    let sources = validation::shipped()?;
    let curves: Vec<_> = sources.into_iter().flat_map(|s| s.curves).collect();
    for unit in ["us", "MB/s"] {
        let measured = observations.iter().filter(|o| o.unit() == unit);
        let measured: Vec<_> = measured.map(|o| (o.bytes, o.figure)).collect();
        if let Some(curve) = validation::is_validation(&curves, unit, &measured) {
            return Err(Unfit::Validation(curve.id.clone()));
        }
    }
    Ok(())
}

/// Returns the system's prediction for each observation; equal questions are computed once.
fn predict(system: &System, observations: &[Observation]) -> Vec<f64> {
    let mut known = HashMap::new();
    observations
        .iter()
        .map(|o| {
            *known
                .entry((o.quantity, o.bytes, o.pairs))
                .or_insert_with(|| o.predicted(system))
        })
        .collect()
}

/// Returns the values to fit. Whole numbers are excluded by default, because the search makes small
/// steps.
fn chosen(task: &Task<'_>) -> Result<Vec<Recorded>, Unfit> {
    let continuous =
        |recorded: &Recorded| !["1", "B", "KiB", "MiB"].contains(&recorded.unit.as_str());
    if task.free.is_empty() {
        let used = task.library.used_by(task.system)?;
        return Ok(used
            .into_iter()
            .filter(|r| r.tag == Tag::Fitted && continuous(r))
            .collect());
    }
    let used = task.library.used_by(task.system)?;
    task.free
        .iter()
        .map(|path| {
            let wrong = |reason| Unfit::Parameter {
                path: path.clone(),
                reason,
            };
            let recorded = task.library.recorded().iter().find(|r| &r.path == path);
            let recorded = recorded.ok_or_else(|| wrong("no profile has such a value"))?;
            if !used.iter().any(|used| &used.path == path) {
                return Err(wrong("the system does not use it"));
            }
            if recorded.bounds.is_none() {
                return Err(wrong("has no bounds low and high in its profile"));
            }
            if !continuous(recorded) {
                return Err(wrong("is a whole number, which the search cannot fit"));
            }
            Ok(recorded.clone())
        })
        .collect()
}

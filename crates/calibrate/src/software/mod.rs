//! Measures the software adapter, fits a profile to some of the measurements, predicts the rest,
//! and reports the error.
//!
//! The model has a dozen values ([`verbena_model::software`]). A rule that was fixed before the
//! model was written decides which measurements are for fitting and which for judging ([`rule`]).

mod observed;
mod predicted;
mod profile;
pub mod rule;
mod table;

pub use observed::{Observed, observed};
pub use predicted::{Effort, predicted};
pub use profile::{ENDING, fitted_profile};
pub use table::{TARGET, text, unanswered, verdict};

use crate::system::{Fit, Free, Identified, fit, identify};
use verbena_fabric::model::Machine;
use verbena_model::profile::{Error, Library, ProfileKind, Recorded, Tag};

/// Input of the loop.
#[derive(Debug, Clone)]
pub struct SoftwareTask<'a> {
    /// Initial profiles.
    pub library: &'a Library,
    /// Name of the software adapter's profile among them.
    pub profile: &'a str,
    /// Paths to fit; if empty, all of its values that are tagged as fitted.
    pub free: &'a [String],
    /// All measurements.
    pub observed: &'a [Observed],
    /// Expected relative noise of a measurement.
    pub noise: f64,
    /// Maximum number of search steps.
    pub steps: usize,
    /// Number of threads; does not affect the result.
    pub threads: usize,
}

/// A measured figure beside the model's.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// The measurement.
    pub observed: Observed,
    /// The model's figure.
    pub predicted: f64,
}

impl Compared {
    /// Returns model over measured, less one.
    pub fn error(&self) -> f64 {
        self.predicted / self.observed.figure - 1.0
    }
}

/// A benchmark's figures.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchmarkErrors {
    /// The benchmark's name.
    pub benchmark: &'static str,
    /// Its figures, in the order of measurement.
    pub figures: Vec<Compared>,
}

impl BenchmarkErrors {
    /// Returns the mean of the absolute errors.
    pub fn mean(&self) -> f64 {
        self.figures
            .iter()
            .map(|one| one.error().abs())
            .sum::<f64>()
            / self.figures.len() as f64
    }

    /// Returns the figure with the largest error.
    pub fn worst(&self) -> &Compared {
        let size = |one: &&Compared| one.error().abs();
        let all = self.figures.iter();
        all.max_by(|a, b| size(a).total_cmp(&size(b)))
            .expect("a curve has figures")
    }
}

/// Result of the loop.
#[derive(Debug, Clone)]
pub struct Closed {
    /// The fitted values.
    pub free: Vec<Free>,
    /// Unit of each.
    pub units: Vec<String>,
    /// The fit.
    pub fit: Fit,
    /// Identifiability of the values.
    pub identified: Identified,
    /// Benchmarks used for fitting.
    pub fitted: Vec<BenchmarkErrors>,
    /// Benchmarks used for judging.
    pub judged: Vec<BenchmarkErrors>,
    /// Measured figures that the model cannot predict.
    pub unanswered: Vec<Observed>,
}

impl Closed {
    /// Returns the mean error over the judging benchmarks; `None` if there are none.
    pub fn error(&self) -> Option<f64> {
        let sum: f64 = self.judged.iter().map(BenchmarkErrors::mean).sum();
        (!self.judged.is_empty()).then(|| sum / self.judged.len() as f64)
    }
}

/// Reason why the loop cannot be closed.
#[derive(Debug, thiserror::Error)]
pub enum Open {
    /// A profile is invalid.
    #[error(transparent)]
    Profile(#[from] Error),
    /// The profile does not exist.
    #[error("no profile {0:?} of kind software")]
    Unknown(String),
    /// The value to fit does not exist.
    #[error("{0} cannot be fitted; the values are {1}")]
    Value(String, String),
    /// There are fewer measurements than values.
    #[error(
        "{figures} figures of the fitted benchmarks ({benchmarks}) do not determine {values} values"
    )]
    TooFew {
        /// Figures of the fitting benchmarks.
        figures: usize,
        /// The fitting benchmarks.
        benchmarks: String,
        /// Values to fit.
        values: usize,
    },
}

/// Fits to one part of the measurements and judges the result by the other.
///
/// # Errors
///
/// Returns [`Open`] if the profile or a value does not exist, a profile is invalid, or the
/// measurements are too few.
pub fn close(task: &SoftwareTask<'_>) -> Result<Closed, Open> {
    let chosen = chosen(task)?;
    let free: Vec<Free> = chosen.iter().map(Free::of).collect();
    let with = |values: &[f64]| -> Result<Machine, Open> {
        let overrides = Free::overrides(&free, values);
        machine(&task.library.with(&overrides)?, task.profile)
    };
    // Every value stays within its bounds, so any error shows at the start.
    let start: Vec<f64> = free.iter().map(|free| free.start).collect();
    let beginning = predicted(&with(&start)?, task.observed, Effort::Verdict);
    let answered = task.observed.iter().zip(&beginning);
    let (fit_to, judges): (Vec<Observed>, Vec<Observed>) = answered
        .filter(|(_, answer)| answer.is_some())
        .map(|(one, _)| one.clone())
        .partition(|one| rule::is_fitted(one.benchmark.name));
    if fit_to.len() < free.len() {
        return Err(Open::TooFew {
            figures: fit_to.len(),
            benchmarks: rule::FITTED.join(", "),
            values: free.len(),
        });
    }
    let residuals = |values: &[f64]| -> Vec<f64> {
        let machine = with(values).expect("values within bounds make a sound profile");
        let answers = predicted(&machine, &fit_to, Effort::Search);
        let residual = |(answer, one): (&Option<f64>, &Observed)| {
            (answer.unwrap_or(f64::NAN) / one.figure).ln() / task.noise
        };
        answers.iter().zip(&fit_to).map(residual).collect()
    };
    let fit = fit(&free, &residuals, task.steps, task.threads);
    let machine = with(&fit.values)?;
    Ok(Closed {
        identified: identify(&free, &fit),
        units: chosen.iter().map(|one| one.unit.clone()).collect(),
        fitted: curves(&machine, &fit_to),
        judged: curves(&machine, &judges),
        unanswered: without_answer(task.observed, &beginning),
        free,
        fit,
    })
}

/// Returns a software adapter of the library as a machine.
///
/// # Errors
///
/// Returns [`Open::Unknown`] if there is no such profile, or [`Open::Profile`] if it is invalid.
pub fn machine(library: &Library, name: &str) -> Result<Machine, Open> {
    match library.software(name) {
        Some(_) => Ok(Machine::of(library, name)?),
        None => Err(Open::Unknown(name.to_owned())),
    }
}

/// Returns the profile's own values that are tagged as fitted. Cache sizes are excluded, because
/// they are the host's.
fn chosen(task: &SoftwareTask<'_>) -> Result<Vec<Recorded>, Open> {
    let own = |one: &&Recorded| one.kind == ProfileKind::Software && one.profile == task.profile;
    let all = task.library.recorded().iter().filter(own);
    let fitted: Vec<&Recorded> = all.filter(|one| one.tag == Tag::Fitted).collect();
    if task.free.is_empty() {
        return Ok(fitted.into_iter().cloned().collect());
    }
    let found = |path: &String| {
        let found = fitted.iter().find(|one| one.path == *path);
        found.map(|&one| one.clone()).ok_or_else(|| {
            let known: Vec<&str> = fitted.iter().map(|one| one.path.as_str()).collect();
            Open::Value(path.clone(), known.join(", "))
        })
    };
    task.free.iter().map(found).collect()
}

fn curves(machine: &Machine, observed: &[Observed]) -> Vec<BenchmarkErrors> {
    let mut curves: Vec<BenchmarkErrors> = Vec::new();
    for (one, answer) in observed
        .iter()
        .zip(predicted(machine, observed, Effort::Verdict))
    {
        let Some(predicted) = answer else { continue };
        let compared = Compared {
            observed: one.clone(),
            predicted,
        };
        let name = one.benchmark.name;
        match curves.iter_mut().find(|curve| curve.benchmark == name) {
            Some(curve) => curve.figures.push(compared),
            None => curves.push(BenchmarkErrors {
                benchmark: name,
                figures: vec![compared],
            }),
        }
    }
    curves
}

fn without_answer(observed: &[Observed], answers: &[Option<f64>]) -> Vec<Observed> {
    let all = observed.iter().zip(answers);
    let without = all.filter(|(_, answer)| answer.is_none());
    without.map(|(one, _)| one.clone()).collect()
}

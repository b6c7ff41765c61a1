//! Measures the software adapter, fits its profile to some of the benchmarks, and predicts the
//! others.

use crate::Failure;
use crate::engine::Engine;
use crate::model_target::ModelTarget;
use crate::options::MeasureOptions;
use crate::profiles::Profiles;
use crate::target::{Found, Target};
use std::path::{Path, PathBuf};
use verbena_calibrate::software::{
    BenchmarkErrors as Curve, Closed, ENDING, SoftwareTask as Task, TARGET, close, fitted_profile,
    observed, unanswered, verdict,
};
use verbena_fabric::model::{Fidelity, Machine};
use verbena_measure::result::Point;
use verbena_model::profile::Library;
use verbena_report::file::replace;
use verbena_report::html::{Figure, FittedProfile, Predicted};
use verbena_report::run_directory::Loaded;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Benchmark, Group, Processes};

/// The profile that the fit starts from.
const BASE: &str = "software";

/// How the software adapter is measured and its profile fitted.
pub struct Order<'a> {
    /// Existing measurements and their names; if empty, the adapter is measured.
    pub runs: Vec<(PathBuf, Loaded)>,
    /// Values to fit; if empty, all.
    pub fit: &'a [String],
    /// Launches of each benchmark to measure.
    pub launches: u32,
    /// Expected relative noise of a measurement.
    pub noise: f64,
    /// Maximum steps of the search.
    pub steps: usize,
    /// Threads that compute models.
    pub threads: usize,
    /// Directory for profile, measurements and report.
    pub out: Option<&'a Path>,
    /// Profiles to start from.
    pub profiles: Profiles,
}

/// A fitted profile and the measurements it was fitted to.
pub struct OwnProfile {
    /// The fitted values, and the errors of the predictions.
    pub closed: Closed,
    measured: Vec<Loaded>,
    library: Library,
    source: String,
    threads: usize,
}

impl OwnProfile {
    /// Measures, fits and predicts.
    ///
    /// # Errors
    ///
    /// Fails if the measurement cannot run or the fit is impossible.
    pub fn fit(engine: Engine<'_>, order: Order<'_>) -> Result<OwnProfile, Failure> {
        let library = order.profiles.library()?;
        let source = source(&order);
        let measured = match order.runs.is_empty() {
            true => measured(engine, &order)?,
            false => order.runs.into_iter().map(|(_, run)| run).collect(),
        };
        let points: Vec<Point> = measured.iter().flat_map(|run| run.points.clone()).collect();
        let closed = close(&Task {
            library: &library,
            profile: BASE,
            free: order.fit,
            observed: &observed(&points),
            noise: order.noise,
            steps: order.steps,
            threads: order.threads,
        })
        .map_err(|error| Failure::Input(error.to_string()))?;
        Ok(OwnProfile {
            closed,
            measured,
            library,
            source,
            threads: order.threads,
        })
    }

    /// Returns whether the mean error of the predictions meets its target.
    pub fn is_met(&self) -> bool {
        self.closed.error().is_some_and(|error| error <= TARGET)
    }

    /// Writes the profile and runs the benchmarks on it. Returns its name, the runs, and the
    /// predictions as a section of their report.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written or the model does not run.
    pub fn write(
        mut self,
        engine: Engine<'_>,
        directory: &Path,
    ) -> Result<(String, Vec<Loaded>, FittedProfile), Failure> {
        let system = |doing| move |source| Failure::System { doing, source };
        std::fs::create_dir_all(directory).map_err(system("make the directory"))?;
        let name = format!("{BASE}-{ENDING}");
        let profile = fitted_profile(BASE, &self.closed, &self.source);
        let file = format!("{name}.toml");
        replace(&directory.join(&file), &profile).map_err(system("write the profile"))?;
        let library = self.library.and([(file.as_str(), profile.as_str())]);
        let machine = library.and_then(|library| Machine::of(&library, &name));
        let target = Found::Model(Box::new(ModelTarget::new(
            machine.map_err(|error| Failure::Input(error.to_string()))?,
            Fidelity::Packet,
        )));
        let options = MeasureOptions {
            threads: self.threads,
            ..options()
        };
        let beside = directory.join(target.directory());
        let run = engine.on(&target, &benchmarks(), &options, Some(&beside))?;
        self.measured.extend(run);
        Ok((name, self.measured, section(&self.closed)))
    }
}

fn measured(engine: Engine<'_>, order: &Order<'_>) -> Result<Vec<Loaded>, Failure> {
    let options = MeasureOptions {
        launches: Some(order.launches),
        ..options()
    };
    let target = Target::Software.find(engine.host, &order.profiles)?;
    let directory = order.out.map(|out| out.join(target.directory()));
    let run = engine.on(&target, &benchmarks(), &options, directory.as_deref())?;
    Ok(run.into_iter().collect())
}

/// Returns the options of all its measurements: one pair, reliable connections.
fn options() -> MeasureOptions {
    MeasureOptions {
        pairs: Some(vec![1]),
        transports: Some(vec!["rc".to_owned()]),
        ..MeasureOptions::quick_on(Target::Software)
    }
}

/// Returns the benchmarks between two processes over the adapter.
fn benchmarks() -> Vec<&'static Benchmark> {
    let two = |one: &&Benchmark| {
        matches!(one.processes, Processes::Two | Processes::Pairs) && one.group != Group::Baseline
    };
    ALL.iter().filter(two).collect()
}

/// Returns the command to record as the source of the fitted values.
fn source(order: &Order<'_>) -> String {
    let runs = order.runs.iter();
    let names: Vec<String> = runs.map(|(path, _)| path.display().to_string()).collect();
    match names.is_empty() {
        true => format!(
            "verbena calibrate --on software --launches {}",
            order.launches
        ),
        false => format!("verbena calibrate --on software {}", names.join(" ")),
    }
}

fn section(closed: &Closed) -> FittedProfile {
    let values = closed.free.iter().enumerate().map(|(at, free)| {
        let unit = &closed.units[at];
        let error = closed.identified.errors[at];
        [
            free.path.clone(),
            format!("{:.4} {unit}", closed.fit.values[at]),
            error.map_or("not seen".to_owned(), |error| format!("{error:.2} {unit}")),
            format!("{} to {}", free.low, free.high),
        ]
    });
    let pairs = closed.identified.inseparable.iter().map(|pair| {
        format!(
            "Not distinguishable: {} and {}; only a combination of them was measured.",
            pair.one, pair.other
        )
    });
    FittedProfile {
        verdict: verdict(closed),
        target: TARGET,
        judged: closed.judged.iter().map(predicted).collect(),
        fitted: closed.fitted.iter().map(predicted).collect(),
        values: values.collect(),
        notes: pairs.chain(unanswered(closed)).collect(),
    }
}

fn predicted(curve: &Curve) -> Predicted {
    let figure = |one: &verbena_calibrate::software::Compared| Figure {
        label: one.observed.label(),
        unit: one.observed.unit.clone(),
        measured: one.observed.figure,
        model: one.predicted,
    };
    Predicted {
        benchmark: curve.benchmark.to_owned(),
        mean: curve.mean(),
        figures: curve.figures.iter().map(figure).collect(),
    }
}

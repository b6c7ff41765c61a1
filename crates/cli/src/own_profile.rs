//! Measures the software adapter, fits its profile to some of the benchmarks, and predicts the
//! others.

use crate::command::report::{self, Computed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::host;
use crate::output::{data, out, outln};
use crate::profiles::ProfileOptions;
use std::path::{Path, PathBuf};
use verbena_bench::model_target::ModelTarget;
use verbena_bench::options::MeasureOptions;
use verbena_bench::target::{Found, Target};
use verbena_calibrate::software::{
    BenchmarkErrors as Curve, Closed, ENDING, SoftwareTask as Task, TARGET, close, fitted_profile,
    observed, text, unanswered, verdict,
};
use verbena_fabric::model::{Fidelity, Machine};
use verbena_measure::result::Point;
use verbena_model::profile::Library;
use verbena_report::file::replace;
use verbena_report::html::{ClosedLoop, Figure, Predicted};
use verbena_report::run_directory::Loaded;
use verbena_workloads::registry::ALL;
use verbena_workloads::{Benchmark, Group, Processes};

/// The profile that the fit starts from.
const BASE: &str = "software";

pub struct Order<'a> {
    /// Existing measurements; if empty, the adapter is measured.
    pub runs: &'a [PathBuf],
    /// Values to fit; if empty, all.
    pub fit: &'a [String],
    /// Launches of each benchmark to measure.
    pub launches: u32,
    /// Expected relative noise of a measurement.
    pub noise: f64,
    pub steps: usize,
    pub threads: usize,
    pub out: Option<&'a Path>,
    /// Profiles to start from.
    pub profiles: &'a ProfileOptions,
}

/// Measures, fits, predicts, and prints the errors. The answer is no if the mean error exceeds its
/// target.
///
/// # Errors
///
/// Fails if the measurement cannot run, the fit is impossible, or a file cannot be written.
pub fn run(order: &Order<'_>) -> Result<Exit, Failure> {
    let library = order.profiles.library()?;
    let measured = measured(order)?;
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
    out!("{}", text(&closed));
    if let Some(directory) = order.out {
        write(order, directory, &library, (measured, &closed))?;
    }
    match closed.error() {
        Some(error) if error <= TARGET => Ok(Exit::Success),
        _ => Ok(Exit::AnswerIsNo),
    }
}

fn measured(order: &Order<'_>) -> Result<Vec<Loaded>, Failure> {
    if !order.runs.is_empty() {
        return order.runs.iter().map(|path| report::read(path)).collect();
    }
    let options = MeasureOptions {
        launches: Some(order.launches),
        pairs: Some(vec![1]),
        transports: Some(vec!["rc".to_owned()]),
        ..MeasureOptions::quick_on(Target::Software)
    };
    let target = order.profiles.find(&Target::Software)?;
    let directory = order.out.map(|out| out.join(target.directory()));
    let run =
        host::mpi(None)
            .engine()
            .on(&target, &benchmarks(), &options, directory.as_deref())?;
    Ok(run.into_iter().collect())
}

/// Returns the benchmarks between two processes over the adapter.
fn benchmarks() -> Vec<&'static Benchmark> {
    let two = |one: &&Benchmark| {
        matches!(one.processes, Processes::Two | Processes::Pairs) && one.group != Group::Baseline
    };
    ALL.iter().filter(two).collect()
}

/// Writes the profile, the model's run, and the report on both.
fn write(
    order: &Order<'_>,
    directory: &Path,
    library: &Library,
    (mut runs, closed): (Vec<Loaded>, &Closed),
) -> Result<(), Failure> {
    let system = |doing| move |source| Failure::System { doing, source };
    std::fs::create_dir_all(directory).map_err(system("make the directory"))?;
    let name = format!("{BASE}-{ENDING}");
    let profile = fitted_profile(BASE, closed, &source(order));
    let path = directory.join(format!("{name}.toml"));
    replace(&path, &profile).map_err(system("write the profile"))?;
    let library = library.and([(format!("{name}.toml").as_str(), profile.as_str())]);
    let machine = library.and_then(|library| Machine::of(&library, &name));
    let target = Found::Model(Box::new(ModelTarget::new(
        machine.map_err(|error| Failure::Input(error.to_string()))?,
        Fidelity::Packet,
    )));
    let options = MeasureOptions {
        pairs: Some(vec![1]),
        transports: Some(vec!["rc".to_owned()]),
        threads: order.threads,
        ..MeasureOptions::quick_on(Target::Software)
    };
    let beside = directory.join(target.directory());
    runs.extend(
        host::mpi(None)
            .engine()
            .on(&target, &benchmarks(), &options, Some(&beside))?,
    );
    let section = section(closed);
    let computed = Computed {
        reproduction: None,
        closed_loop: Some(&section),
    };
    let report = report::write(directory, &runs, &computed)?;
    outln!(
        "written: --profiles {} --on model:{name}",
        directory.display()
    );
    data!("{}\n", report.display());
    Ok(())
}

/// Returns the command to record as the source of the fitted values.
fn source(order: &Order<'_>) -> String {
    let runs = order.runs.iter();
    let names: Vec<String> = runs.map(|run| run.display().to_string()).collect();
    match names.is_empty() {
        true => format!(
            "verbena calibrate --on software --launches {}",
            order.launches
        ),
        false => format!("verbena calibrate --on software {}", names.join(" ")),
    }
}

fn section(closed: &Closed) -> ClosedLoop {
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
    ClosedLoop {
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

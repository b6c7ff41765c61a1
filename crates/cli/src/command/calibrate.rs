//! `verbena calibrate`: fits values of a timing model's profiles to measurements of the suite,
//! perftest or OSU. For the software adapter it also measures, and validates the prediction.

use std::path::{Path, PathBuf};

use crate::command::report::{self, Computed, read};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::host;
use crate::number;
use crate::output::{data, out, outln};
use crate::profiles::ProfileOptions;
use verbena_bench::own_profile::{Order, OwnProfile};
use verbena_bench::target::Target;
use verbena_calibrate::software;
use verbena_calibrate::system::{Observation, Overlay, Task, calibrate, overlay, text};
use verbena_fabric::model::Fidelity;

/// Which measurements, which model.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Measurements of one machine to fit to
    ///
    /// Run directories, results files, or output of perftest or OSU. Without any, the software
    /// adapter is measured.
    #[arg(value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Choose the model to begin with, or `software`
    ///
    /// `model:PROFILE`. With `software`, fits the software adapter's profile to some benchmarks and
    /// predicts the others.
    #[arg(long = "on", value_name = "TARGET")]
    target: Target,

    /// Fit this value, e.g. bensley.cpu.post; may be repeated
    ///
    /// By default all values of the model tagged as fitted.
    #[arg(long, value_name = "KEY")]
    fit: Vec<String>,

    /// Launch each benchmark N times, on the software adapter
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = number::between::<u32>(1..=1000))]
    launches: u32,

    /// Expect this relative noise of measurements
    #[arg(long, value_name = "SHARE", default_value_t = 0.03, value_parser = noise)]
    noise: f64,

    /// Write profiles with the fitted values to this directory
    ///
    /// Read them with --profiles. For the software adapter, measurements and a report are written,
    /// too.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Compute on N threads; results do not depend on N
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = number::between::<u32>(1..=1024))]
    threads: u32,

    #[command(flatten)]
    profiles: ProfileOptions,
}

/// Maximum steps of the search; it ends early when a step gains nothing.
const STEPS: usize = 30;

/// Fits, prints, writes the profiles.
///
/// # Errors
///
/// Fails if there are no usable measurements, the target cannot be calibrated, or the profiles
/// cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    match arguments.target {
        Target::Software => own(&arguments),
        _ => published(&arguments),
    }
}

/// Measures, fits and predicts the software adapter.
fn own(arguments: &Arguments) -> Result<Exit, Failure> {
    let runs = arguments.runs.iter();
    let mpi = host::mpi(None);
    let fitted = OwnProfile::fit(
        mpi.engine(),
        Order {
            runs: runs
                .map(|path| Ok((path.clone(), read(path)?)))
                .collect::<Result<_, Failure>>()?,
            fit: &arguments.fit,
            launches: arguments.launches,
            noise: arguments.noise,
            steps: STEPS,
            threads: arguments.threads as usize,
            out: arguments.out.as_deref(),
            profiles: arguments.profiles.profiles(),
        },
    )?;
    out!("{}", software::text(&fitted.closed));
    let exit = match fitted.is_met() {
        true => Exit::Success,
        false => Exit::NegativeResult,
    };
    if let Some(directory) = &arguments.out {
        let (name, runs, section) = fitted.write(mpi.engine(), directory)?;
        let computed = Computed {
            reproduction: None,
            fitted_profile: Some(&section),
        };
        let report = report::write(directory, &runs, &computed)?;
        outln!(
            "written: --profiles {} --on model:{name}",
            directory.display()
        );
        data!("{}\n", report.display());
    }
    Ok(exit)
}

fn published(arguments: &Arguments) -> Result<Exit, Failure> {
    if arguments.runs.is_empty() {
        let text = "no measurements given; name run directories, or output of perftest or OSU";
        return Err(Failure::Input(text.to_owned()));
    }
    let Target::Model {
        profile,
        fidelity: Fidelity::Packet,
    } = &arguments.target
    else {
        let text = "only models can be calibrated, without a fidelity: use --on model:PROFILE; \
                    `verbena list` names the profiles";
        return Err(Failure::Input(text.to_owned()));
    };
    let library = arguments.profiles.library()?;
    let (mut observations, mut points) = (Vec::new(), 0);
    for path in &arguments.runs {
        let run = read(path)?;
        points += run.points.len();
        observations.extend(run.points.iter().filter_map(Observation::of));
    }
    if observations.is_empty() {
        return Err(Failure::Input(format!(
            "none of the {points} points can be fitted; models are fitted to latencies and, from \
             4 KiB, bandwidths of writes, reads and sends over RC, and to OSU's of two ranks"
        )));
    }
    let calibrated = calibrate(&Task {
        library: &library,
        system: profile,
        free: arguments.fit.clone(),
        observations: &observations,
        noise: arguments.noise,
        steps: STEPS,
        threads: arguments.threads as usize,
    })
    .map_err(|error| Failure::Input(error.to_string()))?;
    out!("{}", text(&calibrated, &observations));
    if points > observations.len() {
        outln!(
            "{} points of the runs were left out: the models are not fitted to such points",
            points - observations.len()
        );
    }
    if let Some(directory) = &arguments.out {
        let overlays = overlay(&library, profile, &calibrated, &source(&arguments.runs));
        write(directory, &overlays)?;
        if let Some(system) = overlays.last() {
            outln!(
                "written: --profiles {} --on model:{}",
                directory.display(),
                system.name
            );
        }
    }
    Ok(Exit::Success)
}

/// Returns the command to record as the source of the fitted values.
fn source(runs: &[PathBuf]) -> String {
    let names: Vec<String> = runs.iter().map(|run| run.display().to_string()).collect();
    format!("verbena calibrate {}", names.join(" "))
}

fn write(directory: &Path, overlays: &[Overlay]) -> Result<(), Failure> {
    let wrong =
        |path: &Path, error: std::io::Error| Failure::Input(format!("{}: {error}", path.display()));
    std::fs::create_dir_all(directory).map_err(|error| wrong(directory, error))?;
    for overlay in overlays {
        let path = directory.join(format!("{}.toml", overlay.name));
        std::fs::write(&path, &overlay.text).map_err(|error| wrong(&path, error))?;
    }
    Ok(())
}

fn noise(text: &str) -> Result<f64, String> {
    let share: Option<f64> = text.parse().ok();
    share
        .filter(|share| (1e-6..=1.0).contains(share))
        .ok_or_else(|| "expected a share from 0.000001 to 1, e.g. 0.03".to_owned())
}

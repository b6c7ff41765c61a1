//! `verbena history`: detects step changes of figures across many runs.

use std::path::PathBuf;

use crate::command::compare::thresholds;
use crate::command::report::read;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{json, outln};
use verbena_measure::stats::step::LEAST_RUNS;
use verbena_measure::unit;
use verbena_report::history::{Moved, moves};

/// Arguments of `verbena history`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run directories or results files, in any order
    ///
    /// They are sorted by the time of their start.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,

    /// Read thresholds from this TOML file
    ///
    /// `default = 0.05` and, under [benchmarks], exceptions by the beginning of a name.
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// Prints every step; exit code 1 if the current level of a figure is worse than the previous one.
///
/// # Errors
///
/// Fails if there are too few runs, or one cannot be read.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    if arguments.runs.len() < LEAST_RUNS {
        let have = arguments.runs.len();
        return Err(Failure::Input(format!(
            "detecting a step takes at least {LEAST_RUNS} runs, {have} are given; `verbena \
             compare` compares two"
        )));
    }
    let thresholds = thresholds(arguments.thresholds.as_deref())?;
    let mut named = Vec::new();
    for path in &arguments.runs {
        named.push((path.display().to_string(), read(path)?));
    }
    named.sort_by_key(|(_, run)| run.run.started);
    let (names, runs): (Vec<String>, Vec<_>) = named.into_iter().unzip();
    let moved = moves(&runs, &thresholds);
    if arguments.json {
        json(&moved);
    } else {
        for step in &moved {
            outln!("{}", line(step, &names[step.run]));
        }
        let worse = moved.iter().filter(|step| step.worse).count();
        outln!(
            "{} runs: {} steps, {worse} for the worse",
            runs.len(),
            moved.len()
        );
    }
    let bad = |step: &Moved| step.worse && step.holds;
    Ok(match moved.iter().any(bad) {
        true => Exit::NegativeResult,
        false => Exit::Success,
    })
}

fn line(step: &Moved, run: &str) -> String {
    let word = if step.worse { "worse" } else { "better" };
    let past = if step.holds {
        ""
    } else {
        ", until the next step"
    };
    let (before, after) = (
        unit::display(step.before, &step.unit),
        unit::display(step.after, &step.unit),
    );
    format!(
        "{word:>10} {:.3}  {}: {before} to {after} from {run} on{past}",
        step.after / step.before,
        step.key
    )
}

//! `verbena compare`: reports which points changed between two runs, by how much, with intervals.
//! The exit code serves as a gate.

use std::path::{Path, PathBuf};

use crate::command::report::{Foreign, read_foreign};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{data, harmless, json, out};
use crate::terminal;
use verbena_calibrate::distinguished;
use verbena_measure::compare::Change;
use verbena_report::comparison::{Thresholds, between};
use verbena_report::outcome::{Outcome, is_change};

/// Arguments of `verbena compare`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Run to compare with
    a: PathBuf,

    /// Run to judge
    b: PathBuf,

    /// Read thresholds from this TOML file
    ///
    /// `default = 0.05` and, under [benchmarks], exceptions by the beginning of a name.
    #[arg(long, value_name = "FILE")]
    thresholds: Option<PathBuf>,

    /// Print every point, not only those that changed
    #[arg(long)]
    all: bool,

    /// Print JSON instead of a table
    #[arg(long, conflicts_with = "format")]
    json: bool,

    /// Print a table, Markdown for a pull request, or JUnit XML
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// Return 0 where all changes are for the better
    #[arg(long)]
    allow_better: bool,

    #[command(flatten)]
    foreign: Foreign,
}

/// How a comparison is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For a pull request.
    Markdown,
    /// For continuous integration.
    Junit,
}

/// Compares; exit code 1 if something changed, 4 if a change cannot be decided.
///
/// # Errors
///
/// Fails if an input cannot be read, or the runs have no point in common.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let thresholds = thresholds(arguments.thresholds.as_deref())?;
    let read = |path| read_foreign(path, &arguments.foreign);
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    let mut compared = between(&a, &b, &thresholds);
    let points = a.points.iter().chain(&b.points);
    let benchmarks: Vec<&str> = points.map(|point| point.benchmark.as_str()).collect();
    for prefix in thresholds.unused(&benchmarks) {
        eprintln!(
            "verbena: warning: thresholds: no benchmark of these runs begins with {prefix:?}"
        );
    }
    for note in &compared.notes {
        eprintln!("verbena: note: {}", harmless(note));
    }
    if compared.changes.is_empty() {
        return Err(Failure::Input(
            "the two runs have no point in common".to_owned(),
        ));
    }
    let distinguished = distinguished::of(&a, &b);
    let distinguished = distinguished.map_err(|error| Failure::Input(error.to_string()))?;
    distinguished.judge(&mut compared);
    let wanted = |change: &&Change| arguments.all || is_change(change.verdict);
    let all = compared.curves.iter().chain(&compared.changes);
    let shown: Vec<&Change> = all.filter(wanted).collect();
    match arguments.format {
        _ if arguments.json => json(&shown),
        Format::Table => {
            out!("{}", compared.text(&shown, terminal::shows_blocks()));
            out!("{}", distinguished.text);
        }
        Format::Markdown => data!("{}", compared.markdown(&shown)),
        Format::Junit => data!("{}", compared.junit()),
    }
    Ok(match compared.outcome() {
        Outcome::Better if arguments.allow_better => Exit::Success,
        Outcome::Worse | Outcome::Better => Exit::NegativeResult,
        Outcome::Undecided => Exit::Undecided,
        Outcome::Unchanged => Exit::Success,
    })
}

/// Reads thresholds from a file; without one, returns the defaults.
///
/// # Errors
///
/// Fails if the file cannot be read or has invalid thresholds.
pub fn thresholds(path: Option<&Path>) -> Result<Thresholds, Failure> {
    let Some(path) = path else {
        return Ok(Thresholds::default());
    };
    let wrong = |error: String| Failure::Input(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let thresholds: Thresholds = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    thresholds.check().map_err(wrong)?;
    Ok(thresholds)
}

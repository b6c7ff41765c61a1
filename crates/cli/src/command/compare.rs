//! `verbena compare`: which points changed between two runs, by how much, with intervals. For gates, the exit code tells.

use std::path::{Path, PathBuf};

use crate::command::report::read;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{harmless, outln};
use verbena_measure::compare::{Change, Verdict};
use verbena_report::comparison::{Thresholds, between};

/// Which runs.
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
    #[arg(long)]
    json: bool,
}

/// Compares; exit code 1 when something got worse.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let thresholds = thresholds(arguments.thresholds.as_deref())?;
    let (a, b) = (read(&arguments.a)?, read(&arguments.b)?);
    let compared = between(&a, &b, &thresholds);
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
    let wanted = |change: &&Change| arguments.all || is_change(change.verdict);
    let all = compared.curves.iter().chain(&compared.changes);
    let shown: Vec<&Change> = all.clone().filter(wanted).collect();
    let count = |verdict| {
        let points = compared.changes.iter();
        points.filter(|c| c.verdict == verdict).count()
    };
    if arguments.json {
        let text = serde_json::to_string_pretty(&shown).expect("changes are plain data");
        outln!("{text}");
    } else {
        for change in &shown {
            let interval = change
                .interval
                .map_or(String::new(), |i| format!(" [{:.3}, {:.3}]", i.low, i.high));
            outln!(
                "{:>10} {:.3}{interval}  {}{}",
                word(change.verdict),
                change.ratio,
                change.key,
                extent(change)
            );
        }
        outln!(
            "{} curves changed. {} points in both: {} worse, {} better, {} the same, {} undecided; {} only in the first, {} only in the second",
            compared
                .curves
                .iter()
                .filter(|c| is_change(c.verdict))
                .count(),
            compared.changes.len(),
            count(Verdict::Regressed),
            count(Verdict::Improved),
            count(Verdict::Same),
            count(Verdict::Undecided),
            compared.only_first,
            compared.only_second
        );
    }
    if compared.changes.is_empty() {
        return Err(Failure::Input(
            "the two runs have no point in common".to_owned(),
        ));
    }
    let worse = all
        .clone()
        .any(|change| change.verdict == Verdict::Regressed);
    Ok(if worse {
        Exit::AnswerIsNo
    } else {
        Exit::Success
    })
}

/// How many points a curve has.
fn extent(change: &Change) -> String {
    match change.points {
        1 => String::new(),
        points => format!(" (all {points} points together)"),
    }
}

/// Thresholds from a file, or the usual ones.
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

fn is_change(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Regressed | Verdict::Improved)
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Improved => "better",
        Verdict::Regressed => "worse",
        Verdict::Undecided => "undecided",
    }
}

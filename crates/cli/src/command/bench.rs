//! `verbena bench`: benchmarks by name, with a table on standard output and, where asked, a run directory.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::command::report::Computed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::outln;
use crate::service;
use crate::suggestion::did_you_mean;
use crate::suite::measure::measure;
use crate::suite::options::MeasureOptions;
use serde::Serialize;
use verbena_measure::result::{Failure as PointFailure, Finding, Value};
use verbena_measure::unit;
use verbena_report::gather::{Row, rows};
use verbena_report::run_directory::Loaded;
use verbena_report::schema::Run;
use verbena_workloads::Benchmark;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Benchmarks, or beginnings of their names, e.g. `latency.`
    ///
    /// `verbena list` shows all.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    options: MeasureOptions,

    /// Print one JSON object instead of a table, at the end
    #[arg(long)]
    json: bool,

    /// Write results and report to this directory
    ///
    /// results.jsonl, points.csv and report.html.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs them.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    arguments.options.check()?;
    arguments.options.check_profiles()?;
    let benchmarks = named(&arguments.names)?;
    let mut runs = measure(
        &benchmarks,
        &arguments.options,
        arguments.out.as_deref(),
        match arguments.json {
            true => |_: &Loaded| (),
            false => print_table,
        },
    )?;
    if !runs.is_empty() && runs.iter().all(nothing) {
        let text =
            "nothing was measured: with these options no point is left of the benchmarks named";
        return Err(Failure::Input(text.to_owned()));
    }
    if let Some(predicted) = beside(&runs)? {
        if !arguments.json {
            print_table(&predicted);
        }
        runs.push(predicted);
    }
    if arguments.json {
        print_json(&runs);
    }
    if let (Some(out), false) = (&arguments.out, runs.is_empty()) {
        super::report::write(out, &runs, &Computed::default())?;
    }
    Ok(verdict(&runs))
}

/// Where readers of the file service were measured and no model was asked, what the model of the paper's server has for
/// as many.
fn beside(runs: &[Loaded]) -> Result<Option<Loaded>, Failure> {
    if runs.iter().any(|run| run.run.fabric == "model") {
        return Ok(None);
    }
    let readers: BTreeSet<usize> = runs
        .iter()
        .flat_map(|run| &run.points)
        .filter(|point| point.benchmark == "rfio.readers")
        .filter_map(|point| match point.parameters.get("readers") {
            Some(Value::Number(count)) => Some(*count as usize),
            _ => None,
        })
        .collect();
    if readers.is_empty() {
        return Ok(None);
    }
    service::predict(&readers.into_iter().collect::<Vec<_>>()).map(Some)
}

/// The benchmarks that names or their beginnings mean.
fn named(names: &[String]) -> Result<Vec<&'static Benchmark>, Failure> {
    let mut found: Vec<&'static Benchmark> = Vec::new();
    for name in names {
        let before = found.len();
        let all = super::list::benchmarks;
        match all().find(|benchmark| benchmark.name == name) {
            Some(benchmark) => found.push(benchmark),
            None if name.ends_with('.') => {
                found.extend(all().filter(|b| b.name.starts_with(name.as_str())));
            }
            None => {}
        }
        if found.len() == before {
            let known = all().map(|benchmark| benchmark.name);
            let meant = did_you_mean(name, known);
            let text = format!("no benchmark is called {name:?}{meant}; `verbena list` shows all");
            return Err(Failure::Input(text));
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|benchmark| seen.insert(benchmark.name));
    Ok(found)
}

/// Whether a run went to its end without anything to do.
fn nothing(run: &Loaded) -> bool {
    let complete = run
        .end
        .as_ref()
        .is_some_and(|end| end.outcome == "complete");
    complete && run.points.is_empty() && run.failures.is_empty()
}

/// Success if every run went to its end, measured something, and nothing failed that the adapter offers.
pub fn verdict(runs: &[Loaded]) -> Exit {
    let bad = |run: &Loaded| {
        let offered_nothing = run.points.is_empty() && run.failures.iter().any(|f| !f.unsupported);
        // A failure without parameters is that of a whole launch: a process died or hung.
        let launch = run
            .failures
            .iter()
            .any(|f| !f.unsupported && f.parameters.is_empty());
        let ended = run.end.as_ref().is_some_and(|end| end.outcome == "failed");
        offered_nothing || launch || ended
    };
    let interrupted = |run: &Loaded| {
        run.end
            .as_ref()
            .is_some_and(|end| end.outcome == "interrupted")
    };
    if runs.iter().any(interrupted) {
        Exit::Interrupted
    } else if runs.iter().any(bad) {
        Exit::AnswerIsNo
    } else {
        Exit::Success
    }
}

/// A run with its launches combined, as a report shows them.
#[derive(Serialize)]
struct Combined<'a> {
    run: &'a Run,
    points: Vec<Row>,
    findings: &'a [Finding],
    failures: &'a [PointFailure],
}

impl Combined<'_> {
    fn of(run: &Loaded) -> Combined<'_> {
        Combined {
            run: &run.run,
            points: rows(run),
            findings: &run.findings,
            failures: &run.failures,
        }
    }
}

fn print_json(runs: &[Loaded]) {
    let all: Vec<Combined<'_>> = runs.iter().map(Combined::of).collect();
    let text = serde_json::to_string_pretty(&serde_json::json!({ "runs": all }));
    outln!("{}", text.expect("results are plain data"));
}

fn print_table(run: &Loaded) {
    let mut last = String::new();
    for row in rows(run) {
        if row.benchmark != last {
            outln!("{} on {}", row.benchmark, run.run.label);
            last.clone_from(&row.benchmark);
        }
        let words: Vec<String> = row
            .figures
            .iter()
            .map(|figure| {
                let mut text = format!(
                    "{} {}",
                    figure.name,
                    unit::display(figure.value, &figure.unit)
                );
                if let Some(interval) = figure.interval.filter(|_| figure.launches.len() > 1) {
                    let [low, high] =
                        [interval.low, interval.high].map(|end| unit::display(end, &figure.unit));
                    text += &format!(" [{low} to {high}]");
                }
                if let Some(p99) = figure.summary.as_ref().and_then(|s| s.p99) {
                    text += &format!(" (p99 {})", unit::display(p99, &figure.unit));
                }
                if let Some(percent) = figure.percent_of_bound() {
                    text += &format!(" {percent:.0} % of bound");
                }
                text
            })
            .collect();
        outln!("  {:<44} {}", row.label_without(&[]), words.join("; "));
        for warning in &row.warnings {
            outln!("  {:<44} warning: {warning}", "");
        }
    }
    for finding in &run.findings {
        outln!("{}: {}", finding.benchmark, finding.text);
    }
    for failure in &run.failures {
        let words: Vec<String> = failure
            .parameters
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        let point = match words.is_empty() {
            true => String::new(),
            false => format!(" {}", words.join(", ")),
        };
        outln!("{}{point}: {}", failure.benchmark, failure.reason);
    }
}

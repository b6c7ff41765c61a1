//! `verbena bench`: runs benchmarks by name; prints a table and, on request, writes a run
//! directory.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::command::report::Computed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::measuring::MeasureArguments;
use crate::output::json;
use crate::summary;
use verbena_bench::job::Job;
use verbena_bench::service;
use verbena_bench::target::Target;
use verbena_bench::time_budget;
use verbena_bench_mpi::named;
use verbena_fabric::model::Fidelity;
use verbena_report::combined::Combined;
use verbena_report::run_directory::Loaded;
use verbena_workloads::{Benchmark, Processes};

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Benchmarks, or groups that end in a dot, e.g. `latency.`
    ///
    /// `verbena list` shows all.
    #[arg(required = true, value_name = "NAME")]
    names: Vec<String>,

    #[command(flatten)]
    options: MeasureArguments,

    /// End after TIME (30s, 10m, 1.5h) with the points that are complete
    ///
    /// For models, all together. Points that are missing are named, and the exit code is 124.
    #[arg(long, value_name = "TIME", value_parser = time_budget::parse, conflicts_with = "minutes")]
    budget: Option<Duration>,

    /// Print one JSON object instead of a table, at the end
    #[arg(long)]
    json: bool,

    /// Write results and report to this directory
    ///
    /// results.jsonl, points.csv and report.html.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const NO_MODEL: &str = "--budget is for models; --minutes limits the launches on an adapter";

/// Runs the benchmarks.
///
/// # Errors
///
/// Fails on invalid options or names, if nothing was measured, or if results cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    interrupt::watch()?;
    arguments.options.check()?;
    arguments.options.check_profiles()?;
    let is_model = |target: &Target| matches!(target, Target::Model { .. });
    if arguments.budget.is_some() && !arguments.options.targets.iter().all(is_model) {
        return Err(Failure::Input(NO_MODEL.to_owned()));
    }
    let benchmarks = named(&arguments.names)?;
    let options = arguments.options.options()?;
    if !arguments.json {
        advise(&arguments.options.targets, &benchmarks, options.processes);
    }
    time_budget::begin(arguments.budget);
    let mut runs = arguments.options.mpi().engine().measure(
        &benchmarks,
        &options,
        arguments.out.as_deref(),
        match arguments.json {
            true => |_: &Loaded| (),
            false => summary::points,
        },
    )?;
    if !runs.is_empty() && runs.iter().all(nothing) {
        let text = "nothing was measured: these options exclude every point of the benchmarks";
        return Err(Failure::Input(text.to_owned()));
    }
    if interrupt::is_wanted() || runs.iter().any(is_stopped) {
        return interrupted(&arguments, &runs);
    }
    if let Some(predicted) = service::predict_beside(&runs)? {
        if !arguments.json {
            summary::points(&predicted);
        }
        runs.push(predicted);
    }
    if arguments.json {
        print_json(&runs);
    }
    let report = match &arguments.out {
        Some(out) if !runs.is_empty() => {
            Some(super::report::write(out, &runs, &Computed::default())?)
        }
        _ => None,
    };
    if !arguments.json {
        summary::measured(&runs, report.as_deref())?;
        let options = &arguments.options;
        options.models.profiles.report_basis(&options.targets)?;
    }
    Ok(verdict(&runs))
}

/// Number of processes up to which a model simulates packets in seconds.
const FEW: usize = 16;

/// Prints advice to simulate whole messages, if a benchmark of many processes simulates packets.
pub fn advise(targets: &[Target], benchmarks: &[&Benchmark], processes: Option<usize>) {
    if let Some(advice) = faster(targets, benchmarks, processes) {
        eprintln!("verbena: {advice}");
    }
}

/// Returns advice to simulate whole messages, if a benchmark of many processes simulates packets.
fn faster(
    targets: &[Target],
    benchmarks: &[&Benchmark],
    processes: Option<usize>,
) -> Option<String> {
    let processes = processes.filter(|processes| *processes > FEW)?;
    let is_large = |one: &&&Benchmark| matches!(one.processes, Processes::AtLeast(_));
    let name = benchmarks.iter().find(is_large)?.name;
    let profile = targets.iter().find_map(|target| match target {
        Target::Model {
            profile,
            fidelity: Fidelity::Packet,
        } if !profile.starts_with("machine:") => Some(profile),
        _ => None,
    })?;
    Some(format!(
        "{name} with {processes} processes simulates every packet, which may take minutes; \
         --on model:{profile}:message simulates whole messages"
    ))
}

/// Reports the results measured before an interrupt or a time limit.
fn interrupted(arguments: &Arguments, runs: &[Loaded]) -> Result<Exit, Failure> {
    if arguments.json && !runs.is_empty() {
        print_json(runs);
    }
    conclude(arguments.out.as_deref(), runs)
}

/// Writes the report of the points measured before an interrupt or a time limit and prints its
/// path. In a job, only the first process has runs, and it reports for all.
///
/// # Errors
///
/// Fails if the report cannot be written.
pub fn conclude(out: Option<&Path>, runs: &[Loaded]) -> Result<Exit, Failure> {
    let points: usize = runs.iter().map(|run| run.points.len()).sum();
    match (points, out) {
        _ if runs.is_empty() && Job::from_environment().is_some_and(|job| job.rank > 0) => {}
        (0, None) => interrupt::tell("nothing was measured before that"),
        (0, Some(out)) => {
            let out = out.display();
            interrupt::tell(&format!(
                "nothing was measured before that; {out} has no points"
            ));
        }
        (points, None) => {
            let text = format!(
                "{points} points were measured before that; they are not kept without --out"
            );
            interrupt::tell(&text);
        }
        (points, Some(out)) => {
            let report = super::report::write(out, runs, &Computed::default())?;
            let report = report.display();
            interrupt::tell(&format!(
                "{points} points were measured before that; they are in {report}"
            ));
        }
    }
    Ok(interrupt::exit())
}

/// Returns whether a time limit ended a run.
fn is_stopped(run: &Loaded) -> bool {
    let end = run.end.as_ref();
    end.is_some_and(|end| end.outcome == "stopped")
}

/// Returns whether a run completed without anything to do.
fn nothing(run: &Loaded) -> bool {
    let complete = run
        .end
        .as_ref()
        .is_some_and(|end| end.outcome == "complete");
    complete && run.points.is_empty() && run.failures.is_empty()
}

/// Returns the exit code: the interrupt's after one, `NegativeResult` if a run or a whole launch
/// failed, a run has failures of supported points only, or no run has a point, otherwise success.
pub fn verdict(runs: &[Loaded]) -> Exit {
    let bad = |run: &Loaded| {
        let offered_nothing = run.points.is_empty() && run.failures.iter().any(|f| !f.unsupported);
        // A failure without parameters concerns a whole launch: a process died or hung.
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
        interrupt::exit()
    } else if runs.iter().any(is_stopped) {
        Exit::OutOfTime
    } else if runs.iter().any(bad) || measured_nothing(runs) {
        Exit::NegativeResult
    } else {
        Exit::Success
    }
}

/// Returns whether all points of all runs failed, if only for want of a feature or of nodes.
fn measured_nothing(runs: &[Loaded]) -> bool {
    let is_empty = |run: &Loaded| run.points.is_empty();
    runs.iter().all(is_empty) && runs.iter().any(|run| !run.failures.is_empty())
}

fn print_json(runs: &[Loaded]) {
    let all: Vec<Combined<'_>> = runs.iter().map(Combined::of).collect();
    json(&serde_json::json!({ "runs": all }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_fidelity_is_advised_for_many_processes_by_packets() {
        let target = |text: &str| vec![text.parse::<Target>().expect("a target")];
        let fan_in = named(&["patterns.fan-in".to_owned()]).expect("a benchmark");
        let packets = target("model:connectx6-hdr");
        let advice = faster(&packets, &fan_in, Some(256)).expect("many processes");
        assert!(advice.contains("model:connectx6-hdr:message"), "{advice}");
        assert_eq!(faster(&packets, &fan_in, Some(16)), None);
        assert_eq!(faster(&packets, &fan_in, None), None);
        let messages = target("model:connectx6-hdr:message");
        assert_eq!(faster(&messages, &fan_in, Some(256)), None);
        let latency = named(&["latency.write".to_owned()]).expect("a benchmark");
        assert_eq!(faster(&packets, &latency, Some(256)), None);
    }
}

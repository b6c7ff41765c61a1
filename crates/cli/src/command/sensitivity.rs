//! `verbena sensitivity --as SYSTEM -- CMD`: runs CMD on an emulated adapter at several values of
//! one parameter at a time, and prints how its time, or a figure that it prints, depends on each.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use regex::Regex;
use serde_json::{Value, json};
use verbena_bench::progress_line::Bar;
use verbena_bench::temporary::Directory;
use verbena_emulation::knob::{Knob, Parameter, Shown};
use verbena_emulation::lateness::{Verdict, Word};
use verbena_emulation::table::Table;
use verbena_emulation::tolerance::{Curve, Direction, Setting, Tolerance};
use verbena_measure::unit;
use verbena_report::chart::line::{LineChart, Series};
use verbena_report::chart::scale::Kind;
use verbena_report::html::{ChartSection, charts_page};
use verbena_run::faults::execution;
use verbena_run::faults::outcome::End;
use verbena_run::supervise::{self, SIGINT, SIGTERM};

use super::faults::{last_lines, write};
use crate::adapter_options::{self as options, Options};
use crate::emulation_options::{self, Emulating};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use crate::output::outln;
use crate::profiles::ProfileOptions;

/// Changes of the figure whose values are printed.
const SHARES: [f64; 2] = [0.01, 0.05];

/// Changes without options: of a time, of a rate.
const USUAL: [[&str; 2]; 2] = [["x2", "x4"], ["x0.5", "x0.25"]];

/// The arguments of `verbena sensitivity`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Emulate this modelled system
    ///
    /// A name that `verbena list` prints, such as connectx5-edr.
    #[arg(long = "as", value_name = "SYSTEM")]
    system: String,

    /// Change the posting time to each of these, e.g. +1us,+5us or x2,x4
    ///
    /// Without any of --overhead, --latency, --gap and --rate, all four are changed: times to two
    /// and four times, the rate to a half and a quarter. `verbena run --help` explains them.
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = |text: &str| Knob::read(Parameter::Overhead, text))]
    overhead: Vec<Knob>,

    /// Change the latency to each of these
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = |text: &str| Knob::read(Parameter::Latency, text))]
    latency: Vec<Knob>,

    /// Change the time between two messages to each of these
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = |text: &str| Knob::read(Parameter::Gap, text))]
    gap: Vec<Knob>,

    /// Change the rate to each of these, e.g. 10Gb/s,1Gb/s or x0.5,x0.25
    #[arg(long, value_name = "LIST", value_delimiter = ',',
        value_parser = |text: &str| Knob::read(Parameter::Rate, text))]
    rate: Vec<Knob>,

    /// Run each setting N times and take the median
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = number::between::<u32>(1..=1000))]
    repeat: u32,

    /// Use a number that the command prints instead of its time
    ///
    /// A regular expression; the number is its first group, or all of it, at the last match in the
    /// last 4096 bytes of the output. For example `--metric 'Bandwidth: ([0-9.]+)'`.
    #[arg(long, value_name = "REGEX")]
    metric: Option<Regex>,

    /// Stop after a run of so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600,
        value_parser = number::between::<u32>(1..=86_400))]
    timeout: u32,

    /// Write the figures to this file as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a page with charts to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    profiles: ProfileOptions,

    #[command(flatten)]
    options: Options,

    /// Command to run, with its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// A setting: the change that it has, the times, and the figures of its runs.
struct Run {
    knob: Option<Knob>,
    table: Table,
    setting: Setting,
    /// Share of operations that were off, of all its runs.
    worst: f64,
    verdict: Verdict,
}

/// Runs the command at each setting and prints the figures.
///
/// # Errors
/// Fails if the system cannot be emulated, a run fails, prints no figure or posts no request, or a
/// file cannot be written.
pub fn run(arguments: Arguments) -> Result<Exit, Failure> {
    let table = emulation_options::table(&arguments.system, &arguments.profiles)?;
    let mut runs = settings(&arguments, &table);
    for parameter in Parameter::ALL {
        is_on_one_side(parameter, &runs)?;
    }
    for path in [&arguments.json, &arguments.html].into_iter().flatten() {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        if parent.is_some_and(|parent| !parent.is_dir()) {
            let path = path.display();
            return Err(Failure::Input(format!(
                "{path} is in no directory that exists"
            )));
        }
    }
    let measured = measure(&arguments, &mut runs);
    // Complete rounds are kept if a run fails, or the user ends the command.
    if runs.iter().all(|run| !run.setting.figures.is_empty()) {
        report(&arguments, &runs)?;
    }
    measured
}

/// Runs the command at each setting; returns how this ended.
fn measure(arguments: &Arguments, runs: &mut [Run]) -> Result<Exit, Failure> {
    let directory = Directory::create()?;
    let stop = supervise::stop_at(&[SIGINT, SIGTERM])?;
    let rounds = arguments.repeat as usize;
    let bar = Bar::new(runs.len() * rounds, "runs");
    // Round by round, so that a disturbance does not fall on one setting alone.
    for round in 0..rounds {
        for (place, run) in runs.iter_mut().enumerate() {
            let scratch = directory.path().join(format!("{round}-{place}"));
            match one(arguments, run, &scratch, &stop)? {
                true => bar.step(),
                false => {
                    interrupt::tell(&format!(
                        "{round} of {rounds} runs of each value are complete"
                    ));
                    return Ok(interrupt::exit());
                }
            }
            let _ = fs::remove_dir_all(&scratch);
        }
    }
    Ok(Exit::Success)
}

/// Runs the command once, with its files in `scratch`. Returns false if the user has ended it.
fn one(
    arguments: &Arguments,
    run: &mut Run,
    scratch: &Path,
    stop: &AtomicBool,
) -> Result<bool, Failure> {
    fs::create_dir(scratch).map_err(Failure::system("write the table of times"))?;
    let emulating = Emulating::of(&run.table, scratch)?;
    let environment = emulating.environment(arguments.options.environment()?);
    let command = options::command("sensitivity", &arguments.command, &environment)?;
    let output = scratch.join("output");
    let time = Duration::from_secs(arguments.timeout.into());
    let start = Instant::now();
    let name = options::name(&arguments.command);
    let ended = execution::run(command, &output, time, stop)
        .map_err(|error| supervise::Failure::of_exec(name, error))?;
    let elapsed = start.elapsed().as_nanos() as f64;
    let Some((end, text)) = ended else {
        return Ok(false);
    };
    if end != End::Exit(0) {
        let end = match end {
            End::Hang => format!("it runs longer than --timeout {}", arguments.timeout),
            end => end.to_string(),
        };
        return Err(Failure::Input(format!(
            "the command fails with {}: {end}\n{}",
            label(run, arguments),
            last_lines(&text)
        )));
    }
    let lateness = emulating.lateness()?;
    if lateness.verdict() == Verdict::Nothing && lateness.count(Word::Packets) > 0 {
        return Err(Failure::Input(
            "the command's requests went to other hosts, for which the timing error is unknown; \
             run both sides on this host"
                .to_owned(),
        ));
    }
    if lateness.verdict() == Verdict::Nothing {
        return Err(Failure::Input(
            "the command posted no requests on the adapter, so nothing was emulated; MPI libraries \
             use shared memory or TCP by default (docs/emulation.md)"
                .to_owned(),
        ));
    }
    run.setting.figures.push(match &arguments.metric {
        None => elapsed,
        Some(metric) => figure(metric, &text)?,
    });
    if run.verdict == Verdict::Nothing || lateness.share_late() > run.worst {
        run.worst = lateness.share_late();
        run.verdict = lateness.verdict();
    }
    Ok(true)
}

/// Returns the settings, the one without a change first.
fn settings(arguments: &Arguments, table: &Table) -> Vec<Run> {
    let given = [
        &arguments.overhead,
        &arguments.latency,
        &arguments.gap,
        &arguments.rate,
    ];
    let mut knobs: Vec<Knob> = given.into_iter().flatten().copied().collect();
    if knobs.is_empty() {
        let usual = Parameter::ALL.into_iter().flat_map(|parameter| {
            let texts = USUAL[usize::from(parameter == Parameter::Rate)];
            texts.map(|text| Knob::read(parameter, text).expect("the usual changes are changes"))
        });
        knobs.extend(usual);
    }
    let unchanged = std::iter::once(None);
    let run = |knob: Option<Knob>| {
        let mut own = table.clone();
        let value = knob.map_or(0.0, |knob| knob.changed(table));
        if let Some(knob) = knob {
            knob.turn(&mut own);
        }
        Run {
            knob,
            table: own,
            setting: Setting {
                value,
                figures: Vec::new(),
            },
            worst: 0.0,
            verdict: Verdict::Nothing,
        }
    };
    unchanged
        .chain(knobs.into_iter().map(Some))
        .map(run)
        .collect()
}

/// Checks that no value of a parameter is below the unchanged one and another above it: a
/// tolerance lies between neighbours.
fn is_on_one_side(parameter: Parameter, runs: &[Run]) -> Result<(), Failure> {
    let own = runs
        .iter()
        .filter(|run| run.knob.is_some_and(|knob| knob.parameter() == parameter));
    let unchanged = Knob::value(parameter, &runs[0].table);
    let offsets: Vec<f64> = own.map(|run| run.setting.value - unchanged).collect();
    let is_below = |offset: &f64| *offset < 0.0;
    match offsets.iter().any(is_below) && !offsets.iter().all(is_below) {
        false => Ok(()),
        true => Err(Failure::Input(format!(
            "--{} has values below and above the unchanged one, {}: run the command once for each \
             side",
            parameter.name(),
            Shown(parameter, unchanged)
        ))),
    }
}

/// Returns the number that the command has printed.
fn figure(metric: &Regex, output: &str) -> Result<f64, Failure> {
    let failed = |why: &str| {
        Failure::Input(format!(
            "--metric {:?} {why} in the end of the command's output:\n{}",
            metric.as_str(),
            last_lines(output)
        ))
    };
    let last = metric.captures_iter(output).last();
    let last = last.ok_or_else(|| failed("does not match"))?;
    let text = last.get(1).or(last.get(0)).map_or("", |one| one.as_str());
    let number = text.trim().parse().ok().filter(|one: &f64| one.is_finite());
    number.ok_or_else(|| failed(&format!("matches {text:?}, which is no number,")))
}

fn label(run: &Run, arguments: &Arguments) -> String {
    match run.knob {
        None => format!("the times of {}", arguments.system),
        Some(knob) => format!(
            "{} {}",
            knob.parameter().name(),
            Shown(knob.parameter(), run.setting.value)
        ),
    }
}

/// Returns the curves of the parameters that were changed, in the order of their values from the
/// unchanged one.
fn curves(runs: &[Run]) -> Vec<(Curve, Vec<&Run>)> {
    let Some((unchanged, changed)) = runs.split_first() else {
        return Vec::new();
    };
    let curve = |parameter| {
        let value = Knob::value(parameter, &unchanged.table);
        let mut own: Vec<&Run> = changed
            .iter()
            .filter(|run| run.knob.is_some_and(|knob| knob.parameter() == parameter))
            .collect();
        let distance = |run: &&Run| (run.setting.value - value).abs();
        own.sort_by(|one, other| distance(one).total_cmp(&distance(other)));
        let curve = Curve {
            parameter,
            base: Setting {
                value,
                ..unchanged.setting.clone()
            },
            changed: own.iter().map(|run| run.setting.clone()).collect(),
        };
        (!own.is_empty()).then_some((curve, own))
    };
    Parameter::ALL.into_iter().filter_map(curve).collect()
}

fn report(arguments: &Arguments, runs: &[Run]) -> Result<(), Failure> {
    let words = arguments.command.iter().map(|word| word.to_string_lossy());
    let command = words.collect::<Vec<_>>().join(" ");
    let unit = match arguments.metric {
        None => "ns",
        Some(_) => "",
    };
    let subject = match &arguments.metric {
        None => "time of the command".to_owned(),
        Some(metric) => format!("the command's {:?}", metric.as_str()),
    };
    let lead = format!(
        "{subject} on an emulated {}; for each value the median of runs: {}",
        arguments.system, arguments.repeat
    );
    outln!("{lead}");
    let mut sections = Vec::new();
    for (curve, own) in curves(runs) {
        outln!("");
        let lines = lines(&curve, unit);
        let base = curve.base.median();
        outln!(
            "{:<24} {:>12} {:>9} {:>7} {:>7}",
            curve.parameter.name(),
            "median",
            "change",
            "spread",
            "off"
        );
        let first = std::iter::once((&curve.base, runs[0].worst));
        for (setting, worst) in first.chain(own.iter().map(|run| (&run.setting, run.worst))) {
            outln!(
                "{:<24} {:>12} {:>9} {:>7} {:>7}",
                Shown(curve.parameter, setting.value).to_string(),
                unit::display(setting.median(), unit),
                percent(setting.median() / base - 1.0),
                percent(setting.spread()),
                percent(worst)
            );
        }
        lines.iter().for_each(|line| outln!("{line}"));
        sections.push(ChartSection {
            chart: chart(&curve, &subject, unit),
            lines,
        });
    }
    let count = |verdict| runs.iter().filter(|run| run.verdict == verdict).count();
    let (off, wrong) = (count(Verdict::Disturbed), count(Verdict::Wrong));
    let all = runs.len();
    let mut verdict = match (off, wrong) {
        (0, 0) => "In all settings, the times of the emulation match the model.".to_owned(),
        (off, 0) => format!(
            "In {off} of {all} settings, more than 5 % of the operations were off: use a quieter \
             machine, or fewer processes."
        ),
        (_, wrong) => format!(
            "In {wrong} of {all} settings, more than half of the operations were off: this machine \
             cannot reproduce the model's times, so do not use these figures."
        ),
    };
    if runs[0].setting.figures.len() == 1 {
        verdict += " There is one run of the unchanged adapter, so that differences between equal \
                    runs are unknown; use --repeat.";
    }
    outln!("\n{verdict}");
    if let Some(path) = &arguments.html {
        let lead = format!("{lead}. {verdict}");
        write(
            path,
            &charts_page("Sensitivity", &command, &lead, &sections),
        )?;
    }
    if let Some(path) = &arguments.json {
        write(path, &format!("{:#}\n", object(arguments, &command, runs)))?;
    }
    Ok(())
}

fn percent(share: f64) -> String {
    match share.is_finite() {
        true => format!("{:.1}%", 100.0 * share),
        false => "-".to_owned(),
    }
}

/// Returns the slope and the tolerances in words.
fn lines(curve: &Curve, unit: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let slope = curve.slope().filter(|_| unit == "ns");
    let is_noise = matches!(curve.tolerance(SHARES[1]), Tolerance::Noise(_));
    if let Some(slope) = slope.filter(|slope| *slope > 0.0 && !is_noise) {
        lines.push(match curve.parameter {
            Parameter::Rate => format!(
                "The time grows as that of {} which follow each other.",
                unit::display(slope, "bytes")
            ),
            _ => format!(
                "The time grows by {} times the change: so many follow each other.",
                unit::number(slope.round())
            ),
        });
    }
    let parameter = curve.parameter;
    for share in SHARES {
        let percent = 100.0 * share;
        lines.push(match curve.tolerance(share) {
            Tolerance::At(value, direction) => {
                let direction = match direction {
                    Direction::Larger => "larger",
                    Direction::Smaller => "smaller",
                };
                format!(
                    "It is {percent} % {direction} at {}.",
                    Shown(parameter, value)
                )
            }
            Tolerance::Beyond(value) => format!(
                "It changes by less than {percent} % up to {}.",
                Shown(parameter, value)
            ),
            Tolerance::Noise(spread) => format!(
                "A change of {percent} % cannot be seen: equal runs differ by {:.1} %.",
                100.0 * spread
            ),
            Tolerance::NoBase => {
                format!("A change of {percent} % has no meaning: the figure is 0 without a change.")
            }
        });
    }
    lines
}

fn chart(curve: &Curve, subject: &str, y_unit: &str) -> LineChart {
    let (x_name, x_unit) = match curve.parameter {
        Parameter::Rate => ("rate", "Gb/s"),
        parameter => (parameter.name(), "ns"),
    };
    let all = || std::iter::once(&curve.base).chain(&curve.changed);
    let series = |label: &str, figure: &dyn Fn(&Setting) -> f64| {
        let mut points: Vec<_> = all().map(|one| (one.value, figure(one))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Series {
            label: label.to_owned(),
            points,
        }
    };
    LineChart {
        title: format!("{subject} against {x_name}"),
        x_name: x_name.to_owned(),
        x_unit: x_unit.to_owned(),
        x_kind: Kind::Linear,
        y_unit: y_unit.to_owned(),
        y_kind: Kind::Linear,
        series: vec![
            series("median", &Setting::median),
            series("least", &|one| one.range().0),
            series("largest", &|one| one.range().1),
        ],
        marks: Vec::new(),
        references: Vec::new(),
    }
}

/// Returns the figures as JSON: times in nanoseconds, rates in Gb/s.
fn object(arguments: &Arguments, command: &str, runs: &[Run]) -> Value {
    let curves = curves(runs).into_iter().map(|(curve, own)| {
        let tolerance = |share| match curve.tolerance(share) {
            Tolerance::At(value, _) => json!(value),
            Tolerance::Beyond(_) | Tolerance::Noise(_) | Tolerance::NoBase => Value::Null,
        };
        let first = (&curve.base, runs[0].worst);
        let all = std::iter::once(first).chain(own.iter().map(|run| (&run.setting, run.worst)));
        let settings: Vec<Value> = all
            .map(|(one, worst)| {
                json!({ "value": one.value, "figures": one.figures, "median": one.median(),
                    "off": worst })
            })
            .collect();
        json!({
            "parameter": curve.parameter.name(),
            "settings": settings,
            "slope": curve.slope(),
            "reaches 1 %": tolerance(SHARES[0]),
            "reaches 5 %": tolerance(SHARES[1]),
        })
    });
    json!({
        "version": 1,
        "command": command,
        "system": arguments.system,
        "metric": arguments.metric.as_ref().map(Regex::as_str),
        "unit": if arguments.metric.is_none() { "ns" } else { "" },
        "curves": curves.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_of_the_output_is_taken() {
        let metric = Regex::new("rate ([0-9.a-z]+)").unwrap();
        assert_eq!(figure(&metric, "rate 1.5\nrate 2.5 MB/s\n").unwrap(), 2.5);
        let whole = Regex::new("[0-9]+").unwrap();
        assert_eq!(figure(&whole, "7 and 8").unwrap(), 8.0);
        for (output, words) in [("none", "does not match"), ("rate fast", "no number")] {
            let error = figure(&metric, output).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}

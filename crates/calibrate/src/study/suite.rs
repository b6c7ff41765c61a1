//! Benchmarks of the suite in a study: maps its keys to the suite's options, and finds the one
//! point that they select.

use super::file::Source;
use super::point::{PointError, Setting, StudyFigure, largest};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;
use verbena_measure::result::{Point, Value};
use verbena_model::profile::{Error, System};
use verbena_reproduce::suite::{Asked, figure, run};
use verbena_workloads::{Mode, Options, Sweep, find};

/// Keys that are options of every benchmark, with their allowed words.
const WORDS: [(&str, &[&str]); 3] = [
    ("mode", &["free", "lockstep"]),
    ("steps", &["coarse", "fine"]),
    ("transport", &["rc", "uc", "ud", "xrc"]),
];

/// Returns the values of a key: an option of the suite, or a parameter of its points.
pub(super) fn settings(
    source: Source<'_>,
    key: &str,
    value: &Spanned<DeValue<'_>>,
) -> Result<Vec<Setting>, Error> {
    let is_word = match value.get_ref() {
        DeValue::Array(items) => items
            .first()
            .is_some_and(|item| matches!(item.get_ref(), DeValue::String(_))),
        other => matches!(other, DeValue::String(_)),
    };
    let known = WORDS.iter().find(|(word, _)| *word == key);
    if is_word || known.is_some() {
        let mut settings = Vec::new();
        for word in source.words_of(key, value)? {
            if let Some((_, choices)) = known
                && !choices.contains(&word.value.as_str())
            {
                let reason = format!("expected {}", choices.join(", "));
                return Err(source.fault(word.at, key, reason));
            }
            settings.push(Setting::Word(word.value));
        }
        return Ok(settings);
    }
    let least = match key {
        "size" | "pairs" | "processes" | "signal-every" => 1,
        _ => 0,
    };
    let counts = source.counts(key, value, least..=largest(key))?;
    Ok(counts.into_iter().map(Setting::Count).collect())
}

/// Returns the names of the parameters of a benchmark's points with these settings.
pub(super) fn parameters(
    benchmark: &'static str,
    system: &System,
    settings: &BTreeMap<String, Setting>,
) -> Result<Vec<String>, PointError> {
    let points = points(benchmark, system, settings)?;
    let first = points.first().map(|point| point.parameters.keys().cloned());
    Ok(first.map(Iterator::collect).unwrap_or_default())
}

/// Returns whether a key is an option of the suite rather than a parameter of its points.
pub(super) fn is_option(key: &str) -> bool {
    const COUNTS: [&str; 5] = ["size", "pairs", "processes", "inline", "signal-every"];
    COUNTS.contains(&key) || WORDS.iter().any(|(word, _)| *word == key)
}

/// Returns the figure of the one point that the settings select.
pub(super) fn compute(
    benchmark: &'static str,
    system: &System,
    settings: &BTreeMap<String, Setting>,
) -> Result<StudyFigure, PointError> {
    let fault = |reason: String| PointError::Benchmark(format!("{benchmark}: {reason}"));
    let found: Vec<Point> = points(benchmark, system, settings)?
        .into_iter()
        .filter(|point| means(settings, point))
        .collect();
    let Some((first, others)) = found.split_first() else {
        return Err(fault(format!("has no such point on {}", system.name)));
    };
    if !others.is_empty() {
        let differs = |name: &str| {
            let value = first.parameters.get(name);
            others
                .iter()
                .any(|other| other.parameters.get(name) != value)
        };
        let names = first.parameters.keys().map(String::as_str);
        let names: Vec<&str> = names.filter(|name| differs(name)).collect();
        let reason = format!(
            "{} points match; name one: {}",
            found.len(),
            names.join(", ")
        );
        return Err(fault(reason));
    }
    let (value, unit) = match first.metrics[0].unit.as_str() {
        "ns" => (figure(first), "us"),
        "bytes/s" => (figure(first), "MB/s"),
        unit => (first.metrics[0].value, unit),
    };
    Ok(StudyFigure {
        value,
        unit: unit.to_owned(),
    })
}

/// Returns whether the settings select a point. Options that are not among its parameters have
/// already had their effect.
fn means(settings: &BTreeMap<String, Setting>, point: &Point) -> bool {
    settings.iter().all(
        |(key, setting)| match (point.parameters.get(key), setting) {
            (None, _) => is_option(key),
            (Some(Value::Number(number)), Setting::Count(count)) => *number == *count as f64,
            (Some(Value::Word(word)), Setting::Word(wanted)) => word == wanted,
            _ => false,
        },
    )
}

fn points(
    benchmark: &'static str,
    system: &System,
    settings: &BTreeMap<String, Setting>,
) -> Result<Vec<Point>, PointError> {
    let benchmark = find(benchmark).expect("a study's benchmark is a driver or of the suite");
    let count = |key: &str| match settings.get(key) {
        Some(Setting::Count(count)) => Some(*count),
        _ => None,
    };
    let word = |key: &str| match settings.get(key) {
        Some(Setting::Word(word)) => Some(word.as_str()),
        _ => None,
    };
    let asked = Asked {
        options: Options {
            sizes: count("size").map(|bytes| vec![bytes as usize]),
            pairs: count("pairs").map(|pairs| vec![pairs as usize]),
            mode: word("mode").map(|mode| match mode {
                "free" => Mode::Free,
                _ => Mode::Lockstep,
            }),
            transports: word("transport").map(|word| vec![word.to_owned()]),
            inline: count("inline").map(|bytes| bytes as u32),
            signal_every: count("signal-every"),
            ..Options::default()
        },
        sweep: match word("steps") {
            Some("fine") => Sweep::Fine,
            _ => Sweep::Coarse,
        },
        processes: count("processes").map(|number| number as usize),
    };
    run(system, benchmark, asked)
        .map_err(|error| PointError::Benchmark(format!("{}: {error}", benchmark.name)))
}

//! Benchmarks of the suite in a study: maps its keys to the suite's options, and finds the one
//! point that they select.

use super::file::Source;
use super::point::{PointError, PointResult, Setting, StudyFigure, largest};
use std::collections::BTreeMap;
use toml::Spanned;
use toml::de::DeValue;
use verbena_measure::result::{Metric, Point, Value};
use verbena_model::adapter::Fidelity;
use verbena_model::profile::{Error, System};
use verbena_reproduce::suite::{Asked, figure, headline, run};
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
    system: (&System, Fidelity),
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

/// Returns the result of the one point that the settings select.
pub(super) fn compute(
    benchmark: &'static str,
    system: (&System, Fidelity),
    settings: &BTreeMap<String, Setting>,
) -> Result<PointResult, PointError> {
    let fault = |reason: String| PointError::Benchmark(format!("{benchmark}: {reason}"));
    let all = points(benchmark, system, settings)?;
    let found: Vec<&Point> = all.iter().filter(|point| means(settings, point)).collect();
    let Some((first, others)) = found.split_first() else {
        let reason = missing(settings, &all);
        return Err(fault(format!("no point on {} has {reason}", system.0.name)));
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
    let headline = headline(first);
    let others = first.metrics.iter().filter(|one| one.name != headline.name);
    let others = others.map(|one| figure_of(one, one.value));
    let value = match headline.unit.as_str() {
        "ns" => figure(first) * 1e3,
        "bytes/s" => figure(first) * 1e6,
        _ => headline.value,
    };
    let figures = std::iter::once(figure_of(headline, value)).chain(others);
    Ok(PointResult {
        figures: figures.collect(),
        hot_ports: first.hot_ports.clone(),
    })
}

/// Returns a metric as a study's figure: times in microseconds, rates in 10^6 bytes a second.
fn figure_of(metric: &Metric, value: f64) -> StudyFigure {
    let (value, unit) = match metric.unit.as_str() {
        "ns" => (value / 1e3, "us"),
        "bytes/s" => (value / 1e6, "MB/s"),
        unit => (value, unit),
    };
    StudyFigure {
        metric: metric.name.clone(),
        value,
        unit: unit.to_owned(),
    }
}

/// Returns which settings no point has, with the values that there are; if each is there, but not
/// together, all of them.
fn missing(settings: &BTreeMap<String, Setting>, points: &[Point]) -> String {
    let text = |(key, setting): (&String, &Setting)| format!("{key} = {setting}");
    let alone = |key: &String, setting: &Setting| {
        let one = BTreeMap::from([(key.clone(), setting.clone())]);
        points.iter().any(|point| means(&one, point))
    };
    let absent = settings
        .iter()
        .filter(|(key, setting)| !alone(key, setting));
    let absent = absent.map(|(key, setting)| {
        let mut known: Vec<String> = Vec::new();
        for value in points.iter().filter_map(|point| point.parameters.get(key)) {
            let value = value.to_string();
            if !known.contains(&value) {
                known.push(value);
            }
        }
        format!("{}; there are {}", text((key, setting)), known.join(", "))
    });
    let absent: Vec<String> = absent.collect();
    match absent.is_empty() {
        true => settings.iter().map(text).collect::<Vec<_>>().join(" and "),
        false => absent.join("; nor "),
    }
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
    (system, fidelity): (&System, Fidelity),
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
        fidelity,
        processes: count("processes").map(|number| number as usize),
    };
    run(system, benchmark, asked)
        .map_err(|error| PointError::Benchmark(format!("{}: {error}", benchmark.name)))
}

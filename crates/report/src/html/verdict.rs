//! The verdict: the most important facts of a report. Every sentence is computed from the records.

use crate::chart::escape;
use crate::gather::{Figure, Row, Voted, findings, rows};
use crate::older_records::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use crate::summary::measured_at::{MeasuredAt, is_of_host};
use crate::summary::{MeasuredBound, sentence};
use std::fmt::Write as _;
use verbena_measure::result::Finding;
use verbena_measure::unit;

/// A figure beyond this percentage of a bound contradicts the bound.
const DISPROVED: f64 = 105.0;

/// Findings with several instances, each with the beginning of the sentence that combines them.
const SUMMED_UP: &[(&str, &str)] = &[
    (
        "half-power-size",
        "Half of the peak bandwidth is reached at",
    ),
    ("memory-per-connection", "In host memory a connection costs"),
];

/// Returns the verdict of a run as a list.
pub fn verdict(run: &Loaded) -> String {
    let rows = rows(run);
    let mut out = String::from("<div class=\"verdict\"><ul>");
    let mut say = |text: String| {
        let _ = write!(out, "<li>{}</li>", escape(&text));
    };
    let benchmarks: std::collections::BTreeSet<&str> =
        rows.iter().map(|row| row.benchmark.as_str()).collect();
    let failed = run
        .failures
        .iter()
        .filter(|failure| !failure.unsupported && !failure.is_not_computed())
        .count();
    let left_out = run.failures.iter().filter(|one| one.is_not_computed());
    let left_out = left_out.count();
    let lacking = run.failures.len() - failed - left_out;
    let left_out = match left_out {
        0 => String::new(),
        number => format!(", {number} not computed"),
    };
    say(format!(
        "{} points of {} benchmarks measured, {failed} failed, {lacking} not offered by the \
         adapter{left_out}.",
        rows.len(),
        benchmarks.len()
    ));
    match run
        .end
        .as_ref()
        .map(|end| (end.outcome.as_str(), &end.reason))
    {
        None => say("The run was cut short; the results until then are shown.".to_owned()),
        Some(("complete", None)) => {}
        Some(("complete", Some(reason))) => say(format!("{reason}.")),
        Some((outcome, reason)) => {
            let reason = reason
                .as_deref()
                .unwrap_or("the results until then are shown");
            say(format!("The run was {outcome}: {reason}."));
        }
    }
    if let Some(busy) = sentence::busy(sentence::busy_points(&rows), rows.len()) {
        say(format!("{}.", capitalized(&busy)));
    }
    let kind = MeasuredAt::of(run);
    for (benchmark, words) in [
        ("latency.write", "A write is seen by its receiver after"),
        ("latency.read", "A read takes"),
        ("latency.send", "A message arrives after"),
    ] {
        if let Some(row) = smallest(&rows, benchmark) {
            let figure = &row.figures[0];
            let mut text = format!(
                "{words} {} ({}).",
                unit::display(figure.value, &figure.unit),
                row.label_without(&["receive-queue"])
            );
            if let Some(bound) = bound(figure, kind) {
                let _ = write!(text, " {}.", capitalized(&bound));
            }
            say(text);
        }
    }
    for benchmark in ["bandwidth.write", "bandwidth.read", "bandwidth.send"] {
        let mine = || rows.iter().filter(|row| row.benchmark == benchmark);
        let size = |row: &&Row| row.number("size").unwrap_or(0.0);
        if let Some(row) = mine().max_by(|a, b| size(a).total_cmp(&size(b))) {
            let figure = &row.figures[0];
            let mut text = format!(
                "{benchmark} reaches {} at {}",
                unit::rate(figure.value),
                row.label_without(&["transport", "ways"])
            );
            if let Some(bound) = bound(figure, kind) {
                let _ = write!(text, " ({bound})");
            }
            // From one buffer into another that no process reads, short messages never leave the
            // caches.
            let is_cached = figure.name == CACHED_BANDWIDTH;
            if is_cached {
                text += ", out of one buffer that stays in the caches";
            }
            let best = mine()
                .filter(|_| !is_cached)
                .filter_map(|row| {
                    let cached = row
                        .figures
                        .iter()
                        .find(|one| one.name == CACHED_BANDWIDTH)?;
                    Some((row, cached.value))
                })
                .max_by(|(_, a), (_, b)| a.total_cmp(b));
            if let Some((best, value)) = best {
                let _ = write!(
                    text,
                    "; out of one buffer that stays in the caches, {} at {}",
                    unit::rate(value),
                    best.label_without(&["transport", "ways"])
                );
            }
            say(format!("{text}."));
        }
    }
    let found = findings(run);
    for (name, words) in SUMMED_UP {
        let of_it = found.iter().filter(|voted| voted.finding.name == *name);
        let figures: Vec<String> = of_it.filter_map(figure).collect();
        if !figures.is_empty() {
            say(format!("{words} {}.", figures.join(", ")));
        }
    }
    // The peaks are listed above.
    let said = |voted: &Voted<'_>| {
        let Finding { name, value, .. } = voted.finding;
        let summed_up = SUMMED_UP.iter().any(|(summed, _)| name == summed);
        name.starts_with("peak") || summed_up && value.is_some()
    };
    for voted in found.iter().filter(|voted| !said(voted)) {
        say(sentence(voted));
    }
    out.push_str("</ul></div>");
    out
}

/// Describes a figure relative to its bound.
fn bound(figure: &Figure, kind: MeasuredAt) -> Option<String> {
    let bound = figure.bound.as_ref()?;
    let (value, reason) = bound;
    if kind == MeasuredAt::Host || is_of_host(reason) {
        let measured = MeasuredBound::of(figure.value, bound, figure.better, &figure.unit);
        return Some(measured.text);
    }
    let percent = figure.percent_of_bound()?;
    let bound = unit::display(*value, &figure.unit);
    let wrong = match percent > DISPROVED {
        true => "; the bound or the figure is wrong",
        false => "",
    };
    Some(format!(
        "{percent:.0} % of the bound, {bound}: {reason}{wrong}"
    ))
}

fn capitalized(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Returns the row of a benchmark with the smallest size; the best one if there are several.
fn smallest<'a>(rows: &'a [Row], benchmark: &str) -> Option<&'a Row> {
    rows.iter()
        .filter(|row| row.benchmark == benchmark)
        .min_by(|a, b| {
            let key = |row: &Row| (row.number("size").unwrap_or(f64::MAX), row.figures[0].value);
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
}

/// Returns a finding's figure with its range over launches and its parameters.
fn figure(voted: &Voted<'_>) -> Option<String> {
    let finding = voted.finding;
    let display = |value| unit::display(value, &finding.unit);
    let value = display(finding.value?);
    let spread = voted
        .range
        .map(|range| [range.low, range.high].map(display));
    let spread = match spread {
        Some([low, high]) if low != high => format!(" [{low} to {high}]"),
        _ => String::new(),
    };
    let name = finding.benchmark.as_str();
    Some(match words(finding) {
        words if words.is_empty() => format!("{value}{spread} ({name})"),
        words => format!("{value}{spread} ({name}, {words})"),
    })
}

/// Describes a finding with its votes. A majority of launches states it; a minority is only
/// mentioned.
fn sentence(voted: &Voted<'_>) -> String {
    let Voted {
        finding, by, of, ..
    } = voted;
    let with = match words(finding) {
        words if words.is_empty() => words,
        words => format!(" ({words})"),
    };
    let spread = voted.range.filter(|range| range.low < range.high);
    let spread = spread.map(|range| {
        let [low, high] = [range.low, range.high].map(|end| unit::display(end, &finding.unit));
        format!(", between {low} and {high} over launches")
    });
    let (name, text, spread) = (
        &finding.benchmark,
        &finding.text,
        spread.unwrap_or_default(),
    );
    match of - by {
        0 => format!("{name}{with}: {text}{spread}."),
        denied if voted.holds() => {
            format!("{name}{with}: {text}{spread} ({by} of {of} launches; {denied} contradict).")
        }
        denied => {
            format!("{name}{with}: {denied} of {of} launches contradict that {text}{spread}.")
        }
    }
}

fn words(finding: &Finding) -> String {
    let words: Vec<String> = finding
        .parameters
        .values()
        .map(ToString::to_string)
        .collect();
    words.join(", ")
}

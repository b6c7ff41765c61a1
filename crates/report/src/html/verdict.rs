//! The verdict: what a reader should know if nothing else is read. Every sentence is computed from the records.

use crate::chart::escape;
use crate::gather::{Row, findings, rows};
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use verbena_measure::unit;

/// The verdict of a run as a list.
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
        .filter(|failure| !failure.unsupported)
        .count();
    let lacking = run.failures.len() - failed;
    say(format!(
        "{} points of {} benchmarks measured, {failed} failed, {lacking} not offered by the adapter.",
        rows.len(),
        benchmarks.len()
    ));
    match run
        .end
        .as_ref()
        .map(|end| (end.outcome.as_str(), &end.reason))
    {
        None => say("The run was cut short; what it had measured is shown.".to_owned()),
        Some(("complete", None)) => {}
        Some(("complete", Some(reason))) => say(format!("{reason}.")),
        Some((outcome, reason)) => {
            let reason = reason.as_deref().unwrap_or("what it had measured is shown");
            say(format!("The run was {outcome}: {reason}."));
        }
    }
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
                row.label_without(&[])
            );
            if let Some((bound, reason)) = &figure.bound {
                let _ = write!(text, " The floor is {}: {reason}.", unit::time(*bound));
            }
            say(text);
        }
    }
    for benchmark in ["bandwidth.write", "bandwidth.read", "bandwidth.send"] {
        let best = rows
            .iter()
            .filter(|row| row.benchmark == benchmark)
            .max_by(|a, b| a.figures[0].value.total_cmp(&b.figures[0].value));
        if let Some(row) = best {
            let figure = &row.figures[0];
            let mut text = format!(
                "{benchmark} reaches {} at {}",
                unit::rate(figure.value),
                row.label_without(&["transport", "ways"])
            );
            match (figure.percent_of_bound(), &figure.bound) {
                (Some(percent), Some((_, reason))) => {
                    let _ = write!(text, ", {percent:.0} % of the bound: {reason}.");
                }
                _ => text.push('.'),
            }
            say(text);
        }
    }
    for finding in findings(run) {
        if !finding.name.starts_with("peak") {
            let with = finding
                .parameters
                .values()
                .map(ToString::to_string)
                .collect::<Vec<_>>();
            let with = if with.is_empty() {
                String::new()
            } else {
                format!(" ({})", with.join(", "))
            };
            say(format!("{}{with}: {}.", finding.benchmark, finding.text));
        }
    }
    out.push_str("</ul></div>");
    out
}

/// The row of a benchmark with the smallest size, the best of them where several have it.
fn smallest<'a>(rows: &'a [Row], benchmark: &str) -> Option<&'a Row> {
    rows.iter()
        .filter(|row| row.benchmark == benchmark)
        .min_by(|a, b| {
            let key = |row: &Row| (row.number("size").unwrap_or(f64::MAX), row.figures[0].value);
            let (a, b) = (key(a), key(b));
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        })
}

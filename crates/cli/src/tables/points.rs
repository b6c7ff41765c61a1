//! Prints the points of a run as a table: one point per line, or one figure per line on narrow
//! terminals.

use std::collections::BTreeSet;

use crate::output::outln;
use crate::style::{Style, styled};
use crate::terminal;
use verbena_bench::model_target::{ANCHORS, BETWEEN};
use verbena_measure::unit;
use verbena_report::gather::{Figure, Row, rows};
use verbena_report::run_directory::Loaded;

/// Width of the parameters column.
const LABEL: usize = 44;
/// Terminal width from which figures are printed beside the parameters.
const WIDE: usize = 118;

pub fn print(run: &Loaded) {
    let is_wide = terminal::columns().is_none_or(|columns| columns >= WIDE);
    print_anchors(run);
    let mut last = String::new();
    let rows = rows(run);
    for row in &rows {
        if row.benchmark != last {
            let heading = format!("{} on {}", row.benchmark, run.run.label);
            outln!("{}", styled(Style::Bold, &heading));
            last.clone_from(&row.benchmark);
        }
        print_row(row, is_wide);
    }
    print_origins(run, &rows);
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
        let style = match failure.unsupported {
            true => Style::Faint,
            false => Style::Bad,
        };
        let reason = styled(style, &failure.reason);
        outln!("{}{point}: {reason}", failure.benchmark);
    }
}

/// Prints where the intervals of a model's figures come from, and which figures have none.
fn print_origins(run: &Loaded, rows: &[Row]) {
    if run.run.fabric != "model" {
        return;
    }
    let figures = || rows.iter().flat_map(|row| &row.figures);
    let predicted = figures().filter_map(|figure| figure.predicted.as_ref());
    let origins: BTreeSet<(String, &str)> = predicted
        .map(|one| (format!("{:.0} %", 100.0 * one.level), one.origin.as_str()))
        .collect();
    for (level, origin) in &origins {
        outln!("{level} interval {origin}");
    }
    let without = rows
        .iter()
        .filter(|row| row.figures.iter().all(|figure| figure.predicted.is_none()));
    let without: BTreeSet<&str> = without.map(|row| row.benchmark.as_str()).collect();
    if !without.is_empty() {
        let names: Vec<&str> = without.into_iter().collect();
        outln!(
            "no interval of {}: no published curve is of this kind",
            names.join(", ")
        );
    }
}

/// Prints the anchors of a run on an anchored model.
pub fn print_anchors(run: &Loaded) {
    if let Some(anchors) = run.run.environment.get(ANCHORS) {
        for remark in anchors.split(BETWEEN) {
            outln!("{}: {remark}", run.run.label);
        }
    }
}

fn print_row(row: &Row, is_wide: bool) {
    let label = row.label_without(&[]);
    let figures: Vec<String> = row.figures.iter().map(words).collect();
    let warning = styled(Style::Doubt, "warning:");
    if is_wide {
        outln!("  {label:<LABEL$} {}", figures.join("; "));
        for text in &row.warnings {
            outln!("  {:<LABEL$} {warning} {text}", "");
        }
        return;
    }
    outln!("  {label}");
    for figure in figures {
        outln!("      {figure}");
    }
    for text in &row.warnings {
        outln!("      {warning} {text}");
    }
}

/// Formats a figure with its interval, tail and share of its bound.
fn words(figure: &Figure) -> String {
    let shown = |value| unit::display(value, &figure.unit);
    let mut text = format!("{} {}", figure.name, shown(figure.value));
    if let Some(interval) = figure.interval.filter(|_| figure.launches.len() > 1) {
        text += &format!(" [{} to {}]", shown(interval.low), shown(interval.high));
    }
    if let Some(p99) = figure.summary.as_ref().and_then(|summary| summary.p99) {
        text += &format!(" (p99 {})", shown(p99));
    }
    if let Some(percent) = figure.percent_of_bound() {
        text += &format!(" {percent:.0} % of bound");
    }
    if let Some(one) = &figure.predicted {
        let level = 100.0 * one.level;
        text += &format!(" ({level:.0} %: {} to {})", shown(one.low), shown(one.high));
    }
    text
}

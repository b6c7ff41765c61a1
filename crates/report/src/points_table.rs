//! The points of a run as a text table: one point per line, or one figure per line on narrow
//! terminals.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::gather::{Figure, Row, rows};
use crate::older_records::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use verbena_measure::result::Failure;
use verbena_measure::unit;
use verbena_terminal::style::{Style, styled};

/// Name of a model's anchors in a run's environment.
pub const ANCHORS: &str = "anchors";
/// Number of a modelled system's nodes, over which ranks are distributed, in a run's environment.
pub const NODES: &str = "modelled nodes";
/// Separates the remarks there.
pub const BETWEEN: &str = " | ";
/// Terminal width in columns from which figures are beside the parameters.
pub const WIDE: usize = 118;
/// Width of the parameters column.
const LABEL: usize = 44;

/// Returns the table, with findings and failures.
pub fn text(run: &Loaded, is_wide: bool) -> String {
    let mut out = anchors(run);
    let mut last = String::new();
    let rows = rows(run);
    for row in &rows {
        if row.benchmark != last {
            let placement = placement(run, row);
            let heading = format!("{} on {}{placement}", row.benchmark, run.run.label);
            let _ = writeln!(out, "{}", styled(Style::Bold, &heading));
            last.clone_from(&row.benchmark);
        }
        out += &points(row, is_wide);
    }
    out += &origins(run, &rows);
    let has_cached = |row: &Row| row.figures.iter().any(|one| one.name == CACHED_BANDWIDTH);
    if rows.iter().any(has_cached) {
        let _ = writeln!(
            out,
            "bandwidth: over buffers in turn, larger than the caches; {CACHED_BANDWIDTH}: over one \
             buffer that stays in them"
        );
    }
    for finding in &run.findings {
        let _ = writeln!(out, "{}: {}", finding.benchmark, finding.text);
    }
    let left_out = left_out(run);
    let shown = |failure: &&Failure| !failure.is_not_computed();
    for failure in run.failures.iter().filter(shown).chain(left_out.shown) {
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
        let _ = writeln!(out, "{}{point}: {reason}", failure.benchmark);
    }
    out + &left_out.others
}

/// Points of a benchmark that are named if they were not computed.
const NAMED: usize = 40;

/// Points that were not computed, because the run stopped.
struct LeftOut<'a> {
    shown: Vec<&'a Failure>,
    /// The numbers of others, a line for each benchmark.
    others: String,
}

fn left_out(run: &Loaded) -> LeftOut<'_> {
    let all = run.failures.iter().filter(|one| one.is_not_computed());
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let shown = all.filter(|one| {
        let number = numbers.entry(&one.benchmark).or_default();
        *number += 1;
        *number <= NAMED
    });
    let shown = shown.collect();
    let mut others = String::new();
    for (benchmark, number) in numbers {
        if number > NAMED {
            let more = number - NAMED;
            let _ = writeln!(others, "{benchmark}: {more} more points not computed");
        }
    }
    LeftOut { shown, others }
}

/// Returns how the ranks of a message-passing benchmark of many are distributed over a modelled
/// system's nodes: in turn.
fn placement(run: &Loaded, row: &Row) -> String {
    let nodes = run.run.environment.get(NODES);
    let nodes = nodes.and_then(|nodes| nodes.parse::<u64>().ok());
    let ranks = row.number("processes").map(|ranks| ranks as u64);
    let (Some(nodes), Some(ranks), true) = (nodes, ranks, row.benchmark.starts_with("mpi.")) else {
        return String::new();
    };
    let used = nodes.clamp(1, ranks.max(1));
    let each = match (ranks / used, ranks % used) {
        (each, 0) => each.to_string(),
        (each, _) => format!("{each} or {}", each + 1),
    };
    format!(": {ranks} ranks on {used} nodes, {each} a node")
}

/// Returns the sources of the intervals of a model's figures, and the benchmarks without any.
fn origins(run: &Loaded, rows: &[Row]) -> String {
    let mut out = String::new();
    if run.run.fabric != "model" {
        return out;
    }
    let figures = || rows.iter().flat_map(|row| &row.figures);
    let predicted = figures().filter_map(|figure| figure.predicted.as_ref());
    let origins: BTreeSet<(String, &str)> = predicted
        .map(|one| (format!("{:.0} %", 100.0 * one.level), one.origin.as_str()))
        .collect();
    for (level, origin) in &origins {
        let _ = writeln!(out, "{level} interval {origin}");
    }
    let without = rows
        .iter()
        .filter(|row| row.figures.iter().all(|figure| figure.predicted.is_none()));
    let is_share = |row: &&Row| {
        let mut figures = row.figures.iter();
        figures.all(|figure| figure.name == "median-process-bandwidth")
    };
    let (shares, others): (Vec<&Row>, Vec<&Row>) = without.partition(is_share);
    for (rows, reason) in [
        (
            shares,
            "only the share of a process is known, which depends on the switches",
        ),
        (others, "no published curve is of this kind"),
    ] {
        let names: BTreeSet<&str> = rows.iter().map(|row| row.benchmark.as_str()).collect();
        if !names.is_empty() {
            let names: Vec<&str> = names.into_iter().collect();
            let _ = writeln!(out, "no interval of {}: {reason}", names.join(", "));
        }
    }
    out
}

/// Returns the anchors of a run on an anchored model, one per line.
pub fn anchors(run: &Loaded) -> String {
    let anchors = run.run.environment.get(ANCHORS);
    let remarks = anchors.into_iter().flat_map(|all| all.split(BETWEEN));
    let lines = remarks.map(|remark| format!("{}: {remark}\n", run.run.label));
    lines.collect()
}

/// Returns the lines of a point.
fn points(row: &Row, is_wide: bool) -> String {
    let label = row.label_without(&[]);
    let figures: Vec<String> = row.figures.iter().map(words).collect();
    let warning = styled(Style::Doubt, "warning:");
    let mut out = String::new();
    let (figures, indent) = match is_wide {
        true => {
            let _ = writeln!(out, "  {label:<LABEL$} {}", figures.join("; "));
            (Vec::new(), LABEL + 3)
        }
        false => {
            let _ = writeln!(out, "  {label}");
            (figures, 6)
        }
    };
    for figure in figures {
        let _ = writeln!(out, "{:indent$}{figure}", "");
    }
    for port in &row.hot_ports {
        let _ = writeln!(out, "{:indent$}hot port: {port}", "");
    }
    for text in &row.warnings {
        let _ = writeln!(out, "{:indent$}{warning} {text}", "");
    }
    out
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

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Metric, Point};

    #[test]
    fn the_placement_of_ranks_is_in_the_heading() {
        let heading = |benchmark: &str, ranks: f64, nodes: &str| {
            let mut run = Loaded::default();
            run.run.label = "x (model)".to_owned();
            run.run
                .environment
                .insert(NODES.to_owned(), nodes.to_owned());
            run.points.push(Point {
                benchmark: benchmark.to_owned(),
                parameters: [("processes".to_owned(), ranks.into())].into(),
                metrics: vec![Metric::figure("average-time", "ns", Better::Lower, 1.0)],
                ..Point::default()
            });
            let text = text(&run, true);
            let heading = text.lines().next().unwrap_or_default();
            heading.replace(verbena_terminal::style::is_mark, "")
        };
        let name = "mpi.alltoall-latency";
        assert!(heading(name, 16.0, "2").ends_with("(model): 16 ranks on 2 nodes, 8 a node"));
        assert!(heading(name, 4.0, "256").ends_with("4 ranks on 4 nodes, 1 a node"));
        assert!(heading(name, 5.0, "2").ends_with("5 ranks on 2 nodes, 2 or 3 a node"));
        assert!(heading("patterns.fan-in", 5.0, "2").ends_with("(model)"));
    }
}

//! A benchmark in the report: its question, a panel for each kind of curve, and below them all of
//! its figures.

use super::curves::{Curves, common, distribution, marks};
use super::figures::copyable;
use super::input::Described;
use super::shown::Shown;
use crate::chart::panel::group;
use crate::chart::{escape, matrix};
use crate::gather::{Figure, Row, label_of};
use std::mem::Discriminant;
use verbena_measure::result::{HotPort, Parameters};
use verbena_measure::stats::interval::Interval;
use verbena_measure::unit;
use verbena_measure::warning::Warning;

/// Returns the section of a benchmark over all runs; empty if no run has points of it.
pub fn section(described: &Described, runs: &[Shown<'_>]) -> String {
    let name = described.name.as_str();
    if !runs.iter().any(|shown| shown.of(name).next().is_some()) {
        return String::new();
    }
    let mut drawn = String::new();
    match name {
        "patterns.all-pairs" => {
            for shown in runs {
                drawn.push_str(&heat_map(name, shown));
            }
        }
        _ => drawn = drawings(described, runs),
    }
    // Two benchmarks with one drawing each share a row.
    let class = match drawn.matches("<figure").count() {
        0 | 1 => " one",
        _ => "",
    };
    let mut out = format!(
        "<section class=\"benchmark{class}\"><div class=\"about\"><h3 id=\"{0}\">{0}</h3>\
         <p class=\"asked\">{1} <span class=\"note\">({2})</span></p></div>{drawn}",
        escape(name),
        escape(&described.answers),
        escape(&described.source)
    );
    let common = common(name, runs, |_| true);
    out.push_str(&table(name, &common, runs));
    out.push_str("</section>");
    out
}

/// Returns the curves of a benchmark, then its distribution. With a single point, the distribution
/// alone is drawn.
fn drawings(described: &Described, runs: &[Shown<'_>]) -> String {
    let name = described.name.as_str();
    // The papers draw both: one curve per number of pairs by size, and one curve per size by number
    // of pairs.
    let axes = match described.axis.as_str() {
        "pairs" => vec!["size", "pairs"],
        axis => vec![axis],
    };
    let found = marks(name, runs);
    let distribution = distribution(name, runs);
    let mut all = Vec::new();
    for axis in axes {
        let curves = Curves::of(name, axis, runs, |_| true);
        // Points without the axis parameter (an import without sizes) are in the table only.
        let drawn = curves.are_curves() || distribution.is_none() && !curves.all.is_empty();
        if drawn {
            // A mark has a position on the benchmark's own axis.
            let marks = if axis == described.axis {
                &found[..]
            } else {
                &[]
            };
            let title = format!("{name} by {axis}");
            all.push(curves.multiples(&title, runs, marks));
        }
    }
    all.extend(distribution);
    match all.is_empty() {
        true => String::new(),
        false => group(&all),
    }
}

fn heat_map(name: &str, shown: &Shown<'_>) -> String {
    let cells: Vec<(usize, usize, f64)> = shown
        .of(name)
        .filter_map(|row| {
            let (from, to) = (row.number("from")?, row.number("to")?);
            Some((from as usize, to as usize, row.figures[0].value))
        })
        .collect();
    let label = &shown.run.run.label;
    match cells.is_empty() {
        true => format!("<p class=\"note\">{}: not measured.</p>", escape(label)),
        false => matrix::svg(&format!("latency between processes, {label}"), &cells, "ns"),
    }
}

/// The columns of a metric in the table, as HTML and as text.
const COLUMNS: &str = "<th class=\"text\">run</th><th class=\"text\">parameters</th><th \
                       class=\"text\">metric</th><th>median</th>\
     <th>over launches</th><th>min</th><th>p90</th><th>p99</th><th>p99.9</th><th>max</th><th>n</th>\
     <th>launches</th>\
     <th>% of bound</th><th class=\"text\">notes</th>";

const TEXT_COLUMNS: &str = "run\tparameters\tmetric\tunit\tmedian\tlow\thigh\tmin\tp90\tp99\tp9\
                            9.9\tmax\tn\tlaunches\tbound";

fn table(name: &str, common: &Parameters, runs: &[Shown<'_>]) -> String {
    let shared = match label_of(common) {
        words if words.is_empty() => words,
        words => format!(" ({})", escape(&words)),
    };
    let mut out = format!(
        "<details class=\"figures\"><summary>all figures{shared}</summary><div \
         class=\"wide\"><table class=\"records\"><thead><tr>\
         {COLUMNS}</tr></thead><tbody>"
    );
    let mut text = vec![TEXT_COLUMNS.to_owned()];
    let (mut notes, mut hot) = (Notes::default(), String::new());
    let hidden: Vec<&str> = common.keys().map(String::as_str).collect();
    for shown in runs {
        let label = shown.run.run.label.as_str();
        for row in shown.of(name) {
            let words = row.label_without(&hidden);
            hot += &hot_ports(label, &words, &row.hot_ports);
            for figure in &row.figures {
                let notes = notes.of(row);
                out.push_str(&cells(label, &words, figure, &notes));
                text.push(line(label, &words, figure));
            }
        }
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&notes.explained());
    out.push_str(&hot);
    out.push_str(&copyable(&text));
    out.push_str("</details>");
    out
}

fn cells(run: &str, words: &str, figure: &Figure, notes: &str) -> String {
    let summary = figure.summary.as_ref();
    let cell = |value: Option<f64>| {
        value.map_or("-".to_owned(), |v| escape(&unit::display(v, &figure.unit)))
    };
    let percent = figure.percent_of_bound();
    format!(
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td \
         class=\"text\">{}</td><td>{}</td><td>{}</td><td>{}</td>\
         <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td \
         class=\"text\">{notes}</td></tr>",
        escape(run),
        escape(words),
        escape(&figure.name),
        cell(Some(figure.value)),
        interval(figure),
        cell(summary.map(|s| s.min)),
        cell(summary.and_then(|s| s.p90)),
        cell(summary.and_then(|s| s.p99)),
        cell(summary.and_then(|s| s.p999)),
        cell(summary.map(|s| s.max)),
        summary.map_or("-".to_owned(), |s| s.n.to_string()),
        figure.launches.len(),
        percent.map_or("-".to_owned(), |p| format!("{p:.0}"))
    )
}

/// Returns the row for a spreadsheet: numbers as in the records.
fn line(run: &str, words: &str, figure: &Figure) -> String {
    let summary = figure.summary.as_ref();
    let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
    let fields = [
        run.to_owned(),
        words.to_owned(),
        figure.name.clone(),
        figure.unit.clone(),
        figure.value.to_string(),
        number(figure.interval.map(|i| i.low)),
        number(figure.interval.map(|i| i.high)),
        number(summary.map(|s| s.min)),
        number(summary.and_then(|s| s.p90)),
        number(summary.and_then(|s| s.p99)),
        number(summary.and_then(|s| s.p999)),
        number(summary.map(|s| s.max)),
        summary.map_or(String::new(), |s| s.n.to_string()),
        figure.launches.len().to_string(),
        number(figure.bound.as_ref().map(|(bound, _)| *bound)),
    ];
    fields.join("\t")
}

fn interval(figure: &Figure) -> String {
    let display = |value| escape(&unit::display(value, &figure.unit));
    if let Some(one) = &figure.predicted {
        return format!(
            "<span title=\"{}\">{} to {} ({:.0} % of machines)</span>",
            escape(&one.origin),
            display(one.low),
            display(one.high),
            100.0 * one.level
        );
    }
    let interval = figure.interval.as_ref();
    interval.map_or("-".to_owned(), |Interval { low, high }| {
        format!("{} to {}", display(*low), display(*high))
    })
}

/// Returns the hottest ports of a modelled fabric at a point as a paragraph.
fn hot_ports(run: &str, words: &str, ports: &[HotPort]) -> String {
    if ports.is_empty() {
        return String::new();
    }
    let ports: Vec<String> = ports.iter().map(HotPort::to_string).collect();
    let text = format!("Hot ports, {run}, {words}: {}.", ports.join("; "));
    format!("<p class=\"note\">{}</p>", escape(&text))
}

/// The notes of a table: a few words in the row, and each kind once in full below.
#[derive(Default)]
struct Notes {
    kinds: Vec<Discriminant<Warning>>,
    full: Vec<String>,
}

impl Notes {
    fn of(&mut self, row: &Row) -> String {
        let mut words = Vec::new();
        for warning in &row.warnings {
            let (brief, full) = (warning.brief(), warning.to_string());
            words.push(format!(
                "<span title=\"{}\">{}</span>",
                escape(&full),
                escape(&brief)
            ));
            let kind = std::mem::discriminant(warning);
            if !self.kinds.contains(&kind) {
                self.kinds.push(kind);
                self.full.push(format!("{brief}: {full}"));
            }
        }
        if !row.validated {
            words.push("data not checked".to_owned());
        }
        words.join(", ")
    }

    /// Returns the full text of each kind of note.
    fn explained(&self) -> String {
        match self.full.is_empty() {
            true => String::new(),
            false => format!("<p class=\"note\">{}.</p>", escape(&self.full.join(". "))),
        }
    }
}

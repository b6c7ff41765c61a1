//! A benchmark in the report: its question, its chart, and under it the table of its figures.

use super::Described;
use crate::chart::line::{LineChart, Mark, Series};
use crate::chart::scale::Kind;
use crate::chart::{escape, matrix};
use crate::gather::{Figure, Row, Voted, findings, label_of};
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use std::mem::Discriminant;
use verbena_measure::result::{Parameters, Value};
use verbena_measure::unit;
use verbena_measure::warning::Warning;

/// Lines beyond which a legend can no longer be read; the table has the rest.
const MOST_SERIES: usize = 12;

/// A run with its rows.
pub struct Shown<'a> {
    pub run: &'a Loaded,
    pub rows: Vec<Row>,
}

impl<'a> Shown<'a> {
    /// The same without these parameters.
    fn without(&self, parameters: &Parameters) -> Shown<'a> {
        let mut rows = self.rows.clone();
        for row in &mut rows {
            row.parameters
                .retain(|name, _| !parameters.contains_key(name));
        }
        let run = self.run;
        Shown { run, rows }
    }
}

/// Words, such as the transport, that all rows of a benchmark share: said once, they need not stand in every label. Numbers
/// may be an axis and stay.
fn common(described: &Described, runs: &[Shown<'_>]) -> Parameters {
    let rows = runs.iter().flat_map(|shown| &shown.rows);
    let mut rows = rows.filter(|row| row.benchmark == described.name);
    let first = rows.next().map(|row| row.parameters.clone());
    let mut common = first.unwrap_or_default();
    common.retain(|_, value| matches!(value, Value::Word(_)));
    for row in rows {
        common.retain(|name, value| row.parameters.get(name) == Some(value));
    }
    common
}

/// The section of a benchmark, over all runs; empty when none has points of it.
pub fn section(described: &Described, runs: &[Shown<'_>]) -> String {
    let any = runs
        .iter()
        .any(|shown| shown.rows.iter().any(|row| row.benchmark == described.name));
    if !any {
        return String::new();
    }
    let common = common(described, runs);
    let runs: Vec<Shown<'_>> = runs.iter().map(|shown| shown.without(&common)).collect();
    let runs = &runs[..];
    let mut out = format!(
        "<h3 id=\"{0}\">{0}</h3><p class=\"answers\">{1} <span class=\"note\">({2})</span></p>",
        escape(&described.name),
        escape(&described.answers),
        escape(&described.source)
    );
    if described.name == "patterns.all-pairs" {
        for shown in runs {
            out.push_str(&heat_map(described, shown));
        }
    } else {
        for chart in charts(described, runs) {
            out.push_str(&chart.svg());
        }
    }
    out.push_str(&table(described, &common, runs));
    out
}

/// The curves of a benchmark, then its distribution. Where there is but one point, the distribution says more.
fn charts(described: &Described, runs: &[Shown<'_>]) -> Vec<LineChart> {
    let mut charts = match described.axis.as_str() {
        // The papers draw both: a curve a number of pairs by size, and a curve a size by the number of pairs.
        "pairs" => vec![
            line_chart(described, "size", runs, |_| true),
            line_chart(described, "pairs", runs, some_sizes),
        ],
        axis => vec![line_chart(described, axis, runs, |_| true)],
    };
    if let Some(distribution) = distribution(described, runs) {
        charts.retain(|chart| chart.series.iter().any(|series| series.points.len() > 1));
        charts.push(distribution);
    }
    // Points without the parameter of the axis (an import that does not tell the size) are in the table only.
    charts.retain(|chart| chart.series.iter().any(|series| !series.points.is_empty()));
    charts
}

/// A byte, a packet's worth, and where bandwidth counts: more curves than that hide each other.
fn some_sizes(row: &Row) -> bool {
    row.number("size")
        .is_none_or(|size| [1.0, 8.0, 256.0, 4096.0, 65_536.0].contains(&size))
}

fn heat_map(described: &Described, shown: &Shown<'_>) -> String {
    let rows = shown
        .rows
        .iter()
        .filter(|row| row.benchmark == described.name);
    let cells: Vec<(usize, usize, f64)> = rows
        .filter_map(|row| {
            let (from, to) = (row.number("from")?, row.number("to")?);
            Some((from as usize, to as usize, row.figures[0].value))
        })
        .collect();
    let title = format!("latency between processes, {}", shown.run.run.label);
    matrix::svg(&title, &cells, "ns")
}

fn label(row: &Row, axis: &str, run: &str, several: bool) -> String {
    let own = row.label_without(&[axis, "size-class", "rows", "columns"]);
    // Sizes that only repeat the axis in other words say nothing.
    match (several, own.is_empty()) {
        (true, true) => run.to_owned(),
        (true, false) => format!("{run}: {own}"),
        (false, true) => "measured".to_owned(),
        (false, false) => own,
    }
}

fn line_chart(
    described: &Described,
    axis: &str,
    runs: &[Shown<'_>],
    shows: fn(&Row) -> bool,
) -> LineChart {
    let mut series: Vec<Series> = Vec::new();
    let mut bound = Vec::new();
    let mut marks = Vec::new();
    let mut unit_name = String::new();
    for shown in runs {
        for row in shown
            .rows
            .iter()
            .filter(|row| row.benchmark == described.name && shows(row))
        {
            let (Some(x), Some(figure)) = (row.number(axis), row.figures.first()) else {
                continue;
            };
            if unit_name.is_empty() {
                unit_name.clone_from(&figure.unit);
            }
            // One axis has one unit; figures of another are in the table.
            if figure.unit != unit_name {
                continue;
            }
            let hidden: &[&str] = if axis == "tiles" || axis == "queue-pairs" {
                &["size", "used"]
            } else {
                &[]
            };
            let mut trimmed = row.clone();
            trimmed.parameters.retain(|name, _| {
                !(hidden.contains(&name.as_str()) && !(name == "size" && axis == "queue-pairs"))
            });
            let name = label(&trimmed, axis, &shown.run.run.label, runs.len() > 1);
            let at = series.iter().position(|series| series.label == name);
            let at = at.unwrap_or_else(|| {
                series.push(Series {
                    label: name,
                    ..Series::default()
                });
                series.len() - 1
            });
            series[at].points.push((x, figure.value));
            // Where too few samples support the percentile there is no band, rather than one of another meaning.
            if let Some(summary) = figure.summary.as_ref().filter(|_| figure.unit == "ns")
                && let Some(p99) = summary.p99
            {
                series[at].band.push((x, summary.min, p99));
            }
            if let Some((value, _)) = &figure.bound
                && !bound.contains(&(x, *value))
            {
                bound.push((x, *value));
            }
        }
        let voted = findings(shown.run).into_iter().filter(Voted::holds);
        let found = voted.map(|voted| voted.finding);
        for finding in found.filter(|finding| finding.benchmark == described.name) {
            let text = match finding.name.as_str() {
                "half-power-size" => "N½",
                "context-knee" | "translation-knee" => "knee",
                _ => continue,
            };
            if let Some(x) = finding.value {
                marks.push(Mark {
                    x,
                    label: text.to_owned(),
                });
            }
        }
    }
    series.truncate(MOST_SERIES);
    for one in &mut series {
        one.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        one.band.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    // Many bands hide each other.
    if series.len() > 3 {
        series.iter_mut().for_each(|series| series.band.clear());
    }
    bound.sort_by(|a, b| a.0.total_cmp(&b.0));
    let linear = matches!(axis, "reuse-percent" | "connections");
    LineChart {
        title: format!("{} by {axis}", described.name),
        x_name: axis.to_owned(),
        x_unit: if axis == "size" {
            "bytes".to_owned()
        } else {
            String::new()
        },
        x_kind: if linear || axis == "load-percent" {
            Kind::Linear
        } else {
            Kind::Log
        },
        y_unit: unit_name,
        y_kind: if linear { Kind::Linear } else { Kind::Log },
        series,
        bound,
        marks,
        references: Vec::new(),
    }
}

/// A row's distribution as (time, per cent that take longer).
fn complement(row: &Row) -> Option<Vec<(f64, f64)>> {
    let summary = row.figures.first()?.summary.as_ref()?;
    let last = summary
        .quantiles
        .len()
        .checked_sub(1)
        .filter(|last| *last > 0)?;
    let body = summary.quantiles[..last].iter().enumerate();
    let body = body.map(|(i, value)| (*value, (1.0 - i as f64 / last as f64) * 100.0));
    let mut points: Vec<(f64, f64)> = body.collect();
    let least = points.last().map_or(100.0, |point| point.1);
    // Few samples support no percentile so far out, but the largest of them is known.
    let largest = (summary.max, 100.0 / summary.n as f64);
    let percentiles = [
        summary.p99.map(|p99| (p99, 1.0)),
        summary.p999.map(|p999| (p999, 0.1)),
    ];
    let tail = percentiles.into_iter().chain([Some(largest)]).flatten();
    points.extend(tail.filter(|point| point.1 < least));
    Some(points)
}

/// The complement of the distribution at the smallest size: the share of operations that took longer.
fn distribution(described: &Described, runs: &[Shown<'_>]) -> Option<LineChart> {
    let single = described.name == "baseline.cache-line";
    if described.axis != "size" || !(single || described.name.starts_with("latency.")) {
        return None;
    }
    let mut series = Vec::new();
    for shown in runs {
        let rows = shown
            .rows
            .iter()
            .filter(|row| row.benchmark == described.name);
        let smallest = rows.min_by(|a, b| {
            let size = |row: &Row| row.number("size").unwrap_or(f64::MAX);
            size(a).total_cmp(&size(b))
        });
        let Some((row, points)) = smallest.and_then(|row| Some((row, complement(row)?))) else {
            continue;
        };
        series.push(Series {
            label: label(row, "", &shown.run.run.label, runs.len() > 1),
            points,
            band: Vec::new(),
        });
    }
    if series.is_empty() {
        return None;
    }
    Some(LineChart {
        title: format!("{}: share of operations that take longer", described.name),
        x_name: "time; the curve is the share of operations that take longer".to_owned(),
        x_unit: "ns".to_owned(),
        x_kind: Kind::Log,
        y_unit: "%".to_owned(),
        y_kind: Kind::Log,
        series,
        bound: Vec::new(),
        marks: Vec::new(),
        references: Vec::new(),
    })
}

fn table(described: &Described, common: &Parameters, runs: &[Shown<'_>]) -> String {
    let shared = match label_of(common) {
        words if words.is_empty() => words,
        words => format!(" ({})", escape(&words)),
    };
    let mut out = format!(
        "<details open><summary>figures{shared}</summary><div class=\"wide\"><table><thead><tr><th>run</th>\
         <th class=\"text\">parameters</th><th class=\"text\">metric</th><th>median</th><th>min</th><th>p90</th>\
         <th>p99</th><th>p99.9</th><th>max</th><th>n</th><th>launches</th><th>% of bound</th><th class=\"text\">notes</th></tr></thead><tbody>",
    );
    let mut notes = Notes::default();
    for shown in runs {
        for row in shown
            .rows
            .iter()
            .filter(|row| row.benchmark == described.name)
        {
            for figure in &row.figures {
                let summary = figure.summary.as_ref();
                let cell = |value: Option<f64>| {
                    value.map_or("-".to_owned(), |v| escape(&unit::display(v, &figure.unit)))
                };
                let notes = notes.of(row);
                let percent = figure.percent_of_bound();
                let _ = write!(
                    out,
                    "<tr><td>{}</td><td class=\"text term\">{}</td><td class=\"text term\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                     <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
                    escape(&shown.run.run.label),
                    escape(&row.label_without(&[])),
                    escape(&figure.name),
                    cell(Some(figure.value)),
                    cell(summary.map(|s| s.min)),
                    cell(summary.and_then(|s| s.p90)),
                    cell(summary.and_then(|s| s.p99)),
                    cell(summary.and_then(|s| s.p999)),
                    cell(summary.map(|s| s.max)),
                    summary.map_or("-".to_owned(), |s| s.n.to_string()),
                    launches(row, figure),
                    percent.map_or("-".to_owned(), |p| format!("{p:.0}")),
                    notes
                );
            }
        }
    }
    out.push_str("</tbody></table></div>");
    out.push_str(&notes.explained());
    out.push_str("</details>");
    out
}

/// How many launches count, and of how many where others do not.
fn launches(row: &Row, figure: &Figure) -> String {
    let counted = figure.launches.len();
    match row.left_out {
        0 => counted.to_string(),
        out => format!("{counted} of {}", counted + out),
    }
}

/// The notes of a table: a few words in the row, and each kind once in full below.
#[derive(Default)]
struct Notes {
    kinds: Vec<Discriminant<Warning>>,
    full: Vec<String>,
}

impl Notes {
    /// Those of a row, as HTML.
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

    /// What the words mean.
    fn explained(&self) -> String {
        match self.full.is_empty() {
            true => String::new(),
            false => format!("<p class=\"note\">{}.</p>", escape(&self.full.join(". "))),
        }
    }
}

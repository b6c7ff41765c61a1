//! A benchmark in the report: its question, its chart, and under it the table of its figures.

use super::Described;
use crate::chart::line::{Bound, COLOURS, LineChart, Mark, Series};
use crate::chart::scale::Kind;
use crate::chart::{escape, matrix};
use crate::gather::{Figure, Row, Voted, findings, label_of};
use crate::run_directory::Loaded;
use std::fmt::Write as _;
use std::mem::Discriminant;
use verbena_measure::result::{Finding, Parameters, Value};
use verbena_measure::stats::interval::Interval;
use verbena_measure::unit;
use verbena_measure::warning::Warning;

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
        "pairs" => [
            line_charts(described, "size", runs, |_| true),
            line_charts(described, "pairs", runs, some_sizes),
        ]
        .concat(),
        axis => line_charts(described, axis, runs, |_| true),
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

/// What a curve is of, but for its run: the parameters that are not its axis.
fn label(row: &Row, hidden: &[&str]) -> String {
    // Sizes that only repeat the axis in other words say nothing.
    let always = ["size-class", "rows", "columns"];
    row.label_without(&[hidden, &always].concat())
}

/// What a curve is called, with its run where there are several.
fn named(own: &str, run: &str, several: bool) -> String {
    match (several, own.is_empty()) {
        (true, true) => run.to_owned(),
        (true, false) => format!("{run}: {own}"),
        (false, true) => "measured".to_owned(),
        (false, false) => own.to_owned(),
    }
}

/// A curve before it is put on a chart.
struct Curve {
    /// Which run's.
    run: usize,
    /// What it is of.
    own: String,
    series: Series,
    bound: Vec<(f64, f64)>,
}

/// The curves of a benchmark over an axis. There are as many charts as it takes for every curve to have a colour of its own, and
/// all runs' curves of one kind are on the same one.
fn line_charts(
    described: &Described,
    axis: &str,
    runs: &[Shown<'_>],
    shows: fn(&Row) -> bool,
) -> Vec<LineChart> {
    let mut unit_name = String::new();
    let mut curves: Vec<Curve> = Vec::new();
    for (at, shown) in runs.iter().enumerate() {
        let mine = |row: &&Row| row.benchmark == described.name && shows(row);
        for row in shown.rows.iter().filter(mine) {
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
            let hidden: &[&str] = match axis {
                "tiles" => &["tiles", "size", "used"],
                "queue-pairs" => &["queue-pairs", "used"],
                axis => &[axis],
            };
            let own = label(row, hidden);
            let known = curves.iter().position(|c| c.run == at && c.own == own);
            let curve = known.unwrap_or_else(|| {
                curves.push(Curve {
                    run: at,
                    series: Series {
                        label: named(&own, &shown.run.run.label, runs.len() > 1),
                        ..Series::default()
                    },
                    own,
                    bound: Vec::new(),
                });
                curves.len() - 1
            });
            let curve = &mut curves[curve];
            curve.series.points.push((x, figure.value));
            // Where too few samples support the percentile there is no band, rather than one of another meaning.
            if let Some(summary) = figure.summary.as_ref().filter(|_| figure.unit == "ns")
                && let Some(p99) = summary.p99
            {
                curve.series.band.push((x, summary.min, p99));
            }
            curve
                .bound
                .extend(figure.bound.iter().map(|(value, _)| (x, *value)));
        }
    }
    for curve in &mut curves {
        curve.series.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve.series.band.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve.bound.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    let linear = matches!(axis, "reuse-percent" | "connections");
    let chart = |title: String, curves: &[&Curve]| LineChart {
        title,
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
        y_unit: unit_name.clone(),
        y_kind: if linear { Kind::Linear } else { Kind::Log },
        series: series_of(curves),
        bounds: bounds_of(curves, runs),
        marks: marks(described, runs),
        references: Vec::new(),
    };
    let panels = panels(&curves);
    let several = panels.len() > 1;
    let panels = panels.iter().enumerate();
    let title = format!("{} by {axis}", described.name);
    panels
        .map(|(at, panel)| match several {
            true => chart(format!("{title}, {}", at + 1), panel),
            false => chart(title.clone(), panel),
        })
        .collect()
}

/// Curves in groups of no more than there are colours; curves of the same kind stay together.
fn panels(curves: &[Curve]) -> Vec<Vec<&Curve>> {
    let mut kinds: Vec<(&str, Vec<&Curve>)> = Vec::new();
    for curve in curves {
        match kinds.iter_mut().find(|(own, _)| *own == curve.own) {
            Some((_, same)) => same.push(curve),
            None => kinds.push((&curve.own, vec![curve])),
        }
    }
    let mut panels: Vec<Vec<&Curve>> = Vec::new();
    for (_, same) in kinds {
        // More runs than colours are more than one chart, too.
        for some in same.chunks(COLOURS) {
            match panels.last_mut() {
                Some(last) if last.len() + some.len() <= COLOURS => last.extend(some),
                _ => panels.push(some.to_vec()),
            }
        }
    }
    panels
}

fn series_of(curves: &[&Curve]) -> Vec<Series> {
    // Many bands hide each other.
    let bands = curves.len() <= 3;
    let series = curves.iter().map(|curve| Series {
        band: curve
            .series
            .band
            .iter()
            .filter(|_| bands)
            .copied()
            .collect(),
        ..curve.series.clone()
    });
    series.collect()
}

/// The bounds of the curves, each different one once, named by its run where runs differ.
fn bounds_of(curves: &[&Curve], runs: &[Shown<'_>]) -> Vec<Bound> {
    let mut bounds: Vec<Bound> = Vec::new();
    for curve in curves.iter().filter(|curve| !curve.bound.is_empty()) {
        let mut points = curve.bound.clone();
        points.dedup();
        let label = runs[curve.run].run.run.label.clone();
        match bounds.iter_mut().find(|bound| bound.points == points) {
            Some(known) if known.label != label => known.label.clear(),
            Some(_) => {}
            None => bounds.push(Bound { label, points }),
        }
    }
    bounds
}

/// What the runs found of a benchmark that has a place on its axis.
fn marks(described: &Described, runs: &[Shown<'_>]) -> Vec<Mark> {
    let voted = runs.iter().flat_map(|shown| findings(shown.run));
    let found = voted.filter(Voted::holds).map(|voted| voted.finding);
    let mine = found.filter(|finding| finding.benchmark == described.name);
    let mark = |finding: &Finding| {
        let label = match finding.name.as_str() {
            "half-power-size" => "N½",
            "context-knee" | "translation-knee" => "knee",
            _ => return None,
        };
        Some(Mark {
            x: finding.value?,
            label: label.to_owned(),
        })
    };
    mine.filter_map(mark).collect()
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
    if described.axis != "size" || !described.name.starts_with("latency.") {
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
            label: named(&label(row, &[]), &shown.run.run.label, runs.len() > 1),
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
        bounds: Vec::new(),
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
         <th class=\"text\">parameters</th><th class=\"text\">metric</th><th>median</th><th>over launches</th><th>min</th><th>p90</th>\
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
                     <td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"text\">{}</td></tr>",
                    escape(&shown.run.run.label),
                    escape(&row.label_without(&[])),
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

/// Between which values the median lies.
fn interval(figure: &Figure) -> String {
    let display = |value| escape(&unit::display(value, &figure.unit));
    let interval = figure.interval.as_ref();
    interval.map_or("-".to_owned(), |Interval { low, high }| {
        format!("{} to {}", display(*low), display(*high))
    })
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

//! Rows as curves: which figures are drawn over which axis, with a panel per kind that shows the
//! curves of all runs. Figures without a position on an axis are in the table, so none is lost.

use super::shown::Shown;
use crate::chart::panel::{Axis, Line, Mark, Multiples, Panel};
use crate::chart::scale::Kind;
use crate::gather::{Row, Voted, findings};
use crate::older_records::CACHED_BANDWIDTH;
use verbena_measure::result::{Parameters, Value};
use verbena_measure::unit;

/// The curves of one run and one kind.
#[derive(Debug, Clone)]
pub struct Curve {
    /// Index of its run.
    pub run: usize,
    /// Description without its run and its axis.
    pub kind: String,
    /// (x, y), in order.
    pub points: Vec<(f64, f64)>,
    /// (x, smallest, 99th percentile).
    pub band: Vec<(f64, f64, f64)>,
    /// (x, bound).
    pub bound: Vec<(f64, f64)>,
}

/// Curves over one axis, of one unit.
#[derive(Debug, Clone, Default)]
pub struct Curves {
    /// The parameter on the axis.
    pub axis: String,
    /// Unit of y as in files.
    pub unit: String,
    /// The curves.
    pub all: Vec<Curve>,
}

/// Parameters that only repeat the axis in other words.
const ALWAYS_HIDDEN: [&str; 3] = ["size-class", "rows", "columns"];

impl Curves {
    /// Collects the headline figures of a benchmark's wanted rows.
    pub fn of(
        benchmark: &str,
        axis: &str,
        runs: &[Shown<'_>],
        wanted: impl Fn(&Row) -> bool,
    ) -> Curves {
        let mut curves = Curves {
            axis: axis.to_owned(),
            ..Curves::default()
        };
        let common = common(benchmark, runs, &wanted);
        let hidden: Vec<&str> = hidden(axis)
            .iter()
            .copied()
            .chain(ALWAYS_HIDDEN)
            .chain(common.keys().map(String::as_str))
            .collect();
        for (run, shown) in runs.iter().enumerate() {
            let mine = |row: &&Row| row.benchmark == benchmark && wanted(row);
            for row in shown.rows.iter().filter(mine) {
                curves.take(run, row, &hidden);
            }
        }
        for curve in &mut curves.all {
            curve.points.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve.band.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve.bound.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        curves
    }

    fn take(&mut self, run: usize, row: &Row, hidden: &[&str]) {
        let (Some(x), Some(figure)) = (row.number(&self.axis), row.figures.first()) else {
            return;
        };
        if self.unit.is_empty() {
            self.unit.clone_from(&figure.unit);
        }
        // An axis has one unit; figures with another unit are in the table.
        if figure.unit != self.unit {
            return;
        }
        let mut kind = row.label_without(hidden);
        if figure.name == CACHED_BANDWIDTH {
            let parted = if kind.is_empty() { "" } else { ", " };
            kind = format!("{kind}{parted}one cached buffer");
        }
        let known = self.all.iter().position(|c| c.run == run && c.kind == kind);
        let at = known.unwrap_or_else(|| {
            self.all.push(Curve {
                run,
                kind,
                points: Vec::new(),
                band: Vec::new(),
                bound: Vec::new(),
            });
            self.all.len() - 1
        });
        let curve = &mut self.all[at];
        curve.points.push((x, figure.value));
        // If too few samples support the percentile, there is no band, rather than one with another
        // meaning.
        let summary = figure.summary.as_ref().filter(|_| figure.unit == "ns");
        if let Some((summary, p99)) = summary.and_then(|s| Some((s, s.p99?))) {
            curve.band.push((x, summary.min, p99));
        }
        let bound = figure.bound.iter().map(|(value, _)| (x, *value));
        curve.bound.extend(bound);
    }

    /// Returns the curves as multiples of a base figure.
    pub fn relative_to(mut self, base: Base) -> Curves {
        let firsts: Vec<(usize, Option<f64>)> = self
            .all
            .iter()
            .map(|curve| (curve.run, curve.points.first().map(|point| point.1)))
            .collect();
        for curve in &mut self.all {
            let base = match base {
                Base::Least => curve.points.first().map(|point| point.1),
                Base::Greatest => curve.points.last().map(|point| point.1),
                Base::Run => firsts
                    .iter()
                    .find(|first| first.0 == curve.run)
                    .and_then(|first| first.1),
            };
            let Some(base) = base else {
                continue;
            };
            curve.points.iter_mut().for_each(|p| p.1 /= base);
            // The band and the bound have no meaning relative to the base.
            curve.band.clear();
            curve.bound.clear();
        }
        self.unit = "×".to_owned();
        self
    }

    /// Returns the curves with a name in front of their kinds, to combine several benchmarks in one
    /// figure.
    pub fn named(mut self, name: &str) -> Curves {
        for curve in &mut self.all {
            curve.kind = match curve.kind.is_empty() {
                true => name.to_owned(),
                false => format!("{name}, {}", curve.kind),
            };
        }
        self
    }

    /// Returns the curves with a word of their kinds replaced.
    pub fn saying(mut self, word: &str, instead: &str) -> Curves {
        for curve in &mut self.all {
            curve.kind = curve.kind.replace(word, instead);
        }
        self
    }

    /// Returns these and other curves of the same axis and unit.
    pub fn and(mut self, others: Curves) -> Curves {
        match self.all.is_empty() {
            true => others,
            false => {
                self.all.extend(others.all);
                self
            }
        }
    }

    /// Returns the kinds in order of first appearance.
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<&str> = Vec::new();
        for curve in &self.all {
            if !kinds.contains(&curve.kind.as_str()) {
                kinds.push(&curve.kind);
            }
        }
        kinds
    }

    /// Returns whether any curve has more than one point.
    pub fn are_curves(&self) -> bool {
        self.all.iter().any(|curve| curve.points.len() > 1)
    }

    /// Returns the unit of x as in files.
    pub fn x_unit(&self) -> &'static str {
        match self.axis.as_str() {
            "size" => "bytes",
            "time" => "ns",
            "reuse-percent" | "load-percent" => "%",
            _ => "",
        }
    }

    /// Returns the drawing: a panel per kind, a line per run. Marks belong to the first kind,
    /// because the others are controls.
    pub fn multiples(&self, title: &str, runs: &[Shown<'_>], marks: &[Mark]) -> Multiples {
        let even = matches!(
            self.axis.as_str(),
            "reuse-percent" | "connections" | "load-percent"
        );
        let panel = |(at, kind): (usize, &str)| Panel {
            title: match kind {
                "" => title.to_owned(),
                kind => kind.to_owned(),
            },
            lines: self
                .all
                .iter()
                .filter(|curve| curve.kind == kind)
                .map(|curve| line(curve, runs))
                .collect(),
            marks: if at == 0 { marks.to_vec() } else { Vec::new() },
        };
        Multiples {
            title: title.to_owned(),
            x: Axis {
                name: axis_name(&self.axis).to_owned(),
                unit: self.x_unit().to_owned(),
                kind: if even { Kind::Linear } else { Kind::Log },
            },
            y: Axis {
                name: String::new(),
                unit: self.unit.clone(),
                kind: if even { Kind::Linear } else { Kind::Log },
            },
            panels: self.kinds().into_iter().enumerate().map(panel).collect(),
        }
    }
}

/// Base of relative curves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// Their own figure at the smallest x.
    Least,
    /// Their own figure at the largest x.
    Greatest,
    /// The first figure of their run: a control is compared with the curve that it controls.
    Run,
}

fn line(curve: &Curve, runs: &[Shown<'_>]) -> Line {
    let label = &runs[curve.run].run.run.label;
    Line {
        colour: curve.run,
        // The legend names models; a single run needs no name.
        name: match runs.len() {
            1 => String::new(),
            _ => label.trim_end_matches(" (model)").to_owned(),
        },
        title: match curve.kind.is_empty() {
            true => label.clone(),
            false => format!("{label}: {}", curve.kind),
        },
        points: curve.points.clone(),
        band: curve.band.clone(),
        bound: curve.bound.clone(),
    }
}

/// Returns the parameters that the axis determines.
fn hidden(axis: &str) -> &[&str] {
    match axis {
        "tiles" => &["tiles", "size", "used"],
        "queue-pairs" => &["queue-pairs", "used"],
        "size" => &["size"],
        "pairs" => &["pairs"],
        "window" => &["window"],
        "list" => &["list"],
        "pages" => &["pages"],
        "regions" => &["regions"],
        "connections" => &["connections"],
        "reuse-percent" => &["reuse-percent"],
        "load-percent" => &["load-percent"],
        "readers" => &["readers"],
        _ => &[],
    }
}

fn axis_name(axis: &str) -> &str {
    match axis {
        "size" => "message size",
        "pairs" => "pairs",
        "queue-pairs" => "queue pairs",
        "reuse-percent" => "buffers used again",
        "load-percent" => "load",
        other => other,
    }
}

/// Returns words, such as the transport, that all rows of a benchmark share: stated once, they are
/// not needed in every label. Numbers may be an axis and are kept.
pub fn common(benchmark: &str, runs: &[Shown<'_>], wanted: impl Fn(&Row) -> bool) -> Parameters {
    let rows = runs.iter().flat_map(|shown| &shown.rows);
    let mut rows = rows.filter(|row| row.benchmark == benchmark && wanted(row));
    let first = rows.next().map(|row| row.parameters.clone());
    let mut common = first.unwrap_or_default();
    common.retain(|_, value| matches!(value, Value::Word(_)));
    for row in rows {
        common.retain(|name, value| row.parameters.get(name) == Some(value));
    }
    common
}

/// Returns the runs' findings on a benchmark that have a position on its axis.
pub fn marks(benchmark: &str, runs: &[Shown<'_>]) -> Vec<Mark> {
    let of_run = |(colour, shown): (usize, &Shown<'_>)| -> Vec<Mark> {
        let voted = findings(shown.run);
        let found = voted
            .iter()
            .filter(|v| v.holds() && v.finding.benchmark == benchmark);
        let mark = |voted: &Voted<'_>| {
            let name = match voted.finding.name.as_str() {
                "half-power-size" => "half of the peak",
                "context-knee" | "translation-knee" => "knee",
                _ => return None,
            };
            Some(Mark {
                colour,
                x: voted.finding.value?,
                label: format!("{} of {}", name, shown.run.run.label),
            })
        };
        found.filter_map(mark).collect()
    };
    runs.iter().enumerate().flat_map(of_run).collect()
}

/// Returns a row's distribution as (time, per cent of operations that take longer).
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
    // Few samples support no percentile so far out, but the largest sample is known.
    let largest = (summary.max, 100.0 / summary.n as f64);
    let percentiles = [
        summary.p99.map(|p99| (p99, 1.0)),
        summary.p999.map(|p999| (p999, 0.1)),
    ];
    let tail = percentiles.into_iter().chain([Some(largest)]).flatten();
    points.extend(tail.filter(|point| point.1 < least));
    Some(points)
}

/// Returns the complementary distributions at the smallest size: the share of operations that took
/// longer.
pub fn distribution(benchmark: &str, runs: &[Shown<'_>]) -> Option<Multiples> {
    if !benchmark.starts_with("latency.") {
        return None;
    }
    let mut curves = Curves {
        axis: "time".to_owned(),
        unit: "%".to_owned(),
        all: Vec::new(),
    };
    let mut kinds: Vec<String> = Vec::new();
    for (run, shown) in runs.iter().enumerate() {
        let rows = shown.rows.iter().filter(|row| row.benchmark == benchmark);
        let size = |row: &Row| row.number("size").unwrap_or(f64::MAX);
        let Some(row) = rows.min_by(|a, b| size(a).total_cmp(&size(b))) else {
            continue;
        };
        // Operations that all took the same time, such as a model's, are no distribution.
        let points = complement(row).filter(|points| points.windows(2).any(|p| p[0].0 < p[1].0));
        let Some(points) = points else {
            continue;
        };
        kinds.push(unit::size(size(row)));
        curves.all.push(Curve {
            run,
            kind: String::new(),
            points,
            band: Vec::new(),
            bound: Vec::new(),
        });
    }
    kinds.dedup();
    let operation = benchmark.trim_start_matches("latency.");
    let sizes = kinds.join(" and ");
    let title = format!("{operation} of {sizes}: share that takes longer");
    (!curves.all.is_empty()).then(|| curves.multiples(&title, runs, &[]))
}

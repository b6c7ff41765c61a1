//! The lines of an export, one figure each.

use super::Exported;
use crate::expectation::Check;
use crate::gather::{Figure, Row, rows};
use crate::headline::{Subject, headlines};
use serde::Serialize;
use verbena_measure::compare::Better;
use verbena_measure::result::Parameters;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Entry<'a> {
    /// `headline` of the summary's figures, `figure` of all others.
    pub record: &'static str,
    /// The run's label.
    pub run: &'a str,
    /// The subject, `latency`, or the benchmark.
    pub name: String,
    /// Description of a headline's measurement.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub of: String,
    /// The parameters of the point.
    pub parameters: Parameters,
    /// The name of the metric.
    pub metric: String,
    /// The unit: ns, bytes/s, 1/s, bytes or ×.
    pub unit: String,
    /// Whether more or less is better.
    pub better: Better,
    /// The median over launches.
    pub value: f64,
    /// Lower end of its interval over launches.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// The figure of each launch.
    pub launches: Vec<f64>,
    /// 99th percentile of the operations.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// The bound.
    pub bound: Option<f64>,
    /// Reason for the bound.
    pub bound_reason: Option<String>,
    /// `strong`, `fair`, `weak` or `unsure`, of a headline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub word: Option<&'static str>,
    /// The check of a headline figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<&'a Check>,
    /// Warnings about the figure.
    pub warnings: Vec<String>,
}

/// Returns the word for a subject in data.
pub(super) fn word(subject: Subject) -> &'static str {
    match subject {
        Subject::Latency => "latency",
        Subject::Bandwidth => "bandwidth",
        Subject::Rate => "message-rate",
        Subject::Scaling => "many-pairs",
        Subject::Memory => "memory",
    }
}

/// Returns the summary's figures, then all others.
pub(super) fn entries<'a>(exported: &'a Exported<'_>) -> Vec<Entry<'a>> {
    let rows = rows(exported.run);
    let mut all = of_summary(exported, &rows);
    for row in &rows {
        let figures = row.figures.iter();
        all.extend(figures.map(|figure| of_row(&exported.run.run.label, row, figure)));
    }
    all
}

fn of_summary<'a>(exported: &'a Exported<'_>, rows: &[Row]) -> Vec<Entry<'a>> {
    let summary = &exported.summary;
    let found = headlines(exported.run, rows).into_iter();
    let entry = |headline: crate::headline::Headline| {
        let subject = headline.subject;
        let tile = summary.tiles.iter().find(|tile| tile.subject == subject);
        let (bound, bound_reason) = headline.bound.unzip();
        let size = headline.size.map(|size| ("size".to_owned(), size.into()));
        Entry {
            record: "headline",
            run: &exported.run.run.label,
            name: word(subject).to_owned(),
            of: headline.of,
            parameters: size.into_iter().collect(),
            metric: headline.metric,
            unit: subject.unit().to_owned(),
            better: subject.better(),
            value: headline.value,
            low: headline.interval.map(|interval| interval.low),
            high: headline.interval.map(|interval| interval.high),
            launches: headline.launches,
            p99: headline.tail[0],
            p999: headline.tail[1],
            bound,
            bound_reason,
            word: tile.map(|tile| tile.word().text()),
            expected: exported.checks.and_then(|checks| checks.of(subject)),
            warnings: headline.warnings.iter().map(ToString::to_string).collect(),
        }
    };
    found.map(entry).collect()
}

fn of_row<'a>(run: &'a str, row: &Row, figure: &Figure) -> Entry<'a> {
    let summary = figure.summary.as_ref();
    let (bound, bound_reason) = figure.bound.clone().unzip();
    Entry {
        record: "figure",
        run,
        name: row.benchmark.clone(),
        of: String::new(),
        parameters: row.parameters.clone(),
        metric: figure.name.clone(),
        unit: figure.unit.clone(),
        better: figure.better,
        value: figure.value,
        low: figure.interval.map(|interval| interval.low),
        high: figure.interval.map(|interval| interval.high),
        launches: figure.launches.clone(),
        p99: summary.and_then(|summary| summary.p99),
        p999: summary.and_then(|summary| summary.p999),
        bound,
        bound_reason,
        word: None,
        expected: None,
        warnings: row.warnings.iter().map(ToString::to_string).collect(),
    }
}

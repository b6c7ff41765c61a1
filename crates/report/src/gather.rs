//! Combining the launches of a run: one row for each benchmark and set of parameters, with a figure a launch. The
//! combined figure is the median over launches (rule 8).

use crate::run_directory::Loaded;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use verbena_measure::compare::{Better, LEAST_LAUNCHES};
use verbena_measure::result::{Finding, Metric, Parameters, Point, Summary, Value};
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_measure::warning::Warning;

/// A metric over all launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Which way it gets better.
    pub better: Better,
    /// Median over launches.
    pub value: f64,
    /// A figure for each launch that counts.
    pub launches: Vec<f64>,
    /// The distribution in the launch nearest to the median.
    pub summary: Option<Summary>,
    /// The bound and its reason.
    pub bound: Option<(f64, String)>,
}

impl Figure {
    /// Per cent of the bound; for times, the bound's share of the figure.
    pub fn percent_of_bound(&self) -> Option<f64> {
        let (bound, _) = self.bound.as_ref()?;
        Some(match self.better {
            Better::Higher => self.value / bound * 100.0,
            Better::Lower => bound / self.value * 100.0,
        })
    }
}

/// A point over all launches.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The benchmark.
    pub benchmark: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// Its metrics; the first is the headline.
    pub figures: Vec<Figure>,
    /// Warnings of the launches that count, each once.
    pub warnings: Vec<Warning>,
    /// Launches that do not count, for they were disturbed throughout and enough were not (rule 5).
    pub left_out: usize,
    /// Whether the data was checked in every launch.
    pub validated: bool,
}

impl Row {
    /// A parameter as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.parameters.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Its parameters but for some, for a legend.
    pub fn label_without(&self, left_out: &[&str]) -> String {
        let mut shown = self.parameters.clone();
        shown.retain(|name, _| !left_out.contains(&name.as_str()));
        label_of(&shown)
    }
}

/// Parameters as people say them.
pub fn label_of(parameters: &Parameters) -> String {
    let words = parameters.iter().map(|(name, value)| label(name, value));
    words.collect::<Vec<String>>().join(", ")
}

fn label(name: &str, value: &Value) -> String {
    match (name, value) {
        ("size", Value::Number(bytes)) => verbena_measure::unit::size(*bytes),
        (_, Value::Word(word)) if name == "receive-queue" => format!("{word} receive queue"),
        (_, Value::Word(word)) => word.clone(),
        (_, Value::Number(number)) => format!("{number} {name}"),
    }
}

/// A run's rows in the order of first appearance.
pub fn rows(run: &Loaded) -> Vec<Row> {
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
    for point in &run.points {
        let key = key(&point.benchmark, &point.parameters);
        if !groups.contains_key(&key) {
            order.push(key.clone());
        }
        groups.entry(key).or_default().push(point);
    }
    order.iter().map(|key| row(&groups[key])).collect()
}

/// What makes points the same: benchmark and parameters.
pub fn key(benchmark: &str, parameters: &Parameters) -> String {
    let words: Vec<String> = parameters.iter().map(|(n, v)| format!("{n}={v}")).collect();
    format!("{benchmark} {}", words.join(" "))
}

/// What the launches of a run say of one finding. A launch that measured the benchmark and does not have the finding
/// denies it: what one launch in five saw is no property of the adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Voted<'a> {
    /// What most launches say, in the words of the one in the middle; where most deny it, what the others say.
    pub finding: &'a Finding,
    /// Launches that say so.
    pub by: usize,
    /// Launches that looked.
    pub of: usize,
    /// Not below and not above, over all launches that have it.
    pub range: Option<Interval>,
}

impl Voted<'_> {
    /// Whether most launches say so.
    pub fn holds(&self) -> bool {
        2 * self.by > self.of
    }
}

/// The findings of a run, voted by its launches.
pub fn findings(run: &Loaded) -> Vec<Voted<'_>> {
    let kind = |f: &Finding| format!("{} {}", f.name, key(&f.benchmark, &f.parameters));
    let mut order: Vec<String> = Vec::new();
    let mut groups: BTreeMap<String, Vec<&Finding>> = BTreeMap::new();
    for finding in &run.findings {
        let kind = kind(finding);
        if !groups.contains_key(&kind) {
            order.push(kind.clone());
        }
        groups.entry(kind).or_default().push(finding);
    }
    order.iter().map(|kind| vote(run, &groups[kind])).collect()
}

fn vote<'a>(run: &Loaded, said: &[&'a Finding]) -> Voted<'a> {
    let points = run
        .points
        .iter()
        .filter(|p| p.benchmark == said[0].benchmark);
    let looked: BTreeSet<u32> = points
        .map(|point| point.launch)
        .chain(said.iter().map(|finding| finding.launch))
        .collect();
    let (mut found, nothing): (Vec<&Finding>, Vec<&Finding>) =
        said.iter().partition(|finding| finding.value.is_some());
    let launches = |of: &[&Finding]| of.iter().map(|f| f.launch).collect::<BTreeSet<u32>>().len();
    let of = looked.len();
    // Where nothing was found in so many words (no knee, say), and not by fewer, nothing is what was found.
    if nothing.len() >= found.len() {
        return Voted {
            finding: nothing[0],
            by: of - launches(&found),
            of,
            range: None,
        };
    }
    found.sort_by(|a, b| a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal));
    let ends = found.iter().flat_map(|finding| {
        let range = finding.range.map(|range| [Some(range.low), Some(range.high)]);
        range.unwrap_or([finding.value; 2])
    });
    let range = Sample::new(ends.flatten().collect()).map(|ends| Interval {
        low: ends.min(),
        high: ends.max(),
    });
    Voted {
        finding: found[found.len() / 2],
        by: launches(&found),
        of,
        range,
    }
}

/// The launches that count: those that were not disturbed throughout, where they are enough to be compared (rule 5). Which
/// they are has nothing to do with what they measured.
fn counted<'a>(points: &[&'a Point]) -> Vec<&'a Point> {
    let disturbed = |point: &Point| point.warnings.contains(&Warning::Disturbed);
    let quiet = points.iter().copied().filter(|point| !disturbed(point));
    let quiet: Vec<&Point> = quiet.collect();
    match quiet.len() >= LEAST_LAUNCHES {
        true => quiet,
        false => points.to_vec(),
    }
}

fn row(all: &[&Point]) -> Row {
    let points = &counted(all)[..];
    let first = points[0];
    let figures = first
        .metrics
        .iter()
        .map(|metric| figure(points, metric))
        .collect();
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in points.iter().flat_map(|point| &point.warnings) {
        let same = |w: &Warning| std::mem::discriminant(w) == std::mem::discriminant(warning);
        if !warnings.iter().any(same) {
            warnings.push(warning.clone());
        }
    }
    Row {
        benchmark: first.benchmark.clone(),
        parameters: first.parameters.clone(),
        figures,
        warnings,
        left_out: all.len() - points.len(),
        validated: points.iter().all(|point| point.conduct.validated),
    }
}

fn figure(points: &[&Point], first: &Metric) -> Figure {
    let of = |point: &&Point| point.metrics.iter().find(|m| m.name == first.name).cloned();
    let metrics: Vec<Metric> = points.iter().filter_map(of).collect();
    let launches: Vec<f64> = metrics.iter().map(|metric| metric.value).collect();
    let value = Sample::new(launches.clone()).map_or(f64::NAN, |sample| sample.median());
    let nearest = metrics
        .iter()
        .min_by(|a, b| (a.value - value).abs().total_cmp(&(b.value - value).abs()))
        .unwrap_or(first);
    Figure {
        name: first.name.clone(),
        unit: first.unit.clone(),
        better: first.better,
        value,
        launches,
        summary: nearest.summary.clone(),
        bound: nearest
            .bound
            .as_ref()
            .map(|bound| (bound.value, bound.reason.clone())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(launches: &[(f64, bool)]) -> Vec<Point> {
        let point = |(launch, &(value, disturbed)): (usize, &(f64, bool))| Point {
            benchmark: "latency.write".to_owned(),
            launch: launch as u32,
            metrics: vec![Metric::figure("time", "ns", Better::Lower, value)],
            warnings: disturbed
                .then_some(Warning::Disturbed)
                .into_iter()
                .collect(),
            ..Point::default()
        };
        launches.iter().enumerate().map(point).collect()
    }

    fn row_of(launches: &[(f64, bool)]) -> Row {
        let points = points(launches);
        row(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn launches_disturbed_throughout_do_not_count() {
        let (quiet, loud) = (false, true);
        // The first launch is the pattern for the metrics also when it does not count.
        let row = row_of(&[(9.0, loud), (1.0, quiet), (2.0, quiet), (5.0, quiet)]);
        assert_eq!(row.figures[0].launches, [1.0, 2.0, 5.0]);
        assert_eq!(row.left_out, 1);
        assert!(row.warnings.is_empty(), "{:?}", row.warnings);
    }

    #[test]
    fn with_too_few_others_they_do() {
        let row = row_of(&[(9.0, true), (1.0, false), (2.0, false)]);
        assert_eq!(row.figures[0].launches, [9.0, 1.0, 2.0]);
        assert_eq!(row.left_out, 0);
        assert_eq!(row.warnings, [Warning::Disturbed]);
    }
}

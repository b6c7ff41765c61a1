//! Combines the launches of a run: one row for each benchmark and set of parameters, with one
//! figure per launch. The combined figure is the median over launches (rule 8).

use crate::pooled_distribution;
use crate::run_directory::Loaded;
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use verbena_measure::compare::Better;
use verbena_measure::result::{
    Finding, HotPort, Metric, Parameters, Point, Predicted, Summary, Value,
};
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_measure::stats::launches;
use verbena_measure::warning::Warning;

/// A metric over all launches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether more or less is better.
    pub better: Better,
    /// Median over launches.
    pub value: f64,
    /// A figure for each launch.
    pub launches: Vec<f64>,
    /// Best value of each launch: the best slice of a rate, otherwise the figure.
    #[serde(skip)]
    pub best: Vec<f64>,
    /// Share of samples with disturbed processors for each launch, if there were samples.
    pub disturbed: Vec<Option<f64>>,
    /// Confidence interval of the median over launches; over samples for a single launch.
    pub interval: Option<Interval>,
    /// The distribution over all launches.
    pub summary: Option<Summary>,
    /// The bound and its reason.
    pub bound: Option<(f64, String)>,
    /// The interval of a model's figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

impl Figure {
    /// Returns the per cent of the bound; for times, the bound's share of the figure.
    pub fn percent_of_bound(&self) -> Option<f64> {
        let (bound, _) = self.bound.as_ref()?;
        Some(match self.better {
            Better::Higher => self.value / bound * 100.0,
            Better::Lower => bound / self.value * 100.0,
        })
    }
}

/// A point over all launches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// The benchmark.
    pub benchmark: String,
    /// Its parameters.
    pub parameters: Parameters,
    /// Its metrics; the first is the headline.
    pub figures: Vec<Figure>,
    /// Warnings of the launches, each once.
    pub warnings: Vec<Warning>,
    /// The hottest ports of a fabric that exists, by a model.
    pub hot_ports: Vec<HotPort>,
    /// Whether every launch validated the data.
    pub validated: bool,
    /// Whether it was measured only during the search for a knee, which other launches searched
    /// elsewhere.
    pub searched: bool,
}

impl Row {
    /// Returns a parameter as a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.parameters.get(name) {
            Some(Value::Number(number)) => Some(*number),
            _ => None,
        }
    }

    /// Returns the parameters except some, for a legend.
    pub fn label_without(&self, left_out: &[&str]) -> String {
        let mut shown = self.parameters.clone();
        shown.retain(|name, _| !left_out.contains(&name.as_str()));
        label_of(&shown)
    }
}

/// Describes parameters for people.
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

/// Returns a run's rows in the order of first appearance.
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

/// Returns the identity of a point: benchmark and parameters.
pub fn key(benchmark: &str, parameters: &Parameters) -> String {
    let words: Vec<String> = parameters.iter().map(|(n, v)| format!("{n}={v}")).collect();
    // A key is a line of a table; control characters would break the line or control the terminal.
    let letter = |letter: char| match letter.is_control() {
        true => letter.escape_default().to_string(),
        false => letter.to_string(),
    };
    let key = format!("{benchmark} {}", words.join(" "));
    match key.contains(char::is_control) {
        true => key.chars().map(letter).collect(),
        false => key,
    }
}

/// The votes of a run's launches on one finding. A launch that measured the benchmark without the
/// finding votes against it: a result of one launch in five is no property of the adapter.
#[derive(Debug, Clone, PartialEq)]
pub struct Voted<'a> {
    /// The majority's finding, as stated by the median launch; if most deny it, the others'
    /// finding.
    pub finding: &'a Finding,
    /// Number of launches with the finding.
    pub by: usize,
    /// Number of launches that measured the benchmark.
    pub of: usize,
    /// Range over all launches with the finding.
    pub range: Option<Interval>,
}

impl Voted<'_> {
    /// Returns whether most launches have the finding.
    pub fn holds(&self) -> bool {
        2 * self.by > self.of
    }
}

/// Returns the findings of a run with the votes of its launches.
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
    // If explicit absence (e.g. no knee) has at least as many votes, it is the finding.
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
        let range = finding
            .range
            .map(|range| [Some(range.low), Some(range.high)]);
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

fn row(points: &[&Point]) -> Row {
    let first = points[0];
    let figures: Vec<Figure> = metrics(points)
        .into_iter()
        .map(|metric| figure(points, metric))
        .collect();
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in points.iter().flat_map(|point| &point.warnings) {
        let same = |w: &Warning| std::mem::discriminant(w) == std::mem::discriminant(warning);
        if !warnings.iter().any(same) {
            warnings.push(warning.clone());
        }
    }
    let headline: Option<&Figure> = figures.first();
    let sample = headline.and_then(|figure| Sample::new(figure.launches.clone()));
    let levels = sample.as_ref().and_then(launches::levels);
    warnings.extend(levels.map(Warning::TwoLevels));
    Row {
        benchmark: first.benchmark.clone(),
        parameters: first.parameters.clone(),
        figures,
        warnings,
        hot_ports: first.hot_ports.clone(),
        validated: points.iter().all(|point| point.conduct.validated),
        searched: points.iter().all(|point| point.conduct.search),
    }
}

/// Returns each metric of the launches once: first those of a launch with the most common headline
/// (one launch may reject the total rate of all processes while others have it), then those of
/// other launches.
fn metrics<'a>(points: &[&'a Point]) -> Vec<&'a Metric> {
    fn headline(point: &Point) -> Option<&str> {
        point.metrics.first().map(|metric| metric.name.as_str())
    }
    let votes = |point: &&&Point| {
        let same = |other: &&&Point| headline(other) == headline(point);
        points.iter().filter(same).count()
    };
    // On a tie, the first launch's.
    let chosen = points.iter().rev().max_by_key(votes);
    let mut found: Vec<&Metric> = Vec::new();
    for metric in chosen
        .into_iter()
        .chain(points)
        .flat_map(|point| &point.metrics)
    {
        if found.iter().all(|known| known.name != metric.name) {
            found.push(metric);
        }
    }
    found
}

/// Returns the best value of a launch. Single operations of a latency are limited by the clock's
/// resolution, so the figure is used.
fn best(metric: &Metric) -> f64 {
    match (metric.better, &metric.summary) {
        (Better::Higher, Some(summary)) => summary.max,
        _ => metric.value,
    }
}

fn figure(points: &[&Point], first: &Metric) -> Figure {
    let of = |point: &&Point| {
        let metric = point.metrics.iter().find(|m| m.name == first.name)?;
        Some((metric.clone(), point.conduct.disturbed))
    };
    let (metrics, disturbed): (Vec<Metric>, Vec<Option<f64>>) =
        points.iter().filter_map(of).unzip();
    let launches: Vec<f64> = metrics.iter().map(|metric| metric.value).collect();
    let best = metrics.iter().map(best).collect();
    let sample = Sample::new(launches.clone());
    let value = sample.as_ref().map_or(f64::NAN, |sample| sample.median());
    let over = sample.as_ref().and_then(launches::interval);
    let summaries: Option<Vec<&Summary>> = metrics.iter().map(|m| m.summary.as_ref()).collect();
    let pooled = summaries.and_then(|summaries| pooled_distribution::pooled(&summaries));
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
        best,
        disturbed,
        interval: over.or_else(|| nearest.summary.as_ref()?.median_interval),
        // Files older than the stored tails show the median launch.
        summary: pooled.or_else(|| nearest.summary.clone()),
        bound: nearest
            .bound
            .as_ref()
            .map(|bound| (bound.value, bound.reason.clone())),
        predicted: nearest.predicted.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row_of(launches: &[f64]) -> Row {
        let point = |(launch, value): (usize, &f64)| Point {
            benchmark: "latency.write".to_owned(),
            launch: launch as u32,
            metrics: vec![Metric::figure("time", "ns", Better::Lower, *value)],
            warnings: vec![Warning::Disturbed {
                share: launch as f64 / 10.0,
            }],
            ..Point::default()
        };
        let points: Vec<Point> = launches.iter().enumerate().map(point).collect();
        row(&points.iter().collect::<Vec<_>>())
    }

    #[test]
    fn all_launches_are_gathered_and_levels_are_marked() {
        let row = row_of(&[1845.0, 234.0, 255.0, 235.0, 257.0]);
        let figure = &row.figures[0];
        assert_eq!((figure.value, figure.launches.len()), (255.0, 5));
        let interval = figure.interval.unwrap();
        assert_eq!((interval.low, interval.high), (234.0, 1845.0));
        let marked = |w: &Warning| matches!(w, Warning::TwoLevels(levels) if levels.above == 1);
        assert!(row.warnings.iter().any(marked), "{:?}", row.warnings);
        let even = row_of(&[250.0, 234.0, 255.0, 235.0, 257.0]);
        assert!(
            !even
                .warnings
                .iter()
                .any(|w| matches!(w, Warning::TwoLevels(_)))
        );
    }

    #[test]
    fn the_headline_metric_is_that_of_most_launches() {
        let metric = |name: &str, value| Metric::figure(name, "bytes/s", Better::Higher, value);
        let point = |metrics: Vec<Metric>| Point {
            metrics,
            ..Point::default()
        };
        let refused = point(vec![metric("each", 1.0)]);
        let known = |value| point(vec![metric("all", value), metric("rate", value)]);
        let launches = [refused, known(5.0), known(7.0)];
        let row = row(&launches.iter().collect::<Vec<_>>());
        let names: Vec<&str> = row.figures.iter().map(|f| f.name.as_str()).collect();
        assert_eq!(names, ["all", "rate", "each"]);
        assert_eq!(row.figures[0].launches, [5.0, 7.0]);
        // On a tie, the first launch's.
        let two = super::row(&launches[..2].iter().collect::<Vec<_>>());
        assert_eq!(two.figures[0].name, "each");
    }
}

//! The five figures that summarise an adapter, taken from a run's rows: latency, bandwidth, message
//! rate, many pairs, and memory.

use crate::gather::{Figure, Row, findings};
use crate::older_records::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use serde::Serialize;
use verbena_measure::compare::Better;
use verbena_measure::result::{Finding, Value};
use verbena_measure::sample::Sample;
use verbena_measure::stats::interval::Interval;
use verbena_measure::stats::launches;
use verbena_measure::unit;
use verbena_measure::warning::Warning;

/// Subject of a headline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// Latency of a short write, until its receiver sees it.
    Latency,
    /// Bandwidth of long writes in one direction.
    Bandwidth,
    /// Short messages per second.
    Rate,
    /// Ratio of the latency of many pairs to that of one.
    Scaling,
    /// Host memory per connection.
    Memory,
}

impl Subject {
    /// All subjects, in the order of a report.
    pub const ALL: [Subject; 5] = [
        Subject::Latency,
        Subject::Bandwidth,
        Subject::Rate,
        Subject::Scaling,
        Subject::Memory,
    ];

    /// Returns the title for people.
    pub fn title(self) -> &'static str {
        match self {
            Subject::Latency => "Latency",
            Subject::Bandwidth => "Bandwidth",
            Subject::Rate => "Message rate",
            Subject::Scaling => "Many pairs",
            Subject::Memory => "Memory",
        }
    }

    /// Returns whether more or less is better.
    pub fn better(self) -> Better {
        match self {
            Subject::Latency | Subject::Scaling | Subject::Memory => Better::Lower,
            Subject::Bandwidth | Subject::Rate => Better::Higher,
        }
    }

    /// Returns the unit as in files.
    pub fn unit(self) -> &'static str {
        match self {
            Subject::Latency => "ns",
            Subject::Bandwidth => "bytes/s",
            Subject::Rate => "1/s",
            Subject::Scaling => "×",
            Subject::Memory => "bytes",
        }
    }

    /// Formats a value with its unit.
    pub fn display(self, value: f64) -> String {
        unit::display(value, self.unit())
    }
}

/// A figure of the first screen.
#[derive(Debug, Clone, PartialEq)]
pub struct Headline {
    /// Its subject.
    pub subject: Subject,
    /// Description of the measurement.
    pub of: String,
    /// Name of the metric: figures of other metrics are not comparable.
    pub metric: String,
    /// Bytes per message, if there is one size: figures of other sizes are not comparable.
    pub size: Option<f64>,
    /// The figure.
    pub value: f64,
    /// Interval over launches.
    pub interval: Option<Interval>,
    /// The figure of each launch.
    pub launches: Vec<f64>,
    /// Launches during which other processes ran on the same cores most of the time.
    pub busy_launches: usize,
    /// Tail: 99th and 99.9th percentile, if there are enough samples.
    pub tail: [Option<f64>; 2],
    /// The bound and its reason.
    pub bound: Option<(f64, String)>,
    /// Warnings about the figure.
    pub warnings: Vec<Warning>,
    /// The curve that contains it.
    pub curve: Option<Curve>,
}

/// A figure over a parameter.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Curve {
    /// The parameter: `size`, `window`, `pairs` or `connections`.
    pub axis: &'static str,
    /// Parameter and figure, sorted by parameter.
    pub points: Vec<(f64, f64)>,
}

/// A launch is busy if other processes ran in more than this share of the samples.
const DISTURBED: f64 = 0.5;
/// Published latencies are of writes and sends of at most this many bytes.
const SHORT: f64 = 16.0;
/// Published bandwidths are of messages of at least this many bytes.
const LONG: f64 = 1_048_576.0;

impl Headline {
    /// Returns whether its message size equals that of another run's headline.
    pub fn is_of_the_size_of(&self, other: &Headline) -> bool {
        self.size == other.size
    }

    /// Returns whether its message size is one for which figures are published.
    pub fn is_of_a_published_size(&self) -> bool {
        match (self.subject, self.size) {
            (Subject::Latency, Some(size)) => size <= SHORT,
            (Subject::Bandwidth, Some(size)) => size >= LONG,
            _ => true,
        }
    }

    /// Returns how many times as good the bound, or another figure, is.
    fn advantage(&self, other: f64) -> f64 {
        match self.subject.better() {
            Better::Higher => other / self.value,
            Better::Lower => self.value / other,
        }
    }

    /// Returns whether another figure is worse than this one.
    pub fn is_ahead_of(&self, other: f64) -> bool {
        self.advantage(other) < 1.0
    }

    /// Returns whether another figure is better than this one.
    pub fn is_behind(&self, other: f64) -> bool {
        self.advantage(other) > 1.0
    }
}

/// Returns the headlines that a run measured.
pub fn headlines(run: &Loaded, rows: &[Row]) -> Vec<Headline> {
    let all = [
        latency(rows),
        bandwidth(rows),
        rate(rows),
        scaling(rows),
        memory(run, rows),
    ];
    all.into_iter().flatten().collect()
}

fn of_figure(
    subject: Subject,
    row: &Row,
    figure: &Figure,
    of: String,
    curve: Option<Curve>,
) -> Headline {
    let summary = figure.summary.as_ref();
    Headline {
        subject,
        of,
        metric: figure.name.clone(),
        size: row.number("size"),
        value: figure.value,
        interval: figure.interval,
        launches: figure.launches.clone(),
        busy_launches: busy_launches(&[row]),
        tail: [summary.and_then(|s| s.p99), summary.and_then(|s| s.p999)],
        bound: figure.bound.clone(),
        warnings: row.warnings.clone(),
        curve,
    }
}

/// Counts the launches in which one of the rows was disturbed in most samples.
fn busy_launches(rows: &[&Row]) -> usize {
    let is_busy = |share: &Option<f64>| share.is_some_and(|share| share > DISTURBED);
    let counted = rows.iter().filter_map(|row| {
        let shares = &row.figures.first()?.disturbed;
        Some(shares.iter().filter(|share| is_busy(share)).count())
    });
    // Files of older versions have the warning without the shares.
    let warned = rows.iter().flat_map(|row| &row.warnings);
    let least = warned
        .filter(|warning| matches!(warning, Warning::Disturbed { .. }))
        .count();
    counted.max().unwrap_or(0).max(least.min(1))
}

/// Returns the figures of a metric over a parameter, with all other parameters as in a row.
fn curve(rows: &[Row], of: &Row, axis: &'static str, metric: &str) -> Option<Curve> {
    let others = |row: &Row| {
        let mut parameters = row.parameters.clone();
        parameters.remove(axis);
        parameters
    };
    let like = others(of);
    let on_it = rows
        .iter()
        .filter(|row| row.benchmark == of.benchmark && others(row) == like);
    let point = |row: &Row| {
        let figure = row.figures.iter().find(|figure| figure.name == metric)?;
        Some((row.number(axis)?, figure.value))
    };
    let mut points: Vec<(f64, f64)> = on_it.filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    (points.len() > 1).then_some(Curve { axis, points })
}

fn is(row: &Row, parameter: &str, word: &str) -> bool {
    matches!(row.parameters.get(parameter), Some(Value::Word(found)) if found == word)
}

/// Returns a benchmark's rows over the reliable connection, or all rows if it has none.
fn reliable<'a>(rows: &'a [Row], benchmark: &str) -> Vec<&'a Row> {
    let mine = || rows.iter().filter(|row| row.benchmark == benchmark);
    let reliable: Vec<&Row> = mine().filter(|row| is(row, "transport", "rc")).collect();
    match reliable.is_empty() {
        true => mine().collect(),
        false => reliable,
    }
}

fn size(row: &Row) -> f64 {
    row.number("size").unwrap_or(f64::MAX)
}

/// Uses a write of 8 bytes, or of the nearest size.
fn latency(rows: &[Row]) -> Option<Headline> {
    let distance = |row: &&Row| (size(row) - 8.0).abs();
    let found = reliable(rows, "latency.write");
    let row = found
        .into_iter()
        .min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
    let of = format!("{} write until the receiver sees it", unit::size(size(row)));
    let figure = row.figures.first()?;
    let curve = curve(rows, row, "size", &figure.name);
    Some(of_figure(Subject::Latency, row, figure, of, curve))
}

/// Uses the largest messages: they do not fit a cache. Of several rows with that size, uses the
/// slowest, because the others profit from some advantage.
fn bandwidth(rows: &[Row]) -> Option<Headline> {
    let found = reliable(rows, "bandwidth.write");
    let largest = found.iter().map(|row| size(row)).fold(0.0, f64::max);
    let value = |row: &&Row| row.figures.first().map_or(f64::MAX, |f| f.value);
    let of_it = found.into_iter().filter(|row| size(row) == largest);
    let row = of_it.min_by(|a, b| value(a).total_cmp(&value(b)))?;
    let mut of = format!("{} writes in one direction", unit::size(largest));
    let figure = row.figures.first()?;
    if figure.name == CACHED_BANDWIDTH {
        of += " from one cached buffer";
    }
    let curve = curve(rows, row, "size", &figure.name);
    Some(of_figure(Subject::Bandwidth, row, figure, of, curve))
}

/// Uses short messages between two processes with the best number in flight.
fn rate(rows: &[Row]) -> Option<Headline> {
    let per_second = |row: &&Row| row.figures.iter().find(|f| f.unit == "1/s").cloned();
    let found = reliable(rows, "rate.window").into_iter();
    let (row, figure) = found
        .filter_map(|row| Some((row, per_second(&row)?)))
        .max_by(|a, b| a.1.value.total_cmp(&b.1.value))?;
    let mut of = format!("{} writes", unit::size(size(row)));
    if let Some(window) = row.number("window") {
        of += &format!(", {window} in flight");
    }
    let curve = curve(rows, row, "window", &figure.name);
    let mut headline = of_figure(Subject::Rate, row, &figure, of, curve);
    // The bound on bytes also bounds messages.
    let bytes = row.figures.iter().find(|f| f.unit == "bytes/s");
    let bound = bytes.and_then(|f| f.bound.clone());
    headline.bound = bound.map(|(bound, reason)| (bound / size(row), reason));
    Some(headline)
}

/// Compares the latency of the largest number of pairs with that of one pair.
fn scaling(rows: &[Row]) -> Option<Headline> {
    let mut found = reliable(rows, "multi-pair.write-latency");
    let mode = found.first()?.parameters.get("mode").cloned();
    found.retain(|row| row.parameters.get("mode") == mode.as_ref());
    let smallest = found.iter().map(|row| size(row)).fold(f64::MAX, f64::min);
    found.retain(|row| size(row) == smallest);
    let pairs = |row: &&&Row| row.number("pairs").unwrap_or(0.0) as u64;
    let one = found.iter().find(|row| pairs(row) == 1)?;
    let most = found
        .iter()
        .max_by_key(pairs)
        .filter(|row| pairs(row) > 1)?;
    let [one_figure, most_figure] = [one.figures.first()?, most.figures.first()?];
    // Each launch measured both, so each has its own ratio.
    let both = one_figure.launches.iter().zip(&most_figure.launches);
    let ratios: Vec<f64> = both.map(|(one, most)| most / one).collect();
    let of = format!("latency of {} pairs over that of one", pairs(&most));
    let mut over_pairs = curve(rows, most, "pairs", &most_figure.name);
    for (_, latency) in over_pairs.iter_mut().flat_map(|curve| &mut curve.points) {
        *latency /= one_figure.value;
    }
    Some(Headline {
        subject: Subject::Scaling,
        of,
        metric: most_figure.name.clone(),
        size: Some(smallest),
        value: most_figure.value / one_figure.value,
        interval: Sample::new(ratios.clone())
            .as_ref()
            .and_then(launches::interval),
        launches: ratios,
        busy_launches: busy_launches(&[*one, *most]),
        tail: [None, None],
        bound: None,
        warnings: most.warnings.clone(),
        curve: over_pairs,
    })
}

/// Uses the slope of host memory over connections.
fn memory(run: &Loaded, rows: &[Row]) -> Option<Headline> {
    let voted = findings(run);
    let is_same = |finding: &Finding, other: &Finding| {
        finding.name == other.name && finding.parameters == other.parameters
    };
    let slope = voted.iter().find(|voted| {
        let finding = voted.finding;
        let words = finding.parameters.get("transport");
        finding.name == "memory-per-connection" && words == Some(&Value::from("rc"))
    })?;
    let of_launches = run.findings.iter();
    let of_it = of_launches.filter(|finding| is_same(finding, slope.finding));
    let connected = rows
        .iter()
        .find(|row| row.benchmark == slope.finding.benchmark && is(row, "transport", "rc"));
    Some(Headline {
        subject: Subject::Memory,
        of: "host memory for each reliable connection".to_owned(),
        metric: slope.finding.name.clone(),
        size: None,
        value: slope.finding.value?,
        interval: slope.range,
        launches: of_it.filter_map(|finding| finding.value).collect(),
        busy_launches: 0,
        tail: [None, None],
        bound: None,
        warnings: Vec::new(),
        curve: connected.and_then(|row| curve(rows, row, "connections", "host-memory")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headline(subject: Subject, value: f64) -> Headline {
        Headline {
            subject,
            of: String::new(),
            metric: String::new(),
            size: None,
            value,
            interval: None,
            launches: vec![value],
            busy_launches: 0,
            tail: [None, None],
            bound: None,
            warnings: vec![],
            curve: None,
        }
    }

    #[test]
    fn lower_times_and_higher_rates_rank_first() {
        for subject in Subject::ALL {
            let more_is_ahead = matches!(subject, Subject::Bandwidth | Subject::Rate);
            assert_eq!(
                headline(subject, 2e3).is_ahead_of(1e3),
                more_is_ahead,
                "{subject:?}"
            );
        }
    }

    #[test]
    fn short_messages_are_not_compared_with_long_ones() {
        let of = |subject, size| Headline {
            size: Some(size),
            ..headline(subject, 6e7)
        };
        assert!(!of(Subject::Bandwidth, 8.0).is_of_a_published_size());
        assert!(of(Subject::Bandwidth, 1_048_576.0).is_of_a_published_size());
        assert!(!of(Subject::Latency, 4096.0).is_of_a_published_size());
        let short = of(Subject::Bandwidth, 8.0);
        assert!(!short.is_of_the_size_of(&of(Subject::Bandwidth, 65536.0)));
    }
}

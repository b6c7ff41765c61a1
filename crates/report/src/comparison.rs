//! Comparison of two runs: equal keys only, one figure per launch (rule 20), thresholds from a
//! file.

use crate::gather::{Figure, Row, key, rows};
use crate::older_records::CACHED_BANDWIDTH;
use crate::run_directory::Loaded;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use verbena_measure::compare::{
    Better, Change, Comparison, LEAST_LAUNCHES, Paired, Verdict, compare,
};
use verbena_measure::result::{Failure, Parameters, Value};
use verbena_measure::sample::Sample;

/// Share of samples with disturbed processors beyond which a launch may be left out.
const OFTEN: f64 = 0.25;

/// Thresholds: a default, and exceptions by benchmark.
#[derive(Debug, Clone, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Smallest relative effect that counts.
    #[serde(default = "usual")]
    pub default: f64,
    /// The same between two models, whose figures have no noise.
    #[serde(default = "printed")]
    pub exact: f64,
    /// Thresholds by prefix of the benchmark's name; the longest match applies.
    #[serde(default)]
    pub benchmarks: std::collections::BTreeMap<String, f64>,
}

fn usual() -> f64 {
    0.05
}

/// Returns the difference below which ratios are printed as 1.000.
fn printed() -> f64 {
    0.0005
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds {
            default: usual(),
            exact: printed(),
            benchmarks: Default::default(),
        }
    }
}

impl Thresholds {
    /// Checks the thresholds.
    ///
    /// # Errors
    ///
    /// Refuses a threshold that no change would exceed, or that every change would.
    pub fn check(&self) -> Result<(), String> {
        let named = self
            .benchmarks
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        for (name, value) in named.chain([("default", self.default), ("exact", self.exact)]) {
            if !(value.is_finite() && value >= 0.0) {
                return Err(format!(
                    "the threshold of {name} is {value}, not a share such as 0.05"
                ));
            }
        }
        Ok(())
    }

    /// Returns the exceptions that match none of these benchmarks, probably misspelt.
    pub fn unused<'a>(&'a self, benchmarks: &[&str]) -> Vec<&'a str> {
        let used = |prefix: &str| benchmarks.iter().any(|name| name.starts_with(prefix));
        let prefixes = self.benchmarks.keys().map(String::as_str);
        prefixes.filter(|prefix| !used(prefix)).collect()
    }

    /// Returns the threshold for a benchmark.
    pub fn of(&self, benchmark: &str) -> f64 {
        self.benchmarks
            .iter()
            .filter(|(prefix, _)| benchmark.starts_with(prefix.as_str()))
            .max_by_key(|(prefix, _)| prefix.len())
            .map_or(self.default, |(_, threshold)| *threshold)
    }
}

/// Comparison of the keys that two runs share, and the number of keys in only one of them.
pub struct Compared {
    /// Curves of several points, each as a whole.
    pub curves: Vec<Change>,
    /// A change for each shared key.
    pub changes: Vec<Change>,
    /// For each change, the number of launches of the side with fewer.
    pub launches: Vec<usize>,
    /// Keys in the first only.
    pub only_first: usize,
    /// Keys in the second only.
    pub only_second: usize,
    /// Notes about keys whose headlines are different metrics.
    pub notes: Vec<String>,
    /// Why points are undecided, if not for lack of launches.
    pub doubt: Option<&'static str>,
    /// Points that a stopped run lacks.
    pub missing: Vec<Missing>,
}

/// A point that a run has not computed, because it was stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Benchmark and parameters.
    pub key: String,
    /// The run: `first` or `second`.
    pub run: &'static str,
    /// Why it was stopped.
    pub reason: String,
}

/// Returns the points that a run lacks, because it was stopped.
fn missing(name: &'static str, run: &Loaded) -> Vec<Missing> {
    let all = run.failures.iter().filter(|one| one.is_not_computed());
    let missing = |one: &Failure| Missing {
        key: key(&one.benchmark, &one.parameters),
        run: name,
        reason: one.reason.clone(),
    };
    all.map(missing).collect()
}

impl Compared {
    /// Leaves the points of some keys undecided, for a reason.
    pub fn leave_undecided(&mut self, is_doubtful: impl Fn(&str) -> bool, reason: &'static str) {
        for change in &mut self.changes {
            if is_doubtful(&change.key) {
                change.verdict = Verdict::Undecided;
                self.doubt = Some(reason);
            }
        }
    }
}

/// Returns the key of a curve: points of a benchmark that differ in numbers only, such as sizes and
/// pairs.
fn curve(benchmark: &str, parameters: &Parameters, metric: &str) -> String {
    let mut words = parameters.clone();
    words.retain(|_, value| matches!(value, Value::Word(_)));
    format!("{}: {metric}", key(benchmark, &words))
}

/// Compares two runs by their headline metrics.
pub fn between(a: &Loaded, b: &Loaded, thresholds: &Thresholds) -> Compared {
    let [first, second] = [a, b].map(measured_alike);
    let key_of = |row: &Row| key(&row.benchmark, &row.parameters);
    let others: HashMap<String, &Row> = second.iter().map(|row| (key_of(row), row)).collect();
    let mut pairs = Vec::new();
    let mut headlines: BTreeMap<Headlines, BTreeSet<String>> = BTreeMap::new();
    for row in &first {
        let wanted = key_of(row);
        let Some(other) = others.get(&wanted) else {
            continue;
        };
        let both = in_both(row, other);
        if let Some(differ) = Headlines::of(row, other, both.map(|(mine, _)| mine)) {
            headlines
                .entry(differ)
                .or_default()
                .insert(row.benchmark.clone());
        }
        let Some((mine, theirs)) = both else {
            continue;
        };
        let (a, b) = at_rest(mine, theirs);
        pairs.push(Paired {
            key: format!("{wanted}: {}", mine.name),
            curve: curve(&row.benchmark, &row.parameters, &mine.name),
            better: mine.better,
            a,
            b,
            best_a: mine.best.clone(),
            best_b: theirs.best.clone(),
            threshold: thresholds.of(&row.benchmark),
        });
    }
    let launches: Vec<usize> = pairs
        .iter()
        .map(|pair| known(&pair.a).min(known(&pair.b)))
        .collect();
    let common = pairs.len();
    let computed = |run: &Loaded| run.run.fabric == "model";
    let comparison = match computed(a) && computed(b) {
        true => Comparison {
            curves: Vec::new(),
            points: pairs.iter().map(|pair| exactly(pair, thresholds)).collect(),
        },
        false => compare(&pairs),
    };
    Compared {
        curves: comparison.curves,
        changes: comparison
            .points
            .into_iter()
            .zip(&launches)
            .map(|(change, launches)| undecided(change, *launches))
            .collect(),
        launches,
        only_first: first.len() - common,
        only_second: second.len().saturating_sub(common),
        notes: headlines
            .iter()
            .map(|(differ, of)| differ.note(of))
            .collect(),
        doubt: None,
        missing: [missing("first", a), missing("second", b)].concat(),
    }
}

/// Returns the number of launches that count.
fn known(values: &[f64]) -> usize {
    values.iter().filter(|value| !value.is_nan()).count()
}

/// Marks a large difference without proof as undecided: it is neither a change nor the absence of
/// one.
fn undecided(mut change: Change, launches: usize) -> Change {
    let large = (change.ratio - 1.0).abs() > change.threshold.max(ROUNDING);
    if change.verdict == Verdict::Same && (large || launches == 0) {
        change.verdict = Verdict::Undecided;
    }
    change
}

/// Compares two computed figures: without noise, every difference that is printed is a change.
/// Uses the medians if a model has several launches.
fn exactly(pair: &Paired, thresholds: &Thresholds) -> Change {
    let middle = |values: &[f64]| {
        let known = values.iter().copied().filter(|value| !value.is_nan());
        Sample::new(known.collect()).map_or(f64::NAN, |sample| sample.median())
    };
    let (a, b) = (middle(&pair.a), middle(&pair.b));
    let ratio = if a == b { 1.0 } else { b / a };
    let threshold = thresholds.exact;
    let verdict = match (pair.better, ratio) {
        (_, ratio) if !ratio.is_finite() => Verdict::Undecided,
        (_, ratio) if (ratio - 1.0).abs() <= threshold.max(ROUNDING) => Verdict::Same,
        (Better::Lower, ratio) if ratio > 1.0 => Verdict::Regressed,
        (Better::Higher, ratio) if ratio < 1.0 => Verdict::Regressed,
        _ => Verdict::Improved,
    };
    Change {
        key: pair.key.clone(),
        points: 1,
        a,
        b,
        ratio,
        interval: None,
        p: None,
        threshold,
        verdict,
    }
}

/// Relative error of a number by its text form in a file.
const ROUNDING: f64 = 1e-12;

/// Returns the rows of points that every launch measures: the search positions of a knee are no
/// property of the adapter.
fn measured_alike(run: &Loaded) -> Vec<Row> {
    let mut rows = rows(run);
    rows.retain(|row| !row.searched);
    rows
}

/// Returns the launches of two figures without those that were often disturbed, if enough remain on
/// both sides. The decision does not depend on measured values, and both sides are treated alike.
fn at_rest(a: &Figure, b: &Figure) -> (Vec<f64>, Vec<f64>) {
    let rested = |figure: &Figure| -> Vec<f64> {
        let launches = figure.launches.iter().zip(&figure.disturbed);
        let keep = |(value, disturbed): (&f64, &Option<f64>)| match disturbed {
            Some(share) if *share > OFTEN => f64::NAN,
            _ => *value,
        };
        launches.map(keep).collect()
    };
    let sides = [a, b].map(rested);
    let enough =
        |side: &Vec<f64>| side.iter().filter(|value| !value.is_nan()).count() >= LEAST_LAUNCHES;
    match sides.iter().all(enough) {
        true => sides.into(),
        false => (a.launches.clone(), b.launches.clone()),
    }
}

/// Returns the headline of one of two rows that the other also has.
fn in_both<'a>(a: &'a Row, b: &'a Row) -> Option<(&'a Figure, &'a Figure)> {
    let of = |row: &'a Row, name: &str| row.figures.iter().find(|figure| figure.name == name);
    let names = [a, b].map(|row| row.figures.first().map(|figure| &figure.name));
    names
        .into_iter()
        .flatten()
        .find_map(|name| Some((of(a, name)?, of(b, name)?)))
}

/// Headlines that are different metrics, and the metric compared instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Headlines {
    first: String,
    second: String,
    compared: Option<String>,
}

impl Headlines {
    fn of(a: &Row, b: &Row, compared: Option<&Figure>) -> Option<Headlines> {
        let [first, second] = [a, b].map(|row| Some(row.figures.first()?.name.clone()));
        let (first, second) = (first?, second?);
        (first != second).then(|| Headlines {
            first,
            second,
            compared: compared.map(|figure| figure.name.clone()),
        })
    }

    fn note(&self, benchmarks: &BTreeSet<String>) -> String {
        let benchmarks: Vec<&str> = benchmarks.iter().map(String::as_str).collect();
        let instead = match &self.compared {
            Some(name) => format!("compared by {name}, which both have"),
            None => "they are not compared".to_owned(),
        };
        format!(
            "of {} the first run's figure is {}, the second's {}: {instead}",
            benchmarks.join(", "),
            meant(&self.first),
            meant(&self.second)
        )
    }
}

/// Returns a metric's name, with an explanation if it may mislead.
fn meant(metric: &str) -> String {
    match metric {
        CACHED_BANDWIDTH => format!("{metric} (one buffer, which stays in the caches)"),
        "bandwidth" => format!("{metric} (buffers in turn, beyond the caches)"),
        _ => metric.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::older_records::with_current_names;
    use verbena_measure::result::{Conduct, Metric, Point};

    #[test]
    fn invalid_thresholds_are_refused() {
        let of = |default, exception| Thresholds {
            default,
            exact: 0.0,
            benchmarks: [("latency.".to_owned(), exception)].into(),
        };
        assert!(of(0.0, 0.1).check().is_ok());
        assert!(of(f64::NAN, 0.1).check().unwrap_err().contains("default"));
        assert!(of(0.05, -1.0).check().unwrap_err().contains("latency."));
        assert!(of(0.05, f64::INFINITY).check().is_err());
    }

    /// Returns a run of one point of `bandwidth.write`, with these metrics.
    fn run(metrics: &[(&str, f64)], reader: Option<&str>) -> Loaded {
        let figure =
            |(name, value): &(&str, f64)| Metric::figure(name, "bytes/s", Better::Higher, *value);
        let point = Point {
            benchmark: "bandwidth.write".to_owned(),
            metrics: metrics.iter().map(figure).collect(),
            conduct: Conduct {
                reader: reader.map(str::to_owned),
                ..Conduct::default()
            },
            ..Point::default()
        };
        Loaded {
            points: vec![with_current_names(point)],
            ..Loaded::default()
        }
    }

    #[test]
    fn bandwidths_are_compared_by_the_same_kind_of_buffer() {
        let today = [
            ("bandwidth", 14e9),
            ("message-rate", 1e6),
            (CACHED_BANDWIDTH, 90e9),
        ];
        let today = run(&today, Some("nobody"));
        let older = run(&[("bandwidth", 95e9), ("message-rate", 9e6)], None);
        for (a, b, ratio) in [(&older, &today, 90.0 / 95.0), (&today, &older, 95.0 / 90.0)] {
            let compared = between(a, b, &Thresholds::default());
            let [change] = &compared.changes[..] else {
                panic!("{:?}", compared.changes);
            };
            assert!(change.key.ends_with(": cached-bandwidth"), "{}", change.key);
            assert!((change.ratio - ratio).abs() < 1e-9, "{}", change.ratio);
            assert!(compared.notes[0].contains("compared by cached-bandwidth"));
        }
        let same = between(&older, &older, &Thresholds::default());
        assert!(same.notes.is_empty() && same.changes.len() == 1);
        // No common metric.
        let alone = run(&[("bandwidth", 14e9)], Some("nobody"));
        let compared = between(&older, &alone, &Thresholds::default());
        assert!(compared.changes.is_empty() && compared.only_first == 1);
        assert!(
            compared.notes[0].contains("not compared"),
            "{:?}",
            compared.notes
        );
    }

    #[test]
    fn unused_exceptions_are_found() {
        let thresholds = Thresholds {
            benchmarks: [("latncy.".to_owned(), 0.1), ("latency.".to_owned(), 0.1)].into(),
            ..Thresholds::default()
        };
        assert_eq!(thresholds.unused(&["latency.write"]), ["latncy."]);
    }

    /// Returns a run of `latency.write` at 8 bytes, with one launch per value and share of
    /// disturbed samples.
    fn launches(of: &[(f64, f64)]) -> Loaded {
        let point = |(launch, (value, disturbed)): (usize, &(f64, f64))| Point {
            benchmark: "latency.write".to_owned(),
            launch: launch as u32,
            metrics: vec![Metric::figure(
                "one-way-latency",
                "ns",
                Better::Lower,
                *value,
            )],
            conduct: Conduct {
                disturbed: Some(*disturbed),
                ..Conduct::default()
            },
            ..Point::default()
        };
        Loaded {
            points: of.iter().enumerate().map(point).collect(),
            ..Loaded::default()
        }
    }

    #[test]
    fn disturbed_launches_are_left_out_on_both_sides() {
        let quiet = [
            (200.0, 0.0),
            (201.0, 0.1),
            (199.0, 0.0),
            (390.0, 1.0),
            (200.0, 0.2),
        ];
        let before = launches(&quiet);
        let slower = launches(&quiet.map(|(value, disturbed)| (1.1 * value, disturbed)));
        let found = |a: &Loaded, b: &Loaded| {
            let compared = between(a, b, &Thresholds::default());
            let change = compared.changes[0].clone();
            (change.verdict, (1000.0 * change.ratio).round())
        };
        assert_eq!(found(&before, &slower), (Verdict::Regressed, 1100.0));
        assert_eq!(found(&before, &before).0, Verdict::Same);
        // Two are too few to represent five, so all count.
        let restless =
            launches(&quiet.map(|(value, _)| (value, f64::from(u8::from(value != 199.0)))));
        assert_eq!(found(&restless, &slower).0, Verdict::Undecided);
        // The decision does not depend on measured values: the same values, undisturbed.
        let wild = launches(&quiet.map(|(value, _)| (value, 0.0)));
        assert_eq!(found(&wild, &wild).0, Verdict::Same);
        assert_eq!(
            between(&wild, &wild, &Thresholds::default()).changes[0].a,
            200.0
        );
    }

    #[test]
    fn models_are_compared_exactly() {
        let mut slower = launches(&[(800.0, 0.0)]);
        let mut before = launches(&[(100.0, 0.0)]);
        let verdict =
            |a: &Loaded, b: &Loaded| between(a, b, &Thresholds::default()).changes[0].verdict;
        assert_eq!(verdict(&before, &slower), Verdict::Undecided);
        for run in [&mut before, &mut slower] {
            run.run.fabric = "model".to_owned();
        }
        assert_eq!(verdict(&before, &slower), Verdict::Regressed);
        assert_eq!(verdict(&slower, &before), Verdict::Improved);
        assert_eq!(verdict(&slower, &slower), Verdict::Same);
        let tiny = Loaded {
            points: launches(&[(100.1, 0.0)]).points,
            ..before.clone()
        };
        assert_eq!(verdict(&before, &tiny), Verdict::Regressed);
        let equal = Loaded {
            points: launches(&[(100.04, 0.0)]).points,
            ..before.clone()
        };
        assert_eq!(verdict(&before, &equal), Verdict::Same);
        let strict = Thresholds {
            exact: 0.0,
            ..Thresholds::default()
        };
        let compared = between(&before, &equal, &strict);
        assert_eq!(compared.changes[0].verdict, Verdict::Regressed);
        let lenient = Thresholds {
            exact: 0.01,
            ..Thresholds::default()
        };
        let compared = between(&before, &tiny, &lenient);
        assert_eq!(compared.changes[0].verdict, Verdict::Same);
    }

    #[test]
    fn a_large_insignificant_difference_is_undecided() {
        let noisy = [(100.0, 0.0), (340.0, 0.0), (120.0, 0.0)];
        let other = [(141.0, 0.0), (90.0, 0.0), (300.0, 0.0)];
        let compared = between(&launches(&noisy), &launches(&other), &Thresholds::default());
        assert_eq!(compared.changes[0].verdict, Verdict::Undecided);
        assert_eq!(compared.launches, [3]);
    }
}

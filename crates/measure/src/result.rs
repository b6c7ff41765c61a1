//! What a measurement yields, as plain data: points with metrics, failures, findings. The report crate writes and reads
//! them; `docs/results-schema.md` defines every field.

use crate::bound::Bound;
use crate::compare::Better;
use crate::converge;
use crate::sample::Sample;
use crate::stats::interval::{self, Interval};
use crate::stats::outlier::{self, Outliers};
use crate::stats::quantile;
use crate::warning::Warning;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A parameter's value.
#[derive(Debug, Clone, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Three hundred digits tell nobody more.
            Value::Number(number)
                if number.abs() >= 1e16 || *number != 0.0 && number.abs() < 1e-4 =>
            {
                write!(f, "{number:e}")
            }
            Value::Number(number) => write!(f, "{number}"),
            Value::Word(word) => f.write_str(word),
        }
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Value::Number(number)
    }
}
impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Value::Number(number as f64)
    }
}
impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Value::Number(f64::from(number))
    }
}
impl From<&str> for Value {
    fn from(word: &str) -> Self {
        Value::Word(word.to_owned())
    }
}

/// Parameters of a point by name.
pub type Parameters = BTreeMap<String, Value>;

/// The distribution of a sample (rule 6).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Samples.
    pub n: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile, where ten samples lie beyond.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation; `None` for one sample.
    pub deviation: Option<f64>,
    /// 95 % interval of the median from order statistics.
    pub median_interval: Option<Interval>,
    /// Outliers, counted and kept.
    pub outliers: Outliers,
    /// Quantiles at evenly spaced shares, for drawing; the first is the smallest, the last the largest.
    pub quantiles: Vec<f64>,
    /// The slowest tenth, as values and how many samples lie there (within 0.4 %), so that launches can be pooled.
    #[serde(default)]
    pub tail: Vec<(f64, u64)>,
}

/// Quantiles kept for drawing.
const DRAWN: usize = 65;

impl Summary {
    /// Of a sample.
    pub fn of(sample: &Sample) -> Summary {
        let drawn = if sample.count() < 2 {
            1
        } else {
            DRAWN.min(sample.count())
        };
        let share = |i: usize| {
            if drawn < 2 {
                0.5
            } else {
                i as f64 / (drawn - 1) as f64
            }
        };
        Summary {
            n: sample.count() as u64,
            min: sample.min(),
            p50: sample.median(),
            p90: quantile::supported(sample, 0.9),
            p99: quantile::supported(sample, 0.99),
            p999: quantile::supported(sample, 0.999),
            max: sample.max(),
            mean: sample.mean(),
            deviation: sample.standard_deviation(),
            median_interval: interval::of_quantile(sample, 0.5),
            outliers: outlier::classify(sample),
            quantiles: (0..drawn)
                .map(|i| quantile::nearest_rank(sample, share(i)))
                .collect(),
            tail: tail(sample),
        }
    }
}

/// The slowest tenth in buckets, each as wide as a 128th of its value.
fn tail(sample: &Sample) -> Vec<(f64, u64)> {
    let values = sample.values();
    let mut tail: Vec<(f64, u64)> = Vec::new();
    let mut from = f64::NEG_INFINITY;
    for &value in &values[values.len() - values.len() / 10..] {
        match tail.last_mut() {
            Some((middle, count)) if value <= from + from.abs() / 128.0 => {
                *middle = (from + value) / 2.0;
                *count += 1;
            }
            _ => {
                from = value;
                tail.push((value, 1));
            }
        }
    }
    tail
}

/// Times of operations: each by itself, and, where the clock's own time is too large a part of that, the means of batches
/// (rule 2).
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Of single operations.
    pub singles: Sample,
    /// An operation's, each of a batch.
    pub batches: Option<Sample>,
}

impl Times {
    /// What the median is of.
    pub fn level(&self) -> &Sample {
        self.batches.as_ref().unwrap_or(&self.singles)
    }

    /// The median.
    pub fn median(&self) -> f64 {
        self.level().median()
    }
}

/// One metric of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name in `docs/methods.md`.
    pub name: String,
    /// `ns`, `bytes/s`, `1/s`, `bytes`.
    pub unit: String,
    /// Which way it gets better.
    pub better: Better,
    /// The figure: the median of the samples, or a rate.
    pub value: f64,
    /// Where it was sampled.
    pub summary: Option<Summary>,
    /// The bound beside it.
    pub bound: Option<Bound>,
}

impl Metric {
    /// A time, lower is better; its figure is the median.
    pub fn time(name: &str, sample: &Sample) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: "ns".to_owned(),
            better: Better::Lower,
            value: sample.median(),
            summary: Some(Summary::of(sample)),
            bound: None,
        }
    }

    /// A time whose figure is the median of batches where there are any; its distribution is always that of single
    /// operations.
    pub fn times(name: &str, times: &Times) -> Metric {
        let mut metric = Metric::time(name, &times.singles);
        metric.value = times.median();
        if let (Some(batches), Some(summary)) = (&times.batches, &mut metric.summary) {
            summary.median_interval = interval::of_quantile(batches, 0.5);
        }
        metric
    }

    /// A time of which only means over many operations are known: no distribution.
    pub fn mean_time(name: &str, batches: &Sample) -> Metric {
        Metric::figure(name, "ns", Better::Lower, batches.median())
    }

    /// A rate, higher is better; its figure is the median over blocks.
    pub fn rate(name: &str, unit: &str, sample: &Sample) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better: Better::Higher,
            value: sample.median(),
            summary: Some(Summary::of(sample)),
            bound: None,
        }
    }

    /// A single figure.
    pub fn figure(name: &str, unit: &str, better: Better, value: f64) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            value,
            summary: None,
            bound: None,
        }
    }

    /// The same with a bound.
    pub fn bounded(mut self, bound: Option<Bound>) -> Metric {
        self.bound = bound;
        self
    }

    /// The warning that its sample did not converge, if it is so.
    pub fn unconverged(sample: &Sample) -> Option<Warning> {
        let judged = converge::judge(sample, converge::TARGET);
        (!judged.converged).then_some(Warning::Unconverged {
            half_width: judged.half_width,
        })
    }
}

/// One pair's share of a point (rule 12).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PairResult {
    /// The pair, from 0.
    pub pair: usize,
    /// Its two ranks.
    pub ranks: [usize; 2],
    /// Its figure in the unit of the point's first metric.
    pub value: f64,
    /// Its smallest sample.
    pub min: f64,
    /// Its largest.
    pub max: f64,
}

/// How a point was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conduct {
    /// Operations before counting began (rule 4).
    pub warmup: u64,
    /// The very first operation, in nanoseconds.
    pub first: Option<f64>,
    /// Operations timed together.
    pub batch: u32,
    /// Between the first and the last start, in nanoseconds (rule 11).
    pub start_skew: Option<f64>,
    /// By how many nanoseconds that may be wrong, where the processes have several clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error: Option<f64>,
    /// Share of the union interval in which all were active (rule 10).
    pub overlap: Option<f64>,
    /// `free` or `lockstep` (rule 11).
    pub mode: Option<String>,
    /// Whether the data was checked, in a pass that is not timed (rule 18).
    pub validated: bool,
    /// Of the looks between blocks, the share that found a processor slower than it is alone (rule 5). Nothing is removed
    /// for it. `None` where nobody looked.
    #[serde(default)]
    pub disturbed: Option<f64>,
    /// Bytes of the buffers that the headline's messages went over in turn (rule 16); `None` for one buffer that is used
    /// again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<u64>,
    /// Who read what arrived, while the clock ran: `receiver`, `initiator` or `nobody`. `None` where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
    /// Whether it was measured on the way to a knee: where depends on what this launch saw, so no other need have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub search: bool,
}

/// One measured point.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Point {
    /// The benchmark's name.
    pub benchmark: String,
    /// The launch, from 0 (rule 8).
    pub launch: u32,
    /// Its parameters.
    pub parameters: Parameters,
    /// Its metrics; the first is the headline.
    pub metrics: Vec<Metric>,
    /// Per pair, where there are several.
    #[serde(default)]
    pub pairs: Vec<PairResult>,
    /// How it was measured.
    pub conduct: Conduct,
    /// What to know about it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Point {
    /// Why it cannot be kept: a figure that is no number, which JSON has no word for.
    pub fn unusable(&self) -> Option<String> {
        let found = self
            .metrics
            .iter()
            .find(|metric| !metric.value.is_finite())?;
        Some(format!("its {} came out as {}", found.name, found.value))
    }
}

/// A point that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The benchmark.
    pub benchmark: String,
    /// The launch.
    pub launch: u32,
    /// Its parameters, as far as known.
    pub parameters: Parameters,
    /// Why.
    pub reason: String,
    /// Whether the fabric simply has no such thing.
    pub unsupported: bool,
}

/// Something the suite found by analysis: a knee, N½, a slope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The benchmark.
    pub benchmark: String,
    /// The launch.
    pub launch: u32,
    /// What it is, a name in `docs/methods.md`.
    pub name: String,
    /// Parameters that it holds for.
    pub parameters: Parameters,
    /// The figure; `None` when there is none, e.g. no knee in the range.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Not below and not above, where known.
    pub range: Option<Interval>,
    /// One sentence for people.
    pub text: String,
}

//! The results of a measurement as plain data: points with metrics, failures, findings. The report
//! crate reads and writes them; `docs/results-schema.md` defines every field.

use crate::bound::Bound;
use crate::compare::Better;
use crate::converge;
use crate::sample::Sample;
use crate::stats::interval::{self, Interval};
use crate::stats::outlier::{self, Outliers};
use crate::stats::quantile;
use crate::unit;
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
            // Scientific notation instead of up to three hundred digits.
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
    /// Number of samples.
    pub n: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile; like the others below, `None` if fewer than ten samples lie beyond it.
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
    /// Quantiles at evenly spaced shares, for plotting; the first is the smallest sample, the last
    /// the largest.
    pub quantiles: Vec<f64>,
    /// The slowest tenth, as values and number of samples at each (within 0.4 %), so that launches
    /// can be pooled.
    #[serde(default)]
    pub tail: Vec<(f64, u64)>,
}

/// Number of quantiles kept for plotting.
const DRAWN: usize = 65;

impl Summary {
    /// Summarises a sample.
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

/// Returns the slowest tenth in buckets, each as wide as 1/128 of its value.
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

/// Times of operations: of each one and, if the clock's overhead is too large a part of it, the
/// means of batches (rule 2).
#[derive(Debug, Clone, PartialEq)]
pub struct Times {
    /// Times of single operations.
    pub singles: Sample,
    /// Mean time per operation, one value per batch.
    pub batches: Option<Sample>,
}

impl Times {
    /// Returns the sample that the median is taken from.
    pub fn level(&self) -> &Sample {
        self.batches.as_ref().unwrap_or(&self.singles)
    }

    /// Returns the median.
    pub fn median(&self) -> f64 {
        self.level().median()
    }
}

/// How far a model's figure may be from a real machine's, in the unit of its metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Share of real figures that are expected within `low` and `high`, e.g. 0.8.
    pub level: f64,
    /// Low end.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// Share of real figures that are expected within `wide_low` and `wide_high`.
    pub wide_level: f64,
    /// Low end of the wide interval.
    pub wide_low: f64,
    /// High end of the wide interval.
    pub wide_high: f64,
    /// The published curves that it comes from, and whether the model is blind or anchored.
    pub origin: String,
}

/// One metric of a point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Its name in `docs/methods.md`.
    pub name: String,
    /// `ns`, `bytes/s`, `1/s`, `bytes`.
    pub unit: String,
    /// The direction of improvement.
    pub better: Better,
    /// The figure: the median of the samples, or a rate.
    pub value: f64,
    /// The distribution, if the metric was sampled.
    pub summary: Option<Summary>,
    /// The bound shown beside it.
    pub bound: Option<Bound>,
    /// The interval of a model's figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

impl Metric {
    /// Returns a time; lower is better, and its figure is the median.
    pub fn time(name: &str, sample: &Sample) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: "ns".to_owned(),
            better: Better::Lower,
            value: sample.median(),
            summary: Some(Summary::of(sample)),
            bound: None,
            predicted: None,
        }
    }

    /// Returns a time whose figure is the median of batches if there are any; its distribution is
    /// always that of single operations.
    pub fn times(name: &str, times: &Times) -> Metric {
        let mut metric = Metric::time(name, &times.singles);
        metric.value = times.median();
        if let (Some(batches), Some(summary)) = (&times.batches, &mut metric.summary) {
            summary.median_interval = interval::of_quantile(batches, 0.5);
        }
        metric
    }

    /// Returns a time known only as means over many operations, without a distribution.
    pub fn mean_time(name: &str, batches: &Sample) -> Metric {
        Metric::figure(name, "ns", Better::Lower, batches.median())
    }

    /// Returns a rate; higher is better, and its figure is the median over blocks.
    pub fn rate(name: &str, unit: &str, sample: &Sample) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better: Better::Higher,
            value: sample.median(),
            summary: Some(Summary::of(sample)),
            bound: None,
            predicted: None,
        }
    }

    /// Returns a single figure.
    pub fn figure(name: &str, unit: &str, better: Better, value: f64) -> Metric {
        Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better,
            value,
            summary: None,
            bound: None,
            predicted: None,
        }
    }

    /// Returns the metric with this bound.
    pub fn bounded(mut self, bound: Option<Bound>) -> Metric {
        self.bound = bound;
        self
    }

    /// Returns a warning if the sample did not converge.
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
    /// Its largest sample.
    pub max: f64,
}

/// How a point was measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Conduct {
    /// Operations before counting began (rule 4).
    pub warmup: u64,
    /// Time of the first operation, in nanoseconds.
    pub first: Option<f64>,
    /// Operations timed together.
    pub batch: u32,
    /// Time between the first and the last start, in nanoseconds (rule 11).
    pub start_skew: Option<f64>,
    /// Error bound of that in nanoseconds, if the processes have several clocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_error: Option<f64>,
    /// Share of the union interval in which all pairs were active (rule 10).
    pub overlap: Option<f64>,
    /// `free` or `lockstep` (rule 11).
    pub mode: Option<String>,
    /// Whether the data was checked, in a pass that is not timed (rule 18).
    pub validated: bool,
    /// Share of the pace checks between blocks that found a processor slower than its undisturbed
    /// pace (rule 5). No sample is removed for it. `None` if there were no checks.
    #[serde(default)]
    pub disturbed: Option<f64>,
    /// Total size in bytes of the buffers that the headline's messages used in rotation (rule 16);
    /// `None` for a single reused buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub footprint: Option<u64>,
    /// Which side read the received data while the clock ran: `receiver`, `initiator` or `nobody`.
    /// `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
    /// Whether the point was measured during a knee search: its position depends on this launch's
    /// values, so other launches need not have it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub search: bool,
}

/// A port of a modelled fabric, and its use while a point was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HotPort {
    /// Its name: that of the node and the number of the port.
    pub port: String,
    /// The port at the far end of its link.
    pub to: String,
    /// Share of the time in which it sent packets with payload.
    pub sending: f64,
    /// Share of the time in which it had packets to send, and sent none for lack of credits.
    pub waiting: f64,
    /// The latter in nanoseconds: `PortXmitWait`, times the duration of its tick.
    pub xmit_wait: f64,
}

impl std::fmt::Display for HotPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sending, waiting) = (100.0 * self.sending, 100.0 * self.waiting);
        write!(
            f,
            "{} to {}: sends for {sending:.0} % of the time, waits for credits for {waiting:.0} % \
             ({})",
            self.port,
            self.to,
            unit::time(self.xmit_wait)
        )
    }
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
    /// Results per pair, if there are several.
    #[serde(default)]
    pub pairs: Vec<PairResult>,
    /// How it was measured.
    pub conduct: Conduct,
    /// The hottest ports of a fabric that exists, by a model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hot_ports: Vec<HotPort>,
    /// Warnings about it.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}

impl Point {
    /// Returns why the point cannot be kept: a figure that is not finite, which JSON cannot
    /// represent.
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
    /// The reason.
    pub reason: String,
    /// Whether the fabric does not support it.
    pub unsupported: bool,
}

/// Beginning of the reason of a point that was not computed, because the run stopped before.
pub const NOT_COMPUTED: &str = "not computed: ";

impl Failure {
    /// Returns whether the run stopped before the point was computed.
    pub fn is_not_computed(&self) -> bool {
        self.reason.starts_with(NOT_COMPUTED)
    }
}

/// A result of analysis: a knee, N½, a slope.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The benchmark.
    pub benchmark: String,
    /// The launch.
    pub launch: u32,
    /// Its kind, a name in `docs/methods.md`.
    pub name: String,
    /// Parameters that it holds for.
    pub parameters: Parameters,
    /// The figure; `None` if there is none, e.g. no knee in the range.
    pub value: Option<f64>,
    /// Its unit.
    pub unit: String,
    /// Lower and upper limit, where known.
    pub range: Option<Interval>,
    /// One sentence for the reader.
    pub text: String,
}

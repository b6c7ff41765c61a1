//! A history: one key over many runs, and its step changes (rule 21).

use crate::comparison::Thresholds;
use crate::gather::{Row, key, rows};
use crate::run_directory::Loaded;
use std::collections::BTreeMap;
use verbena_measure::compare::Better;
use verbena_measure::stats::step;

/// A step change of a key's level.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct Moved {
    /// Benchmark, parameters and metric.
    pub key: String,
    /// The first run of the new level, as an index into the runs in order of time.
    pub run: usize,
    /// The previous level.
    pub before: f64,
    /// The new level.
    pub after: f64,
    /// Unit of both levels.
    pub unit: String,
    /// Whether the new level is worse.
    pub worse: bool,
    /// Whether the level still holds in the last run.
    pub holds: bool,
}

struct Series {
    unit: String,
    better: Better,
    threshold: f64,
    /// (run, figure).
    values: Vec<(usize, f64)>,
}

/// Returns the step changes of all headline metrics over `runs`, which are in order of time. The
/// result is sorted by key, then by time.
pub fn moves(runs: &[Loaded], thresholds: &Thresholds) -> Vec<Moved> {
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for row in rows(run) {
            add(&mut all, number, &row, thresholds);
        }
    }
    all.iter()
        .flat_map(|(key, series)| found(key, series))
        .collect()
}

fn add(all: &mut BTreeMap<String, Series>, run: usize, row: &Row, thresholds: &Thresholds) {
    let Some(figure) = row.figures.first() else {
        return;
    };
    let key = format!("{}: {}", key(&row.benchmark, &row.parameters), figure.name);
    let series = all.entry(key).or_insert_with(|| Series {
        unit: figure.unit.clone(),
        better: figure.better,
        threshold: thresholds.of(&row.benchmark),
        values: Vec::new(),
    });
    series.values.push((run, figure.value));
}

fn found(key: &str, series: &Series) -> Vec<Moved> {
    let values: Vec<f64> = series.values.iter().map(|(_, value)| *value).collect();
    let steps = step::steps(&values, series.threshold);
    let last = steps.len();
    let moved = |(i, step): (usize, &step::Step)| Moved {
        key: key.to_owned(),
        run: series.values[step.at].0,
        before: step.before,
        after: step.after,
        unit: series.unit.clone(),
        worse: (step.after > step.before) == (series.better == Better::Lower),
        holds: i + 1 == last,
    };
    steps.iter().enumerate().map(moved).collect()
}

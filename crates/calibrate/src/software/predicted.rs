//! The model's predictions for measured figures: the same benchmarks at the same points.

use super::Observed;
use std::collections::BTreeSet;
use std::time::Duration;
use verbena_fabric::model::Machine;
use verbena_measure::result::{Point, Value};
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Budget, Options, RateBudget, Record, Sweep};

/// Virtual duration of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// As short as possible: a search runs them hundreds of times, and every byte of a modelled
    /// message is really copied.
    Search,
    /// As in [`Budget::virtual_time`]: long enough to use the buffers of a benchmark more than
    /// once.
    Verdict,
}

/// Returns the model's figure for each measured one; `None` if it has none.
pub fn predicted(machine: &Machine, observed: &[Observed], effort: Effort) -> Vec<Option<f64>> {
    let mut points: Vec<Point> = Vec::new();
    let mut asked: Vec<&str> = Vec::new();
    for one in observed {
        if asked.contains(&one.benchmark.name) {
            continue;
        }
        asked.push(one.benchmark.name);
        let same: Vec<&Observed> = observed
            .iter()
            .filter(|other| other.benchmark == one.benchmark)
            .collect();
        points.extend(answers(machine, &same, effort));
    }
    observed
        .iter()
        .map(|one| {
            points.iter().find_map(|point| {
                let mut metrics = point.metrics.iter();
                let metric = metrics.find(|metric| one.is_of(point, metric))?;
                Some(metric.value).filter(|value| *value > 0.0)
            })
        })
        .collect()
}

/// Runs a benchmark at the sizes of the measured figures.
fn answers(machine: &Machine, observed: &[&Observed], effort: Effort) -> Vec<Point> {
    let sizes: BTreeSet<usize> = observed
        .iter()
        .filter_map(|one| match one.parameters.get("size") {
            Some(Value::Number(size)) => Some(*size as usize),
            _ => None,
        })
        .collect();
    let options = Options {
        sizes: Some(sizes.into_iter().collect()),
        pairs: Some(vec![1]),
        transports: Some(vec!["rc".to_owned()]),
        ..Options::default()
    };
    let run = |sweep| -> Vec<Point> {
        let modelled = Modelled {
            options: options.clone(),
            budget: Budget {
                sweep,
                ..budget(effort)
            },
            ..Modelled::new(machine.clone(), observed[0].benchmark)
        };
        // If the model refuses the benchmark, there are no answers.
        let records = modelled
            .run()
            .map_or_else(|_| Vec::new(), |ran| ran.records);
        let points = records.into_iter().filter_map(|record| match record {
            Record::Point(point) => Some(*point),
            _ => None,
        });
        points.collect()
    };
    let coarse = run(Sweep::Coarse);
    let is_there = |one: &&Observed| coarse.iter().any(|p| p.parameters == one.parameters);
    match observed.iter().all(is_there) {
        true => coarse,
        false => run(Sweep::Fine),
    }
}

fn budget(effort: Effort) -> Budget {
    let usual = Budget::virtual_time();
    match effort {
        Effort::Verdict => usual,
        Effort::Search => Budget {
            most: 16,
            rates: RateBudget {
                block: Duration::from_micros(300),
                blocks: 1,
                least: 16,
                most: 1000,
                extrapolates: false,
            },
            ..usual
        },
    }
}

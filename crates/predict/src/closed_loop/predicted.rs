//! What the model has for figures that were measured: the same benchmarks, at the same points.

use super::Observed;
use crate::suite::{Asked, run};
use std::collections::BTreeSet;
use verbena_fabric::model::Machine;
use verbena_measure::result::{Point, Value};
use verbena_workloads::{Benchmark, Options, Sweep};

/// The model's figure for each that was measured; `None` where it has no answer.
pub fn predicted(machine: &Machine, observed: &[Observed]) -> Vec<Option<f64>> {
    let mut points: Vec<Point> = Vec::new();
    let mut asked: Vec<&str> = Vec::new();
    for one in observed {
        if asked.contains(&one.benchmark.name) {
            continue;
        }
        asked.push(one.benchmark.name);
        let same = |other: &&Observed| other.benchmark == one.benchmark;
        points.extend(answers(
            machine,
            one.benchmark,
            observed.iter().filter(same),
        ));
    }
    observed
        .iter()
        .map(|one| {
            points.iter().find_map(|point| {
                let metric = point
                    .metrics
                    .iter()
                    .find(|metric| one.is_of(point, metric))?;
                Some(metric.value).filter(|value| *value > 0.0)
            })
        })
        .collect()
}

/// The points of a benchmark that has the sizes of those that were measured.
fn answers<'o>(
    machine: &Machine,
    benchmark: &'static Benchmark,
    observed: impl Iterator<Item = &'o Observed> + Clone,
) -> Vec<Point> {
    let sizes: BTreeSet<usize> = observed
        .clone()
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
    let run = |sweep| {
        let asked = Asked {
            options: options.clone(),
            sweep,
            processes: None,
        };
        // What the model refuses as a whole it has no answer to.
        run(machine.clone(), benchmark, asked).unwrap_or_default()
    };
    let coarse = run(Sweep::Coarse);
    let is_there = |one: &Observed| coarse.iter().any(|p| p.parameters == one.parameters);
    match observed.clone().all(is_there) {
        true => coarse,
        false => run(Sweep::Fine),
    }
}

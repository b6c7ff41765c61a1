//! Figures of the benchmark suite on a modelled system: the same benchmarks that run on adapters, asked for single points.

use std::time::Duration;
use verbena_fabric::model::Machine;
use verbena_measure::result::{Metric, Point, Value};
use verbena_model::profile::System;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Mode, Options, Record, Sweep, find};

/// Operations of a latency that are counted.
const OPERATIONS: u64 = 24;

/// A benchmark of the suite on a system, with what a user could ask for.
#[derive(Debug, Clone)]
pub struct Suite<'a> {
    system: &'a System,
    benchmark: &'static str,
    options: Options,
    sweep: Sweep,
}

impl<'a> Suite<'a> {
    /// The benchmark as it comes.
    pub fn new(system: &'a System, benchmark: &'static str) -> Suite<'a> {
        Suite {
            system,
            benchmark,
            options: Options::default(),
            sweep: Sweep::Coarse,
        }
    }

    /// The same with messages of one size.
    pub fn size(mut self, bytes: u64) -> Suite<'a> {
        self.options.sizes = Some(vec![bytes as usize]);
        self
    }

    /// The same with so many pairs, in lockstep.
    pub fn pairs(mut self, pairs: usize) -> Suite<'a> {
        self.options.pairs = Some(vec![pairs]);
        self.options.mode = Some(Mode::Lockstep);
        self
    }

    /// The same with messages up to so many bytes inline.
    pub fn inline(mut self, most: u32) -> Suite<'a> {
        self.options.inline = Some(most);
        self
    }

    /// The same with a completion for every message, as the measurement programs of the papers' time ask for it.
    pub fn every_signalled(self) -> Suite<'a> {
        self.signal_every(1)
    }

    /// The same with a completion for every so many messages.
    pub fn signal_every(mut self, messages: u64) -> Suite<'a> {
        self.options.signal_every = Some(messages);
        self
    }

    /// The same over one transport.
    pub fn transport(mut self, word: &str) -> Suite<'a> {
        self.options.transports = Some(vec![word.to_owned()]);
        self
    }

    /// The same with every step of its sweep.
    pub fn fine(mut self) -> Suite<'a> {
        self.sweep = Sweep::Fine;
        self
    }

    /// Runs it. Panics if there is no such benchmark or it does not end: faults of the claim's measurement.
    pub fn points(self) -> Vec<Point> {
        let benchmark = find(self.benchmark)
            .unwrap_or_else(|| panic!("the suite has a benchmark {}", self.benchmark));
        let asked = Asked {
            options: self.options,
            sweep: self.sweep,
            processes: None,
        };
        run(self.system, benchmark, asked)
            .unwrap_or_else(|error| panic!("{} on {}: {error}", self.benchmark, self.system.name))
    }

    /// The first point's headline as a mean: what the papers print. Of times in microseconds, of rates in 10^6 bytes a
    /// second.
    pub fn figure(self) -> f64 {
        self.points().first().map_or(f64::NAN, figure)
    }

    /// The same of the point whose parameters are these.
    pub fn figure_at(self, parameters: &[(&str, Value)]) -> f64 {
        let points = self.points();
        let matching = points.iter().find(|point| {
            parameters
                .iter()
                .all(|(name, value)| point.parameters.get(*name) == Some(value))
        });
        matching.map_or(f64::NAN, figure)
    }
}

/// What is asked of a benchmark.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub options: Options,
    pub sweep: Sweep,
    /// Of a pattern.
    pub processes: Option<usize>,
}

/// Runs a benchmark for single points.
pub(crate) fn run(
    machine: impl Into<Machine>,
    benchmark: &'static Benchmark,
    asked: Asked,
) -> Result<Vec<Point>, verbena_fabric::Error> {
    let ran = Modelled {
        options: asked.options,
        processes: asked.processes,
        budget: Budget {
            warmup: Duration::from_micros(5),
            most: OPERATIONS,
            sweep: asked.sweep,
            ..Budget::virtual_time()
        },
        ..Modelled::new(machine, benchmark)
    }
    .run()?;
    let points = ran.records.into_iter().filter_map(|record| match record {
        Record::Point(point) => Some(*point),
        _ => None,
    });
    Ok(points.collect())
}

/// What the papers measured of a point, as a mean: its headline, but streams over one buffer; of times in microseconds, of
/// rates in 10^6 bytes a second.
pub(crate) fn figure(point: &Point) -> f64 {
    let mut metrics = point.metrics.iter();
    let cached = metrics.find(|metric| metric.name == "cached-bandwidth");
    let metric: &Metric = cached.unwrap_or(&point.metrics[0]);
    match (metric.unit.as_str(), &metric.summary) {
        ("ns", Some(summary)) => summary.mean / 1e3,
        (_, Some(summary)) => summary.mean / 1e6,
        (_, None) => metric.value / 1e6,
    }
}

//! Figures of the benchmark suite on a modelled system: the benchmarks that also run on adapters,
//! for single points.

use std::time::Duration;
use verbena_fabric::model::{Fidelity, Machine};
use verbena_measure::result::{Metric, Point, Value};
use verbena_model::profile::System;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Benchmark, Budget, Mode, Options, Record, Sweep, find};

/// Number of counted operations of a latency.
const OPERATIONS: u64 = 24;

/// A benchmark of the suite on a system, with a user's options.
#[derive(Debug, Clone)]
pub struct Suite<'a> {
    system: &'a System,
    benchmark: &'static str,
    options: Options,
    sweep: Sweep,
}

impl<'a> Suite<'a> {
    /// Returns the benchmark with its default options.
    pub fn new(system: &'a System, benchmark: &'static str) -> Suite<'a> {
        Suite {
            system,
            benchmark,
            options: Options::default(),
            sweep: Sweep::Coarse,
        }
    }

    /// Sets the message size in bytes.
    pub fn size(mut self, bytes: u64) -> Suite<'a> {
        self.options.sizes = Some(vec![bytes as usize]);
        self
    }

    /// Sets the number of pairs, in lockstep.
    pub fn pairs(mut self, pairs: usize) -> Suite<'a> {
        self.options.pairs = Some(vec![pairs]);
        self.options.mode = Some(Mode::Lockstep);
        self
    }

    /// Has pairs run independently.
    pub fn free(mut self) -> Suite<'a> {
        self.options.mode = Some(Mode::Free);
        self
    }

    /// Sets the largest inline message in bytes.
    pub fn inline(mut self, most: u32) -> Suite<'a> {
        self.options.inline = Some(most);
        self
    }

    /// Requests a completion for every message, as the measurement programs of the papers' time do.
    pub fn every_signalled(self) -> Suite<'a> {
        self.signal_every(1)
    }

    /// Requests a completion after this many messages.
    pub fn signal_every(mut self, messages: u64) -> Suite<'a> {
        self.options.signal_every = Some(messages);
        self
    }

    /// Sets the transport.
    pub fn transport(mut self, word: &str) -> Suite<'a> {
        self.options.transports = Some(vec![word.to_owned()]);
        self
    }

    /// Runs every step of its sweep.
    pub fn fine(mut self) -> Suite<'a> {
        self.sweep = Sweep::Fine;
        self
    }

    /// Runs the benchmark.
    ///
    /// # Panics
    ///
    /// If there is no such benchmark or it does not end: an error in the claim's measurement.
    pub fn points(self) -> Vec<Point> {
        let benchmark = find(self.benchmark)
            .unwrap_or_else(|| panic!("the suite has a benchmark {}", self.benchmark));
        let asked = Asked {
            options: self.options,
            sweep: self.sweep,
            processes: None,
            fidelity: Fidelity::Packet,
        };
        run(self.system, benchmark, asked)
            .unwrap_or_else(|error| panic!("{} on {}: {error}", self.benchmark, self.system.name))
    }

    /// Returns the first point's headline as a mean, as printed in the papers: times in
    /// microseconds, rates in 10^6 bytes a second.
    pub fn figure(self) -> f64 {
        self.points().first().map_or(f64::NAN, figure)
    }

    /// Like [`figure`](Suite::figure), for the point with these parameters.
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

/// Settings of a benchmark.
#[derive(Debug, Clone)]
pub struct Asked {
    /// A user's options.
    pub options: Options,
    /// Density of a sweep's steps.
    pub sweep: Sweep,
    /// Number of processes of a pattern.
    pub processes: Option<usize>,
    /// Whether packets or whole messages are simulated.
    pub fidelity: Fidelity,
}

/// Runs a benchmark and returns its points.
///
/// # Errors
///
/// Returns an error if the benchmark cannot run on the machine.
pub fn run(
    machine: impl Into<Machine>,
    benchmark: &'static Benchmark,
    asked: Asked,
) -> Result<Vec<Point>, verbena_fabric::Error> {
    let ran = Modelled {
        options: asked.options,
        processes: asked.processes,
        fidelity: asked.fidelity,
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

/// Returns the metric of a point's [`figure`].
pub fn headline(point: &Point) -> &Metric {
    let mut metrics = point.metrics.iter();
    let cached = metrics.find(|metric| metric.name == "cached-bandwidth");
    cached.unwrap_or(&point.metrics[0])
}

/// Returns a point's figure as measured in the papers, as a mean: its headline, or for streams the
/// figure over one buffer. Times are in microseconds, rates in 10^6 bytes a second.
pub fn figure(point: &Point) -> f64 {
    let metric = headline(point);
    match (metric.unit.as_str(), &metric.summary) {
        ("ns", Some(summary)) => summary.mean / 1e3,
        (_, Some(summary)) => summary.mean / 1e6,
        (_, None) => metric.value / 1e6,
    }
}

/// Returns a point's figure as [`figure`] does, of a time the median: a preemption on a busy
/// machine changes it little.
pub fn median(point: &Point) -> f64 {
    let metric = headline(point);
    match metric.unit.as_str() {
        "ns" => metric.value / 1e3,
        _ => figure(point),
    }
}

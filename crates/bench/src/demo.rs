//! The figures of `verbena demo`: measured by the suite's benchmarks in two processes, and
//! computed by a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use crate::Failure;
use crate::host::Host;
use crate::local::{Ended, launch};
use crate::options::MeasureOptions;
use crate::plan::{Floors, Task};
use crate::profiles::Profiles;
use crate::resolved::Resolved;
use crate::target::{Found, Target};
use verbena_fabric::model::Machine;
use verbena_measure::clock::Clock;
use verbena_measure::result::{Metric, Point};
use verbena_report::schema::Line;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Budget, Record, Sweep, find};

/// The adapter to compare with.
const PROFILE: &str = "connectx6-hdr";
const LATENCY: &str = "latency.write";
const BANDWIDTH: &str = "bandwidth.write";
/// Size in bytes of the writes whose latency is measured.
const SMALL: usize = 8;
/// Size in bytes of the writes whose bandwidth is measured.
const LARGE: usize = 64 << 10;

/// Measured figures; `None` if the machine was too busy to measure one in time.
pub struct Figures {
    /// One-way latency of a small write.
    pub latency: Option<Latency>,
    /// Bytes per second of large writes.
    pub bandwidth: Option<f64>,
    /// Size of the large writes in bytes.
    pub size: usize,
}

/// The latency of a write, one way.
pub struct Latency {
    /// Median in nanoseconds.
    pub median: f64,
    /// 99th percentile in nanoseconds, if enough operations were timed.
    pub slow: Option<f64>,
    /// Number of measured writes.
    pub operations: u64,
}

impl Figures {
    /// Measures latency and bandwidth, each until its deadline or until `stop` is set.
    ///
    /// # Errors
    ///
    /// Fails if the benchmarks do not run here.
    pub fn measure(
        host: &dyn Host,
        stop: &Arc<AtomicBool>,
        deadlines: [Instant; 2],
    ) -> Result<Figures, Failure> {
        let target = Target::Software.find(host, &Profiles::default())?;
        let Found::Adapter(target) = target else {
            unreachable!("the software adapter is not a model");
        };
        let clock = Clock::best();
        let nanos = (clock.name() == "tsc").then_some(clock.nanos_per_tick);
        // Another of this user's processes that ends meanwhile may remove the runtime directory,
        // which is empty between two launches; a launch that fails for this reason succeeds when
        // repeated.
        let twice = |point, deadline| {
            measured(host, &target, nanos, point, stop, deadline)
                .or_else(|_| measured(host, &target, nanos, point, stop, deadline))
        };
        let latency = twice((LATENCY, SMALL), deadlines[0])?;
        let bandwidth = twice((BANDWIDTH, LARGE), deadlines[1])?;
        Ok(Figures {
            latency: latency.map(|metric| Latency {
                median: metric.value,
                slow: metric.summary.as_ref().and_then(|summary| summary.p99),
                operations: metric.summary.map_or(1, |summary| summary.n),
            }),
            bandwidth: bandwidth.map(|metric| metric.value),
            size: LARGE,
        })
    }
}

/// The adapter to compare with, by its model.
pub struct Model {
    /// One-way latency of the same small write, in nanoseconds.
    pub latency: f64,
    /// Its name.
    pub name: String,
}

impl Model {
    /// Computes the figures.
    ///
    /// # Errors
    ///
    /// Fails if the shipped profiles lack the model.
    pub fn compute() -> Result<Model, Failure> {
        let library = Profiles::default().library()?;
        let machine = Machine::of(&library, PROFILE);
        let machine = machine.map_err(|error| Failure::Input(error.to_string()))?;
        let benchmark = find(LATENCY).expect("the benchmark is one of the suite's");
        let modelled = Modelled {
            options: options(SMALL).for_benchmarks(),
            budget: Budget {
                sweep: Sweep::Coarse,
                ..Budget::virtual_time()
            },
            ..Modelled::new(machine.clone(), benchmark)
        };
        let ran = modelled
            .run()
            .map_err(|error| Failure::Suite(error.to_string()))?;
        let mut points = ran.records.iter().filter_map(|record| match record {
            Record::Point(point) => Some(point.as_ref()),
            _ => None,
        });
        // The text after the comma names the host.
        let name = machine.about().split(',').next().unwrap_or(PROFILE);
        Ok(Model {
            latency: headline(points.next(), LATENCY, None)?.value,
            name: name.trim().to_owned(),
        })
    }
}

/// Returns the options for one point of a benchmark: reliable connection, one size.
fn options(size: usize) -> MeasureOptions {
    MeasureOptions {
        sizes: Some(vec![size]),
        transports: Some(vec!["rc".to_owned()]),
        ..MeasureOptions::quick_on(Target::Software)
    }
}

/// Measures a benchmark's headline metric at one size, in separate processes; `None` at the
/// deadline.
fn measured(
    host: &dyn Host,
    target: &Resolved,
    nanos: Option<f64>,
    (name, size): (&'static str, usize),
    stop: &Arc<AtomicBool>,
    deadline: Instant,
) -> Result<Option<Metric>, Failure> {
    let options = options(size);
    let task = Task::new(target.clone(), &options, nanos, Floors::default());
    let mut point: Option<Box<Point>> = None;
    let mut failure = None;
    let is_late = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        // Dropped when the launch has ended, which ends the watching thread.
        let (running, watched) = channel::<()>();
        let is_late = &is_late;
        scope.spawn(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            if watched.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                is_late.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
        });
        let ended = launch(host, &task, name, 0, 2, stop, |line| {
            match line {
                Line::Point(found) => point = point.take().or(Some(found)),
                Line::Failure(found) => failure = Some(found.reason),
                _ => {}
            }
            Ok(())
        });
        drop(running);
        ended
    })?;
    if is_late.load(Ordering::Relaxed) {
        // Set by the watching thread, not by the user.
        stop.store(false, Ordering::Relaxed);
        return Ok(None);
    }
    match ended {
        Ended::Well => headline(point.as_deref(), name, failure).map(Some),
        Ended::Interrupted => Err(Failure::Suite(format!("{name} was interrupted"))),
        Ended::Failed(reason) => Err(Failure::Suite(format!("{name}: {reason}"))),
    }
}

/// Returns the first metric of a point.
///
/// # Errors
///
/// Gives the reason if there is none.
fn headline(point: Option<&Point>, name: &str, failure: Option<String>) -> Result<Metric, Failure> {
    let found = point.and_then(|point| point.metrics.first());
    found.cloned().ok_or_else(|| {
        let reason = failure.unwrap_or_else(|| "nothing was measured".to_owned());
        Failure::Suite(format!("{name}: {reason}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modelled_adapter_has_a_plausible_latency() {
        let model = Model::compute().unwrap();
        assert_eq!(model.name, "ConnectX-6 HDR");
        assert!(
            (300.0..10_000.0).contains(&model.latency),
            "{}",
            model.latency
        );
    }
}

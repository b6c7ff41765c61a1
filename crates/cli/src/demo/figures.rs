//! The figures of the demonstration: measured by the suite's own benchmarks, in two processes, and
//! computed by a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Instant;

use crate::failure::Failure;
use crate::profiles::ProfileOptions;
use crate::suite::local::{Ended, launch};
use crate::suite::options::MeasureOptions;
use crate::suite::plan::{Floors, Task};
use crate::suite::target::{Found, Resolved, Target};
use verbena_fabric::model::Fidelity;
use verbena_measure::clock::Clock;
use verbena_measure::result::{Metric, Point};
use verbena_report::schema::Line;
use verbena_workloads::modelled::Modelled;
use verbena_workloads::{Budget, Record, Sweep, find};

/// The adapter to compare with.
const PROFILE: &str = "connectx6-hdr";
const LATENCY: &str = "latency.write";
const BANDWIDTH: &str = "bandwidth.write";
/// Bytes of a write whose latency is measured.
const SMALL: usize = 8;
/// Bytes of a write whose bandwidth is measured.
const LARGE: usize = 64 << 10;

/// What was measured. `None` is what could not be measured in time, because the machine is busy
/// with other work.
pub struct Figures {
    /// Of a small write, one way.
    pub latency: Option<Latency>,
    /// Bytes a second of large writes.
    pub bandwidth: Option<f64>,
    /// Bytes of each of them.
    pub size: usize,
}

/// Times of an operation.
pub struct Latency {
    /// The median in nanoseconds.
    pub median: f64,
    /// Nanoseconds that 99 of 100 operations take at most, where enough were timed.
    pub slow: Option<f64>,
    /// How many were timed.
    pub operations: u64,
}

impl Figures {
    /// Measures latency and bandwidth, each until its deadline or until `stop` is set.
    ///
    /// # Errors
    /// The benchmarks do not run here.
    pub fn measure(stop: &Arc<AtomicBool>, deadlines: [Instant; 2]) -> Result<Figures, Failure> {
        let profiles = ProfileOptions::default();
        let Found::Adapter(target) = Target::Software.find(&profiles)? else {
            unreachable!("the software adapter is no model");
        };
        let clock = Clock::best();
        let nanos = (clock.name() == "tsc").then_some(clock.nanos_per_tick);
        // Another process of this user that ends meanwhile may remove the runtime directory, which
        // is empty between two launches; a launch that fails for that succeeds when it is repeated.
        let twice = |point, deadline| {
            measured(&target, nanos, point, stop, deadline)
                .or_else(|_| measured(&target, nanos, point, stop, deadline))
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

/// What a model computes.
pub struct Model {
    /// Nanoseconds of the same small write, one way.
    pub latency: f64,
    /// The adapter's name.
    pub name: String,
}

impl Model {
    /// Computes it.
    ///
    /// # Errors
    /// The profiles that are shipped do not have it.
    pub fn compute() -> Result<Model, Failure> {
        let target = Target::Model {
            profile: PROFILE.to_owned(),
            fidelity: Fidelity::Packet,
        };
        let Found::Model(found) = target.find(&ProfileOptions::default())? else {
            unreachable!("a model is no adapter");
        };
        let benchmark = find(LATENCY).expect("the benchmark is one of the suite's");
        let modelled = Modelled {
            options: options(target, SMALL).for_benchmarks(),
            budget: Budget {
                sweep: Sweep::Coarse,
                ..Budget::virtual_time()
            },
            ..Modelled::new(found.machine.clone(), benchmark)
        };
        let ran = modelled
            .run()
            .map_err(|error| Failure::Suite(error.to_string()))?;
        let mut points = ran.records.iter().filter_map(|record| match record {
            Record::Point(point) => Some(point.as_ref()),
            _ => None,
        });
        // Behind the comma is what it is attached to.
        let name = found.machine.about().split(',').next().unwrap_or(PROFILE);
        Ok(Model {
            latency: headline(points.next(), LATENCY, None)?.value,
            name: name.trim().to_owned(),
        })
    }
}

/// One point of a benchmark: reliable connections, one size.
fn options(target: Target, size: usize) -> MeasureOptions {
    MeasureOptions {
        sizes: Some(vec![size]),
        transports: Some(vec!["rc".to_owned()]),
        ..MeasureOptions::quick_on(target)
    }
}

/// The headline of a benchmark at a size, measured by processes of their own; `None` at the
/// deadline.
fn measured(
    target: &Resolved,
    nanos: Option<f64>,
    (name, size): (&'static str, usize),
    stop: &Arc<AtomicBool>,
    deadline: Instant,
) -> Result<Option<Metric>, Failure> {
    let options = options(Target::Software, size);
    let task = Task::new(target.clone(), &options, nanos, Floors::default());
    let mut point: Option<Box<Point>> = None;
    let mut failure = None;
    let is_late = AtomicBool::new(false);
    let ended = thread::scope(|scope| {
        // Dropped when the launch has ended, which ends the watch.
        let (running, watched) = channel::<()>();
        let is_late = &is_late;
        scope.spawn(move || {
            let left = deadline.saturating_duration_since(Instant::now());
            if watched.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                is_late.store(true, Ordering::Relaxed);
                stop.store(true, Ordering::Relaxed);
            }
        });
        let ended = launch(&task, name, 0, 2, stop, |line| {
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
        // It was not the user who stopped it.
        stop.store(false, Ordering::Relaxed);
        return Ok(None);
    }
    match ended {
        Ended::Well => headline(point.as_deref(), name, failure).map(Some),
        Ended::Interrupted => Err(Failure::Suite(format!("{name} was interrupted"))),
        Ended::Failed(reason) => Err(Failure::Suite(format!("{name}: {reason}"))),
    }
}

/// The first metric of a point, or why there is none.
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
    fn the_model_is_computed_and_slower_than_no_wire() {
        let model = Model::compute().unwrap();
        assert_eq!(model.name, "ConnectX-6 HDR");
        assert!(
            (300.0..10_000.0).contains(&model.latency),
            "{}",
            model.latency
        );
    }
}

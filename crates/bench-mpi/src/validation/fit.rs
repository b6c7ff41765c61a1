//! Measures the communication costs of a transport: `mpi.latency`, `mpi.bandwidth`, exchanges and
//! barriers, and the eager limit.

use super::probe;
use crate::ready::Ready;
use crate::{Failure, Mpi, catalogue};
use serde::Serialize;
use std::collections::BTreeMap;
use verbena_bench::Failure as BenchFailure;
use verbena_bench::options::MeasureOptions;
use verbena_bench::target::Target;
use verbena_measure::result::{Point, Value};
use verbena_replay::host::{Costs, Machine, TimeCurve as Curve};
use verbena_report::run_directory::Loaded;

const LATENCY: &str = "mpi.latency";
const BANDWIDTH: &str = "mpi.bandwidth";
const SIZES: [usize; 8] = [1, 64, 512, 4096, 16_384, 65_536, 262_144, 1 << 20];

/// The measured costs of a transport.
#[derive(Debug, Clone, Serialize)]
pub struct Fitted {
    /// Name of the transport.
    #[serde(rename = "way")]
    pub transport: String,
    /// Largest message in bytes that does not wait for its receiver (eager limit).
    pub eager: u64,
    /// One-way latency in nanoseconds by size in bytes.
    pub one_way: Vec<(u64, f64)>,
    /// Time per message in nanoseconds by size in bytes, for messages in a row over buffers that do
    /// not fit the caches.
    pub in_a_row: Vec<(u64, f64)>,
    /// By number of processes and size in bytes, nanoseconds of an exchange between processes that
    /// have just computed, and of one directly after it.
    pub exchanges: BTreeMap<usize, Vec<(u64, [f64; 2])>>,
    /// Nanoseconds of a barrier, by number of processes.
    pub barriers: BTreeMap<usize, f64>,
    /// Machine and costs used for predictions, by number of processes.
    #[serde(skip)]
    pub hosts: BTreeMap<usize, (Machine, Costs)>,
}

impl Fitted {
    /// Measures a transport.
    ///
    /// # Errors
    ///
    /// Fails if a benchmark or the probe cannot run, or yields no usable curve.
    pub(super) fn measured(
        name: &str,
        target: &Target,
        ready: &Ready,
        mpi: &Mpi,
        processes: &[usize],
        machine: &Machine,
    ) -> Result<Fitted, Failure> {
        let benchmarks = [LATENCY, BANDWIDTH].map(|name| {
            let mut all = catalogue::all();
            all.find(|one| one.name == name).expect("it is listed")
        });
        let options = MeasureOptions {
            sizes: Some(SIZES.to_vec()),
            threads: 1,
            ..MeasureOptions::quick_on(target.clone())
        };
        let runs = mpi.engine().measure(&benchmarks, &options, None, |_| ())?;
        let run = runs
            .first()
            .ok_or_else(|| BenchFailure::Suite("nothing was measured".to_owned()))?;
        let one_way = by_size(run, LATENCY, "one-way-latency", |nanos| nanos);
        let in_a_row = by_size(run, BANDWIDTH, "message-rate", |rate| 1e9 / rate);
        let curve = |what: &str, points: Vec<(u64, f64)>| {
            Curve::of(points).ok_or_else(|| {
                let failed = run.failures.first().map_or("", |failure| &failure.reason);
                BenchFailure::Suite(format!("{what} over {name} was not measured {failed}"))
            })
        };
        let mut fitted = Fitted {
            transport: name.to_owned(),
            eager: 0,
            exchanges: BTreeMap::new(),
            barriers: BTreeMap::new(),
            hosts: BTreeMap::new(),
            one_way,
            in_a_row,
        };
        for &processes in processes {
            let asked = probe::run(ready, processes, &SIZES)?;
            let [first, second] = [0, 1].map(|which| {
                let points = asked.exchanges.iter();
                let points = points.map(|(bytes, times)| (*bytes, times[which]));
                undisturbed(points.collect())
            });
            let costs = Costs {
                one_way: curve(LATENCY, fitted.one_way.clone())?,
                after_computing: curve("an exchange", first)?,
                shortly_after: curve("a second exchange", second)?,
                in_a_row: curve(BANDWIDTH, fitted.in_a_row.clone())?,
                eager: asked.eager,
            };
            fitted.eager = asked.eager;
            fitted.exchanges.insert(processes, asked.exchanges);
            fitted.barriers.insert(processes, asked.barrier);
            let machine = machine.giving_way_as_in_barriers(&costs, processes, asked.barrier);
            fitted.hosts.insert(processes, (machine, costs));
        }
        Ok(fitted)
    }
}

/// Returns a metric of a benchmark by size, as a time.
fn by_size(
    run: &Loaded,
    benchmark: &str,
    metric: &str,
    time: impl Fn(f64) -> f64,
) -> Vec<(u64, f64)> {
    let point = |point: &Point| {
        let Some(Value::Number(size)) = point.parameters.get("size") else {
            return None;
        };
        let metric = point.metrics.iter().find(|one| one.name == metric)?;
        Some((*size as u64, time(metric.value)))
    };
    let points = run.points.iter().filter(|one| one.benchmark == benchmark);
    points.filter_map(point).collect()
}

/// Makes times of growing sizes monotonic: a smaller message that took longer than a larger one was
/// disturbed by another process.
fn undisturbed(mut points: Vec<(u64, f64)>) -> Vec<(u64, f64)> {
    let mut least = f64::INFINITY;
    for (_, nanos) in points.iter_mut().rev() {
        least = least.min(*nanos);
        *nanos = least;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::undisturbed;

    #[test]
    fn a_smaller_message_takes_no_longer_than_a_larger_one() {
        let measured = vec![
            (1, 346.0),
            (64, 5.0),
            (512, 9.0),
            (4096, 8.0),
            (16_384, 20.0),
        ];
        let times = [5.0, 5.0, 8.0, 8.0, 20.0];
        let found: Vec<f64> = undisturbed(measured)
            .into_iter()
            .map(|(_, nanos)| nanos)
            .collect();
        assert_eq!(found, times);
    }
}

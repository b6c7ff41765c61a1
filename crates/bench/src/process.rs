//! A process of a benchmark: opens the adapter, joins the job, and runs the benchmark.

use super::plan::Task;
use super::resolved::Port;
use crate::Failure;
use crate::host::Host;
use crate::interrupt;
use crate::ip;
use std::path::Path;
use std::time::Duration;
use verbena_fabric::verbs::{
    Hosts, JobGroup, OpenRequest, Rendezvous, VerbsProcess, WaitLimit, WriteOrdering,
    connect_to_hub,
};
use verbena_fabric::{Error, executor};
use verbena_measure::clock::Clock;
use verbena_measure::result::Failure as PointFailure;
use verbena_report::schema::Line;
use verbena_verbs::Library;
use verbena_workloads::{Context, Record, WaitingBudget, run};

/// Time without progress after which a process gives up on its peer.
const PATIENCE: Duration = Duration::from_secs(6);
/// The same for the exchange; longer, because a peer may itself still be waiting.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// The position of a process in its job.
pub struct Standing<'a> {
    /// Rank of this process.
    pub rank: usize,
    /// Number of processes.
    pub size: usize,
    pub job: &'a str,
    /// Returns the possible addresses of the exchange and the secret, or why they are not known
    /// yet.
    pub rendezvous: &'a dyn Fn() -> Result<Rendezvous, String>,
    /// The page for barriers, used if all processes are on one node.
    pub page: &'a Path,
}

/// Opens the adapter and joins the job.
///
/// # Errors
///
/// Fails if the exchange is not reached, or the adapter cannot be opened.
pub fn open(
    host: &'static dyn Host,
    task: &Task,
    standing: Standing<'_>,
) -> Result<VerbsProcess, Error> {
    ip::note_processors();
    let refused = |failure: Failure| Error::adapter("catching signals", failure.to_string());
    interrupt::watch(host).map_err(refused)?;
    let clock = match task.nanos_per_tick {
        Some(nanos) => Clock::calibrated(nanos).unwrap_or_else(Clock::best),
        None => Clock::system(),
    };
    let Standing { rank, size, .. } = standing;
    let mut patience = WaitLimit::new(PATIENCE);
    patience.stop = interrupt::flag();
    let mut slow = patience.clone();
    slow.limit = EXCHANGE_PATIENCE;
    let mut exchange = connect_to_hub(standing.rendezvous, standing.job, rank, &slow)?;
    let hosts = Hosts::ask(&mut exchange, rank, size, &slow)?;
    let page = hosts.page(&mut exchange, standing.page, &slow)?;
    let group = JobGroup::new(hosts.placement(), Some(exchange), page, clock.clone(), slow);
    let library = Library::open(&task.target.library)?;
    VerbsProcess::open(&library, &request(task), group, clock, patience)
}

/// Opens the adapter again for the remaining processes of the job.
///
/// # Errors
///
/// Fails if it cannot be opened.
pub fn open_among(
    task: &Task,
    fabric: VerbsProcess,
    left: &[usize],
) -> Result<VerbsProcess, Error> {
    let library = Library::open(&task.target.library)?;
    fabric.among(left, &library, &request(task))
}

fn request(task: &Task) -> OpenRequest {
    OpenRequest {
        kind: task.target.fabric_kind(),
        rails: task.target.ports.iter().map(Port::rail).collect(),
        gid_index: task.gid_index,
        marks: task.route.marks(),
        ordering: match task.relaxed_ordering {
            true => WriteOrdering::Relaxed,
            false => WriteOrdering::Strict,
        },
    }
}

/// Runs one benchmark in this process.
///
/// # Errors
///
/// Returns the benchmark's error.
pub fn run_one(
    host: &dyn Host,
    fabric: &VerbsProcess,
    task: &Task,
    benchmark: &'static str,
    launch: u32,
    sink: &dyn Fn(Line),
) -> Result<(), Error> {
    let options = task.options(fabric.processors());
    let interfaces = |number| ip::open(host, task, fabric, number);
    let context = Context {
        fabric,
        benchmark,
        launch,
        options: &options,
        budget: task.budget(),
        waiting_budget: &WaitingBudget::default(),
        interfaces: Some(&interfaces),
        sink: &|record| sink(line(record)),
    };
    executor::block_on(run(&context))
}

/// Converts a record to a line of a results file. A point with a figure that is not finite becomes
/// a failure, because no file can hold it.
pub fn line(record: Record) -> Line {
    match record {
        Record::Point(point) => match point.unusable() {
            None => Line::Point(point),
            Some(reason) => Line::Failure(PointFailure {
                benchmark: point.benchmark,
                launch: point.launch,
                parameters: point.parameters,
                reason,
                unsupported: false,
            }),
        },
        Record::Failure(failure) => Line::Failure(failure),
        Record::Finding(finding) => Line::Finding(finding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verbena_measure::compare::Better;
    use verbena_measure::result::{Metric, Point};

    #[test]
    fn a_figure_that_is_not_a_number_is_kept_and_reported() {
        let of = |value: f64| {
            line(Record::Point(Box::new(Point {
                benchmark: "bandwidth.write".to_owned(),
                metrics: vec![Metric::figure(
                    "bandwidth",
                    "bytes/s",
                    Better::Higher,
                    value,
                )],
                ..Point::default()
            })))
        };
        assert!(matches!(of(1.0), Line::Point(_)));
        for value in [f64::INFINITY, f64::NAN] {
            let told = of(value);
            let read = serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
            assert_eq!(told, read);
            let Line::Failure(failure) = read else {
                panic!("{read:?}");
            };
            assert_eq!(failure.reason, format!("its bandwidth came out as {value}"));
        }
    }
}

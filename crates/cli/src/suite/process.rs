//! A process of a benchmark: opens the adapter, joins the job, runs, tells.

use super::plan::Task;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use verbena_fabric::verbs::{
    Hosts, JobGroup, OpenRequest, Patience, Rendezvous, VerbsProcess, connect_to_hub,
};
use verbena_fabric::{Error, executor};
use verbena_measure::clock::Clock;
use verbena_report::schema::Line;
use verbena_verbs::Library;
use verbena_workloads::{Context, Record, run};

/// Without progress for so long, a process gives up on its peer.
const PATIENCE: Duration = Duration::from_secs(6);
/// The exchange waits longer, for a peer that is still being patient.
const EXCHANGE_PATIENCE: Duration = Duration::from_secs(30);

/// Where a process stands in its job.
pub struct Standing<'a> {
    /// This process.
    pub rank: usize,
    /// All processes.
    pub size: usize,
    /// The job's name.
    pub job: &'a str,
    /// Where the exchange may listen and what proves that it does, or why that is not known yet.
    pub rendezvous: &'a dyn Fn() -> Result<Rendezvous, String>,
    /// The page for barriers, if all are on one node.
    pub page: &'a Path,
}

/// Opens the adapter and joins the job.
pub fn open(task: &Task, standing: Standing<'_>) -> Result<VerbsProcess, Error> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|e| adapter("catching signals", &e))?;
    }
    let clock = match task.nanos_per_tick {
        Some(nanos) => Clock::calibrated(nanos).unwrap_or_else(Clock::best),
        None => Clock::system(),
    };
    let Standing { rank, size, .. } = standing;
    let mut patience = Patience::new(PATIENCE);
    patience.stop = stop;
    let mut slow = patience.clone();
    slow.limit = EXCHANGE_PATIENCE;
    let mut exchange = connect_to_hub(standing.rendezvous, standing.job, rank, &slow)?;
    let hosts = Hosts::ask(&mut exchange, rank, size, &slow)?;
    let page = hosts.page(&mut exchange, standing.page, &slow)?;
    let group = JobGroup::new(hosts.placement(), Some(exchange), page, clock.clone(), slow);
    let library = Library::open(&task.target.library)?;
    let request = OpenRequest {
        kind: task.target.fabric_kind(),
        device: Some(task.target.device.clone()),
        port: task.target.port,
        gid_index: task.gid_index,
    };
    VerbsProcess::open(&library, &request, group, clock, patience)
}

fn adapter(call: &str, error: &std::io::Error) -> Error {
    Error::Adapter {
        call: call.to_owned(),
        reason: error.to_string(),
    }
}

/// Runs one benchmark in this process.
pub fn run_one(
    fabric: &VerbsProcess,
    task: &Task,
    benchmark: &'static str,
    launch: u32,
    sink: &dyn Fn(Line),
) -> Result<(), Error> {
    let options = task.options(fabric.processors());
    let context = Context {
        fabric,
        benchmark,
        launch,
        options: &options,
        budget: task.budget(),
        sink: &|record| sink(line(record)),
    };
    executor::block_on(run(&context))
}

/// A record as a line of a results file.
pub fn line(record: Record) -> Line {
    match record {
        Record::Point(point) => Line::Point(point),
        Record::Failure(failure) => Line::Failure(failure),
        Record::Finding(finding) => Line::Finding(finding),
    }
}

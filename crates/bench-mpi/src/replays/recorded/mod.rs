//! Replays of recorded MPI programs.

mod page;
mod sensitivity;
mod table;

pub use super::comparison::judge;
pub use page::page;
pub use sensitivity::{Examined, Found, assumptions, changes};
pub use table::text;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::comparison::{Comparable, Compared, ToldVerdict};
use super::interval::{self, Judge, ToldInterval};
use super::{Setup, busiest, check_nodes, effort, fabrics, input};
use crate::Failure;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_measure::result::HotPort;
use verbena_model::kernel::Time;
use verbena_model::profile::Rate;
use verbena_mpi_trace::{Summary, Trace};
use verbena_replay::recorded::{
    Error, Replay, Replayed as Outcome, Waited, goal, least, programs, run as replay, timeline,
};
use verbena_replay::{Parts, Program, cyclic};
use verbena_workloads::modelled::hot_ports;

/// How a trace is replayed.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Number of nodes, over which the ranks are dealt in turn; by default one a rank.
    pub nodes: Option<usize>,
    /// Number of consecutive ranks on each node, instead.
    pub ranks_per_node: Option<u64>,
    /// Factor for the recorded computing time.
    pub compute_scale: f64,
    /// Memory traffic of a rank's computing, if it is charged.
    pub memory_traffic: Option<Rate>,
    /// File for the schedule in GOAL's text format.
    pub write_goal: Option<PathBuf>,
    /// File for the timeline.
    pub write_timeline: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            nodes: None,
            ranks_per_node: None,
            compute_scale: 1.0,
            memory_traffic: None,
            write_goal: None,
            write_timeline: None,
        }
    }
}

impl Settings {
    /// Returns the node of each rank.
    fn placed(&self, ranks: usize) -> Result<Vec<usize>, Failure> {
        check_nodes(self.nodes, ranks)?;
        Ok(match (self.ranks_per_node, self.nodes) {
            (Some(together), _) => (0..ranks).map(|rank| rank / together as usize).collect(),
            (None, nodes) => cyclic(ranks, nodes.unwrap_or(ranks)),
        })
    }
}

/// The results of a replay; times in nanoseconds.
#[derive(Debug, Serialize)]
pub struct PrintedPoint {
    /// The directory of the trace.
    trace: String,
    system: String,
    setup: Setup,
    ranks: usize,
    nodes: usize,
    /// How the ranks shared processors during the recording, if they did.
    #[serde(skip_serializing_if = "Option::is_none")]
    crowded: Option<Crowded>,
    calls: u64,
    /// Messages sent by the program itself; collective operations count as the bytes passed to
    /// them.
    messages: u64,
    bytes: u64,
    collective_bytes: u64,
    compute_scale: f64,
    /// Memory traffic of computation, in bytes per second, if given.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_traffic: Option<f64>,
    /// End of the last rank.
    nanoseconds: f64,
    /// Links and computing permit no less.
    least: f64,
    /// How far that may be from a real system's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<ToldInterval>,
    /// The verdict against the first model, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    against_first: Option<ToldVerdict>,
    by_rank: Vec<ToldRank>,
    chain: ToldChain,
    /// The largest part of the critical path, in words.
    limit: String,
    /// The hottest ports of a fabric that exists.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hot_ports: Vec<HotPort>,
    /// Anchors of the model, and how well it fits them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anchors: Vec<String>,
}

impl PrintedPoint {
    /// Returns the fabrics of a trace's replays on several systems.
    fn fabrics(all: &[Replayed]) -> Vec<String> {
        fabrics(all.iter().map(|one| (&*one.told.system, &one.told.setup)))
    }

    /// Returns the time, and the part that is exact.
    fn parts(&self) -> interval::Parts {
        interval::Parts {
            all: self.nanoseconds,
            computing: self.chain.computing,
            least: self.least,
        }
    }
}

/// Ranks that shared processors of a host during the recording.
#[derive(Debug, Clone, Copy, Serialize)]
struct Crowded {
    ranks: u64,
    processors: u64,
}

impl Crowded {
    /// Returns a warning.
    fn text(self) -> String {
        let Crowded { ranks, processors } = self;
        let each = ranks.div_ceil(processors.max(1));
        let shared = match processors {
            1 => "one processor".to_owned(),
            several => format!("{several} processors"),
        };
        format!(
            "warning: recorded with {ranks} ranks on {shared}, up to {each} a processor: computing \
             times include effects of the ranks on each other, such as in caches"
        )
    }
}

#[derive(Debug, Serialize)]
struct ToldRank {
    computing: f64,
    overhead: f64,
    waiting: f64,
    /// The part of the waiting time for messages on the wire.
    wire: f64,
    /// The rest, by the rank that had not yet performed the awaited operation.
    waiting_for: BTreeMap<usize, f64>,
    end: f64,
}

/// The critical path: consecutive parts that add up to the total time.
#[derive(Debug, Serialize)]
struct ToldChain {
    computing: f64,
    overhead: f64,
    wire: f64,
    /// Number of transitions between ranks.
    crossings: usize,
}

/// A replay on a model.
pub struct Replayed {
    /// Its results.
    pub told: PrintedPoint,
    outcome: Outcome,
    judge: Option<Judge>,
}

impl Comparable for Replayed {
    fn compared(&self) -> Compared<'_> {
        Compared {
            system: &self.told.system,
            parts: self.told.parts(),
            interval: self.told.interval.as_ref(),
            judge: self.judge.as_ref(),
        }
    }

    fn set_verdict(&mut self, verdict: Option<ToldVerdict>) {
        self.told.against_first = verdict;
    }
}

/// The replays of a trace, one on each model; the first is the one that the others are compared
/// with.
pub type OnEach = Vec<Replayed>;

/// Replays a trace on a model.
///
/// # Errors
///
/// Fails if the trace cannot be read or replayed, the model has no message-passing library, or a
/// file cannot be written.
pub fn replay_on(
    model: &ModelTarget,
    trace: &Trace,
    settings: &Settings,
    profiles: &Profiles,
) -> Result<Replayed, Failure> {
    let directory = &trace.path;
    let system = model.system()?;
    let Some(library) = &system.mpi else {
        let name = &system.name;
        return Err(input(format!(
            "{name} has no message-passing library; name one as `mpi` in its profile of kind system"
        )));
    };
    let programs = programs(trace, library).map_err(|error| match error {
        Error::Trace(error) => Failure::Trace(error),
        other => input(format!("{}: {other}", directory.display())),
    })?;
    let run = Replay {
        system,
        fidelity: model.fidelity,
        nodes: settings.placed(programs.len())?,
        compute_scale: settings.compute_scale,
        memory_traffic: settings.memory_traffic,
    };
    if let Some(file) = &settings.write_goal {
        write_goal(file, &programs, run.compute_scale)?;
    }
    let summary = Summary::of(trace);
    let sent = &summary.all;
    let sizes = match sent.messages {
        0 => (sent.collective_bytes, sent.calls),
        messages => (sent.bytes, messages),
    };
    let judge = Judge::of(model, profiles, sizes)?;
    let in_order = judge.as_ref().map_or(Time::ZERO, |judge| {
        let wire = |bytes| judge.message(bytes);
        least(&programs, &run.nodes, run.compute_scale, wire)
    });
    let nodes = run.nodes.iter().max().map_or(0, |node| node + 1);
    let cost = effort::of_programs((system, model.fidelity), &programs, nodes);
    let what = format!("{} on {}", directory.display(), model.name());
    let mut outcome = effort::announced(&what, cost, || {
        replay(&run, programs)
            .map_err(|failure| input(format!("{}: {failure}", directory.display())))
    })?;
    if let Some(file) = &settings.write_timeline {
        write_timeline(file, &outcome)?;
    }
    // Timelines are as long as the trace, and only one at a time is needed.
    outcome.timelines = Vec::new();
    let mut told = told(directory, &run, &summary, &outcome);
    told.least = interval::least(in_order, outcome.bottleneck.as_ref());
    told.limit = table::limit(&told, &outcome);
    if let Some(busiest) = busiest(outcome.bottleneck.as_ref(), told.nanoseconds) {
        told.limit += &format!("; {busiest}");
    }
    told.crowded = trace
        .crowded()
        .map(|(ranks, processors)| Crowded { ranks, processors });
    model.name().clone_into(&mut told.system);
    told.anchors.clone_from(&model.remarks);
    told.interval = judge.as_ref().and_then(|judge| judge.told(told.parts()));
    Ok(Replayed {
        told,
        outcome,
        judge,
    })
}

fn write_goal(file: &Path, programs: &[Program], scale: f64) -> Result<(), Failure> {
    let mut text = String::new();
    goal(programs, scale, &mut text).expect("writing to a string succeeds");
    fs::write(file, text)
        .map_err(|error| input(format!("cannot write {}: {error}", file.display())))
}

fn write_timeline(file: &Path, outcome: &Outcome) -> Result<(), Failure> {
    let written = File::create(file).and_then(|made| {
        let mut to = BufWriter::new(made);
        timeline(outcome, &mut to)?;
        to.flush()
    });
    written.map_err(|error| input(format!("cannot write {}: {error}", file.display())))
}

fn told(directory: &Path, run: &Replay<'_>, summary: &Summary, outcome: &Outcome) -> PrintedPoint {
    let rank = |(parts, waited): (&Parts, &Waited)| ToldRank {
        computing: parts.computing.nanos(),
        overhead: parts.overhead.nanos(),
        waiting: parts.waiting.nanos(),
        wire: waited.wire.nanos(),
        waiting_for: waited
            .others
            .iter()
            .map(|(rank, time)| (*rank, time.nanos()))
            .collect(),
        end: parts.end.nanos(),
    };
    let nodes = run.nodes.iter().max().map_or(0, |node| node + 1);
    let [computing, overhead, wire] = outcome.chain.shares().map(|share| share.nanos());
    PrintedPoint {
        trace: directory.display().to_string(),
        system: run.system.name.clone(),
        setup: Setup::of(run.system, nodes),
        ranks: outcome.ranks.len(),
        nodes,
        crowded: None,
        calls: summary.all.calls,
        messages: summary.all.messages,
        bytes: summary.all.bytes,
        collective_bytes: summary.all.collective_bytes,
        compute_scale: run.compute_scale,
        memory_traffic: run.memory_traffic.map(|rate| rate.0),
        nanoseconds: outcome.last().nanos(),
        least: 0.0,
        interval: None,
        against_first: None,
        by_rank: outcome
            .ranks
            .iter()
            .zip(&outcome.waited)
            .map(rank)
            .collect(),
        chain: ToldChain {
            computing,
            overhead,
            wire,
            crossings: outcome.chain.crossings(),
        },
        limit: String::new(),
        hot_ports: hot_ports(&outcome.hot_ports),
        anchors: Vec::new(),
    }
}

//! Replays recorded MPI programs.

mod page;
mod sensitivity;
mod table;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use serde::Serialize;

use super::interval::{self, Judge, ToldInterval};
use super::source::Source;
use super::{concluded, print_json};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interrupt;
use crate::number;
use sensitivity::Examined;
use verbena_bench::bar::Bar;
use verbena_bench::model_target::ModelTarget;
use verbena_bench::profiles::Profiles;
use verbena_model::profile::Rate;
use verbena_mpi_trace::{Summary, Trace};
use verbena_replay::recorded::{
    Error, Replay, Replayed as Outcome, Waited, goal, programs, run as replay, timeline,
};
use verbena_replay::{Parts, Program, cyclic};

/// How a trace is replayed.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Put N consecutive ranks of a trace on each node
    #[arg(long, value_name = "N", value_parser = number::between::<u64>(1..=4096))]
    ranks_per_node: Option<u64>,

    /// Multiply the computing time of a trace by X
    ///
    /// 1 is the recorded time.
    #[arg(long, value_name = "X", value_parser = scale)]
    compute_scale: Option<f64>,

    /// Charge computing with this memory bandwidth, a rank
    ///
    /// With its unit, e.g. 1.5GB/s or 800MB/s. The ranks of a node share its memory.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    memory_traffic: Option<Rate>,

    /// Write an HTML page of the replay of traces
    ///
    /// The predicted time on each model, and how ranks spend it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Search the assumed values that would change a verdict
    ///
    /// Of several models: each assumed value is halved and doubled, one at a time, and the traces
    /// are replayed again on all models.
    #[arg(long)]
    sensitivity: bool,

    /// Write a trace as a schedule in GOAL's text format, too
    ///
    /// With the collective operations of the model's library.
    #[arg(long, value_name = "FILE")]
    write_goal: Option<PathBuf>,

    /// Write a timeline of a trace for Perfetto or Chrome
    ///
    /// The activity of each rank over time; open it in ui.perfetto.dev or chrome://tracing.
    #[arg(long, value_name = "FILE")]
    write_timeline: Option<PathBuf>,
}

/// Parses the factor for computing time.
fn scale(word: &str) -> Result<f64, String> {
    match word.parse() {
        Ok(scale) if (1e-3..=1e3).contains(&scale) => Ok(scale),
        _ => Err("expected a number from 0.001 to 1000".to_owned()),
    }
}

/// Parses a rate in bytes per second, with a unit as in profiles.
fn rate(word: &str) -> Result<Rate, String> {
    let wrong = || {
        "expected a number from 0.001 to 1000000 followed by MB/s or GB/s, e.g. 1.5GB/s".to_owned()
    };
    let (number, unit) = word
        .strip_suffix("MB/s")
        .map(|number| (number, 1e6))
        .or_else(|| word.strip_suffix("GB/s").map(|number| (number, 1e9)))
        .ok_or_else(wrong)?;
    match number.trim_end().parse::<f64>() {
        Ok(number) if (1e-3..=1e6).contains(&number) => Ok(Rate(number * unit)),
        _ => Err(wrong()),
    }
}

impl Options {
    /// Rejects options that do not apply to schedules.
    ///
    /// # Errors
    ///
    /// Names such an option if it was given.
    pub fn refuse(&self) -> Result<(), Failure> {
        let given = [
            ("--ranks-per-node", self.ranks_per_node.is_some()),
            ("--compute-scale", self.compute_scale.is_some()),
            ("--memory-traffic", self.memory_traffic.is_some()),
            ("--out", self.out.is_some()),
            ("--sensitivity", self.sensitivity),
            ("--write-goal", self.write_goal.is_some()),
            ("--write-timeline", self.write_timeline.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Failure::Input(format!(
                "{option} is for traces, the directories that `verbena record` writes"
            ))),
            None => Ok(()),
        }
    }

    /// Returns the node of each rank.
    fn placed(&self, ranks: usize, nodes: Option<usize>) -> Result<Vec<usize>, Failure> {
        if nodes == Some(0) {
            return Err(Failure::Input("a trace needs at least one node".to_owned()));
        }
        Ok(match (self.ranks_per_node, nodes) {
            (Some(together), _) => (0..ranks).map(|rank| rank / together as usize).collect(),
            (None, nodes) => cyclic(ranks, nodes.unwrap_or(ranks)),
        })
    }
}

/// The results of a replay; times in nanoseconds.
#[derive(Serialize)]
struct Told {
    /// The directory of the trace.
    trace: String,
    system: String,
    ranks: usize,
    nodes: usize,
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
    /// How far that may be from a real system's time.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<ToldInterval>,
    by_rank: Vec<ToldRank>,
    chain: ToldChain,
    /// Anchors of the model, and how well it fits them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    anchors: Vec<String>,
}

impl Told {
    /// Returns the time, and the part that is exact.
    fn parts(&self) -> interval::Parts {
        interval::Parts {
            all: self.nanoseconds,
            computing: Some(self.chain.computing),
        }
    }
}

#[derive(Serialize)]
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
#[derive(Serialize)]
struct ToldChain {
    computing: f64,
    overhead: f64,
    wire: f64,
    /// Number of transitions between ranks.
    crossings: usize,
}

struct Replayed {
    told: Told,
    outcome: Outcome,
    judge: Option<Judge>,
}

type OnEach = Vec<Replayed>;

/// Replays each trace on each model and prints the times.
///
/// # Errors
///
/// Fails if options conflict, a trace cannot be read or replayed, or a file cannot be written.
pub fn run(
    sources: Vec<Source>,
    models: Vec<ModelTarget>,
    nodes: &[usize],
    options: Options,
    profiles: Profiles,
    json: bool,
) -> Result<Exit, Failure> {
    let nodes: Vec<Option<usize>> = match nodes {
        [] => vec![None],
        some => some.iter().map(|nodes| Some(*nodes)).collect(),
    };
    let alone = models.len() * sources.len() * nodes.len() == 1;
    if options.sensitivity && models.len() < 2 {
        let text = "--sensitivity is about verdicts: give --on at least twice";
        return Err(Failure::Input(text.to_owned()));
    }
    if options.write_goal.is_some() && !alone {
        let text = "--write-goal writes one trace for the MPI library of one model: give one \
                    TRACE and one --on";
        return Err(Failure::Input(text.to_owned()));
    }
    if options.write_goal.is_some() && options.memory_traffic.is_some() {
        let text = "--write-goal cannot express --memory-traffic: the ranks of a schedule share \
                    no memory";
        return Err(Failure::Input(text.to_owned()));
    }
    if options.write_timeline.is_some() && !alone {
        let text = "--write-timeline writes one replay: give one TRACE and one --on";
        return Err(Failure::Input(text.to_owned()));
    }
    let count = sources.len() * models.len() * nodes.len();
    let out = options.out.clone();
    let assumptions = match out {
        Some(_) => sensitivity::assumptions(&models, &profiles)?,
        None => Vec::new(),
    };
    let is_searched = options.sensitivity;
    let known = Arc::new(Mutex::new((Vec::<OnEach>::new(), Vec::<String>::new())));
    let bar = Bar::new(count, "replays");
    let keep = Arc::clone(&known);
    let ran = interrupt::unless_interrupted(move || -> Result<(), Failure> {
        for source in sources {
            let trace = source.trace()?;
            for nodes in &nodes {
                let replays = models.iter().map(|model| {
                    let replayed = replay_on(model, &trace, *nodes, &options, &profiles);
                    bar.step();
                    replayed
                });
                let on_each = replays.collect::<Result<OnEach, Failure>>()?;
                let examined = Examined {
                    trace: &trace,
                    models: &models,
                    nodes: *nodes,
                    options: &options,
                    profiles: &profiles,
                };
                let changing = match options.sensitivity {
                    true => examined.changing(&on_each)?,
                    false => Vec::new(),
                };
                let mut kept = keep.lock().expect("nothing panics under this lock");
                kept.0.push(on_each);
                kept.1.extend(changing);
            }
        }
        Ok(())
    });
    ran.transpose()?;
    let (replayed, changing) =
        std::mem::take(&mut *known.lock().expect("nothing panics under this lock"));
    let done: usize = replayed.iter().map(Vec::len).sum();
    match json {
        true => print_json(
            &replayed
                .iter()
                .flatten()
                .map(|one| &one.told)
                .collect::<Vec<_>>(),
        ),
        false if done > 0 => table::print(&replayed, is_searched.then_some(&changing[..])),
        false => {}
    }
    if let Some(file) = out.filter(|_| done == count) {
        let changing = is_searched.then_some(&changing[..]);
        page::write(&file, &replayed, &assumptions, changing)?;
    }
    Ok(concluded(done, count))
}

fn replay_on(
    model: &ModelTarget,
    trace: &Trace,
    nodes: Option<usize>,
    options: &Options,
    profiles: &Profiles,
) -> Result<Replayed, Failure> {
    let directory = &trace.path;
    let system = model.system()?;
    let Some(library) = &system.mpi else {
        let name = &system.name;
        return Err(Failure::Input(format!(
            "{name} has no message-passing library; name one as `mpi` in its profile of kind system"
        )));
    };
    let programs = programs(trace, library).map_err(|error| match error {
        Error::Trace(error) => Failure::Trace(error),
        other => Failure::Input(format!("{}: {other}", directory.display())),
    })?;
    let run = Replay {
        system,
        fidelity: model.fidelity,
        nodes: options.placed(programs.len(), nodes)?,
        compute_scale: options.compute_scale.unwrap_or(1.0),
        memory_traffic: options.memory_traffic,
    };
    if let Some(file) = &options.write_goal {
        write_goal(file, &programs, run.compute_scale)?;
    }
    let mut outcome = replay(&run, programs)
        .map_err(|failure| Failure::Input(format!("{}: {failure}", directory.display())))?;
    if let Some(file) = &options.write_timeline {
        write_timeline(file, &outcome)?;
    }
    // Timelines are as long as the trace, and only one at a time is needed.
    outcome.timelines = Vec::new();
    let summary = Summary::of(trace);
    let sent = &summary.all;
    let sizes = match sent.messages {
        0 => (sent.collective_bytes, sent.calls),
        messages => (sent.bytes, messages),
    };
    let judge = Judge::of(model, profiles, sizes)?;
    let mut told = told(directory, &run, &summary, &outcome);
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
        .map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))
}

fn write_timeline(file: &Path, outcome: &Outcome) -> Result<(), Failure> {
    let written = File::create(file).and_then(|made| {
        let mut to = BufWriter::new(made);
        timeline(outcome, &mut to)?;
        to.flush()
    });
    written.map_err(|error| Failure::Input(format!("cannot write {}: {error}", file.display())))
}

fn told(directory: &Path, run: &Replay<'_>, summary: &Summary, outcome: &Outcome) -> Told {
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
    let [computing, overhead, wire] = outcome.chain.shares().map(|share| share.nanos());
    Told {
        trace: directory.display().to_string(),
        system: run.system.name.clone(),
        ranks: outcome.ranks.len(),
        nodes: run.nodes.iter().max().map_or(0, |node| node + 1),
        calls: summary.all.calls,
        messages: summary.all.messages,
        bytes: summary.all.bytes,
        collective_bytes: summary.all.collective_bytes,
        compute_scale: run.compute_scale,
        memory_traffic: run.memory_traffic.map(|rate| rate.0),
        nanoseconds: outcome.last().nanos(),
        interval: None,
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
        anchors: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_number_with_its_unit() {
        let rates = ["1.5GB/s", "1500 MB/s", "0.001MB/s"].map(|word| rate(word).map(|rate| rate.0));
        assert_eq!(rates, [Ok(1.5e9), Ok(1.5e9), Ok(1e3)]);
        for word in [
            "", "1", "GB/s", "0GB/s", "-1GB/s", "nanGB/s", "infMB/s", "1e7GB/s", "1Gflop/s",
            "1 gb/s",
        ] {
            assert!(rate(word).is_err(), "{word}");
        }
    }
}
